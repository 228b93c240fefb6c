"""Playing episodes: run folders, rollout, resume."""
