"""Serving models over HTTP."""
