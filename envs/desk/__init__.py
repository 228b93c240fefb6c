"""Desk: a small tool-use world made to measure what a context must not forget. See docs/desk.md."""

from __future__ import annotations

from typing import Any

from .env import DeskEnv
from .tasks import TASKS, setting

__all__ = ["TASKS", "make"]


def make(task: str, **options: Any) -> DeskEnv:
    """The game of `task`, one of `TASKS`; `options` replace its parameters (see `DeskTask`).

    Raises:
        UsageError: an option that does not exist or cannot be.
    """
    return DeskEnv(setting(task, options))
