"""Models: whatever answers for an agent, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from automem.config import validate
from automem.episode import ModelSpec
from automem.errors import UsageError, did_you_mean
from automem.models.base import Model

KINDS = ("scripted", "replay", "local", "openai")


def make_model(name: str, settings: Mapping[str, Any]) -> Model:
    """The model `KIND:NAME`; `settings` are those of its kind.

    Raises:
        UsageError: unknown kind, name or setting.
    """
    kind, rest = _parts(name)
    if kind == "openai":
        return _chat_model(rest, settings)
    if kind == "local":
        return _local_model(rest, settings)
    if settings:
        raise UsageError(f"model '{name}' takes no settings, but {', '.join(settings)} was given")
    if kind == "replay":
        from automem.models.replay import ReplayModel

        return ReplayModel(Path(rest))
    from automem.models import scripted

    return scripted.make(rest)


def check_model(name: str, settings: Mapping[str, Any]) -> None:
    """Raise what `make_model` would raise about a name or a setting; nothing is loaded, and no server asked.

    Raises:
        UsageError: unknown kind, name or setting.
    """
    kind, rest = _parts(name)
    if kind == "openai":
        from automem.models.chat import ChatSettings

        validate(ChatSettings, settings, name)
    elif kind == "local":
        from automem.models.local import LocalSettings
        from automem.models.place import Place

        validate(LocalSettings, settings, name)
        if rest.partition("+")[0] != "smollm2":  # which is made when it is first asked for
            Place.read(rest)
    else:
        make_model(name, settings)


def _parts(name: str) -> tuple[str, str]:
    kind, colon, rest = name.partition(":")
    if not colon or not rest or kind not in KINDS:
        raise UsageError(f"unknown model '{name}'", f"write KIND:NAME; {did_you_mean(kind, KINDS)}")
    return kind, rest


def _chat_model(name: str, settings: Mapping[str, Any]) -> Model:
    from automem.models.chat import ChatModel, ChatSettings

    return ChatModel(name, validate(ChatSettings, settings, f"openai:{name}"))


def _local_model(name: str, settings: Mapping[str, Any]) -> Model:
    from automem.models.local import LocalModel, LocalSettings

    return LocalModel(name, validate(LocalSettings, settings, f"local:{name}"))


def model_spec(name: str, settings: Mapping[str, Any]) -> ModelSpec:
    """The model's identity for an `EpisodeSpec`: its name and the settings that change its answers.

    That of a local model has the hash of its weights: what was trained again under the same name is another one.

    Raises:
        UsageError: a setting is wrong, or there is no such local model.
    """
    kind, _, rest = name.partition(":")
    if kind == "openai":
        from automem.models.chat import ChatSettings

        told = validate(ChatSettings, settings, name).model_dump(exclude=ChatSettings.TRANSPORT)
    elif kind == "local":
        from automem.models.local import LocalSettings
        from automem.models.place import Place

        told = validate(LocalSettings, settings, name).model_dump(exclude=LocalSettings.TRANSPORT)
        told["weights"] = Place.read(rest).digest()
    else:
        told = dict(settings)
    return ModelSpec(name=name, settings=told)
