"""Policies: what a unit of history is worth. One Protocol, one small file per idea, made by name."""

from __future__ import annotations

from automem.evict.policies.base import Policy, make

__all__ = ["Policy", "make"]
