"""Models: whatever answers for an agent, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from automem.errors import UsageError, did_you_mean
from automem.models.base import Model

KINDS = ("scripted", "replay", "openai")


def make_model(name: str, settings: Mapping[str, Any]) -> Model:
    """The model `KIND:NAME`; `settings` are those of its kind.

    Raises:
        UsageError: unknown kind, name or setting.
    """
    kind, colon, rest = name.partition(":")
    if not colon or not rest or kind not in KINDS:
        raise UsageError(f"unknown model '{name}'", f"write KIND:NAME; {did_you_mean(kind, KINDS)}")
    if kind == "openai":
        return _chat_model(rest, settings)
    if settings:
        raise UsageError(f"model '{name}' takes no settings, but {', '.join(settings)} was given")
    if kind == "replay":
        from automem.models.replay import ReplayModel

        return ReplayModel(Path(rest))
    from automem.models import scripted

    return scripted.make(rest)


def _chat_model(name: str, settings: Mapping[str, Any]) -> Model:
    from automem.config import validate
    from automem.models.chat import ChatModel, ChatSettings

    return ChatModel(name, validate(ChatSettings, settings, f"openai:{name}"))
