"""Crafter as text: 22 achievements on a map of grass, caves and lava. `docs/crafter.md` tells the rest."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from automem.errors import UsageError, did_you_mean

from .env import CrafterEnv, Options

TASKS = ("default",)


def make(task: str, **options: Any) -> CrafterEnv:
    """Make the environment; `options` are the fields of `Options`.

    Raises:
        UsageError: unknown task or option, or a value out of range.
    """
    if task not in TASKS:
        raise UsageError(f"environment 'crafter' has no task '{task}'", did_you_mean(task, TASKS))
    known = [field.name for field in fields(Options)]
    for name in options:
        if name not in known:
            raise UsageError(f"environment 'crafter' has no option '{name}'", did_you_mean(name, known))
    return CrafterEnv(Options(**options))
