"""The command line: one small file per verb or noun."""
