"""Scaffolds: file schema, upsert logic, prompts and budgets, as a folder."""
