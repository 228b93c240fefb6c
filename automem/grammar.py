"""The operations: each declared once, and rendered from there into prompt, parser, grammar and tools."""
