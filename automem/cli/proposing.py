"""The options of `automem evolve` that say who rewrites the scaffold."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from automem.evolve.base import Proposer


class ProposerKind(StrEnum):
    """Who rewrites the scaffold."""

    RULES = "rules"
    OPENAI = "openai"
    COMMAND = "command"
    RECORDED = "recorded"


class Source(NamedTuple):
    """Where proposals come from, as it was asked for; `settings` are those of `-s proposer.*`."""

    kind: ProposerKind
    model: str | None
    base_url: str | None
    command: str | None
    proposals: Path | None
    settings: dict[str, Any]


class Made(NamedTuple):
    """A proposer, and what decides what it proposes: for `evolve.json`, so without keys and command lines."""

    proposer: Proposer
    settings: dict[str, Any]


def make_proposer(source: Source) -> Made:
    """The proposer that was asked for.

    Raises:
        UsageError: an option is missing, wrong, or not one of this proposer.
    """
    from automem.errors import UsageError

    _check_options(source)
    match source.kind:
        case ProposerKind.OPENAI if source.model:
            return _agentic(source.model, source.base_url, source.settings)
        case ProposerKind.COMMAND if source.command:
            return _command(source.command, source.settings)
        case _ if source.settings:
            raise UsageError(f"-s proposer.{next(iter(source.settings))}: {source.kind.value} has no settings")
        case ProposerKind.RECORDED if source.proposals:
            from automem.evolve.proposers.recorded import RecordedProposer

            return Made(RecordedProposer(source.proposals), {})
    from automem.evolve.rules import RulesProposer

    return Made(RulesProposer(), {})


def _check_options(source: Source) -> None:
    """Each option is given where it is needed, and nowhere else."""
    from automem.errors import UsageError

    needed: dict[str, tuple[ProposerKind, object]] = {
        "--proposer-model": (ProposerKind.OPENAI, source.model),
        "--proposer-command": (ProposerKind.COMMAND, source.command),
        "--proposals": (ProposerKind.RECORDED, source.proposals),
    }
    for option, (kind, given) in needed.items():
        if kind is source.kind and not given:
            raise UsageError(f"--proposer {kind.value} needs {option}")
    of_model = {"--proposer-base-url": (ProposerKind.OPENAI, source.base_url)}
    for option, (kind, given) in {**needed, **of_model}.items():
        if kind is not source.kind and given is not None:
            raise UsageError(f"{option} is for --proposer {kind.value}, not for {source.kind.value}")


def _agentic(model: str, base_url: str | None, given: dict[str, Any]) -> Made:
    """The `openai` proposer: the settings of its session are its own, the others are the model's."""
    from automem.cli.run import settings_of
    from automem.config import validate
    from automem.errors import UsageError, did_you_mean
    from automem.evolve.proposers.agentic import AgenticProposer, SessionBudget
    from automem.models import make_model, model_spec
    from automem.models.chat import ChatSettings

    own, known = SessionBudget.model_fields, {**SessionBudget.model_fields, **ChatSettings.model_fields}
    if wrong := next((key for key in given if key not in known), None):
        raise UsageError(f"-s proposer: {wrong}: unknown key '{wrong}'", did_you_mean(wrong, known))
    session = validate(SessionBudget, {key: value for key, value in given.items() if key in own}, "-s proposer")
    others = settings_of({key: value for key, value in given.items() if key not in own}, base_url)
    # A candidate is whole files in one reply, so the meta-model gets more room and time than one that plays.
    asked = {"max_tokens": 16_384, "timeout": 300.0, **others}
    name = f"openai:{model}"
    settings = session.model_dump() | model_spec(name, asked).settings
    return Made(AgenticProposer(make_model(name, asked), session), settings)


def _command(template: str, given: dict[str, Any]) -> Made:
    """The `command` proposer; of its command line, which may hold a key, only the digest is told."""
    from automem.config import validate
    from automem.episode import digest
    from automem.evolve.proposers.command import CommandProposer, CommandSettings

    settings = validate(CommandSettings, given, "-s proposer")
    return Made(CommandProposer(template, settings), {"command_digest": digest(template), **settings.model_dump()})
