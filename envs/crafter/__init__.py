"""Crafter as text: 22 achievements on a map of grass, caves and lava. `docs/crafter.md` tells the rest."""

from __future__ import annotations

from typing import Any

from automem.env import with_options

from .env import CrafterEnv, Options

TASKS = ("default",)


def make(task: str, **options: Any) -> CrafterEnv:
    """Make the environment; `options` are the fields of `Options`.

    Raises:
        UsageError: unknown option, or a value out of range.
    """
    return CrafterEnv(with_options("crafter", Options(), options))
