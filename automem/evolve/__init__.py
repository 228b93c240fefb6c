"""Loop 1: a proposer rewrites the scaffold, a gate decides, nothing is lost."""
