"""Eviction in other people's agents: message lists of LangChain and LangGraph, memory of LlamaIndex, AppWorld's logs.

None of them imports the package it is for; they read the attributes that its messages have.
"""
