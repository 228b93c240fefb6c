"""Courier: a small text world made to measure memory. See docs/courier.md."""

from __future__ import annotations

from typing import Any

from .bounds import ceiling, floor
from .env import CourierEnv
from .tasks import TASKS, setting

__all__ = ["TASKS", "ceiling", "floor", "make"]


def make(task: str, **options: Any) -> CourierEnv:
    """The game of `task`, one of `TASKS`; `options` replace its parameters (see `CourierTask`).

    Raises:
        UsageError: an option that does not exist or cannot be.
    """
    return CourierEnv(setting(task, options))
