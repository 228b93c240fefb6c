"""The inner agent: LOG, PLAN, GAMEPLAY at every step."""
