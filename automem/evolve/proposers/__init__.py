"""Proposers: whoever writes candidate scaffolds. Guide: `docs/proposers.md`."""
