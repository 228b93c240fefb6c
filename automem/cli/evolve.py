"""`automem evolve`: loop 1, a proposer rewrites the scaffold and a gate decides."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from automem.cli.proposing import Made, ProposerKind, Source, make_proposer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from automem.evolve.changes import Kind
    from automem.evolve.config import EvolveConfig, LoopBudget
    from automem.evolve.loop import Outcome
    from automem.play.folder import RunConfig
    from automem.results.gate import Gate
    from automem.results.plays import Game
    from automem.scaffold.spec import Scaffold


class GateKind(StrEnum):
    """Who decides."""

    PAIRED = "paired"
    MEAN = "mean"


#: First part of an `-s` key of `evolve` -> what it sets.
GROUPS = ("env", "model", "limits", "loop", "gate", "proposer")


def evolve(
    game: Annotated[str, typer.Argument(metavar="ENV[/TASK]", help="What to play, e.g. courier/small.")],
    start: Annotated[str, typer.Option("--from", help="The scaffold to start from, by name or path.")],
    model: Annotated[str, typer.Option("-m", "--model", help="The model that plays.")],
    gate_seeds: Annotated[str, typer.Option(help="Seeds that the gate decides on.")],
    report_seeds: Annotated[
        str | None, typer.Option(help="Seeds of the final report, never seen before it. [no report]")
    ] = None,
    proposer: Annotated[ProposerKind, typer.Option(help="Who rewrites the scaffold.")] = ProposerKind.RULES,
    proposer_model: Annotated[str | None, typer.Option(help="The meta-model (openai proposer).")] = None,
    proposer_base_url: Annotated[str | None, typer.Option(help="Where the meta-model is served.")] = None,
    proposer_command: Annotated[
        str | None, typer.Option(help="Command template with {workspace} {prompt} {output} (command proposer).")
    ] = None,
    proposals: Annotated[Path | None, typer.Option(help="Proposals to replay (recorded proposer).")] = None,
    gate: Annotated[GateKind, typer.Option(help="Who decides.")] = GateKind.PAIRED,
    allow: Annotated[str | None, typer.Option(help="Kinds of change that may occur, comma-separated.")] = None,
    control: Annotated[bool, typer.Option("--aa", help="Play the start twice to see the noise.")] = False,
    revisions: Annotated[int, typer.Option(min=1, help="Revisions at most.")] = 5,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Episodes in flight.")] = 4,
    out: Annotated[Path, typer.Option("-o", "--out", help="Evolve folder.")] = Path("runs/evolve"),
    base_url: Annotated[str | None, typer.Option(help="Where an openai: model that plays is served.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Steps per episode at most.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "-s", "--set", metavar="KEY=VALUE", help="Set env.*, model.*, limits.*, loop.*, gate.*, proposer.*."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Show what would be done.")] = False,
) -> None:
    """Improve a scaffold; the same command again goes on."""
    from automem.cli.run import grouped, settings_of
    from automem.config import parse_seeds, validate
    from automem.evolve.changes import KINDS
    from automem.evolve.config import LoopBudget
    from automem.scaffold.spec import load

    groups = grouped(overrides or [], GROUPS)
    if max_steps is not None:
        groups["limits"]["max_steps"] = max_steps
    asked = _Asked(
        game=game,
        scaffold=load(start, groups["scaffold"]),
        model=model,
        settings=settings_of(groups["model"], base_url),
        gate_seeds=parse_seeds(gate_seeds, "--gate-seeds"),
        report_seeds=parse_seeds(report_seeds, "--report-seeds") if report_seeds else [],
        allowed=kinds(allow.split(",")) if allow is not None else list(KINDS),
        groups=groups,
        budget=validate(LoopBudget, {"revisions": revisions, **groups["loop"]}, "-s loop"),
    )
    settings = groups["proposer"]
    source = Source(proposer, proposer_model, proposer_base_url, proposer_command, proposals, settings)
    _evolve(asked, source, gate, control, jobs, out, dry_run)


@dataclass(frozen=True)
class _Asked:
    """The command line, read."""

    game: str
    scaffold: Scaffold
    model: str
    settings: dict[str, Any]
    gate_seeds: list[int]
    report_seeds: list[int]
    allowed: list[Kind]
    groups: dict[str, dict[str, Any]]
    budget: LoopBudget


def _evolve(asked: _Asked, source: Source, gate: GateKind, control: bool, jobs: int, out: Path, dry_run: bool) -> None:
    from automem.cli.run import run_config
    from automem.evolve.loop import Evolution, opened

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run = run_config(
        asked.game,
        asked.gate_seeds,
        asked.scaffold,
        {"gameplay": asked.model},
        {"gameplay": asked.settings},
        asked.groups["env"],
        asked.groups["limits"],
        later=asked.report_seeds,
    )
    judge = _gate(gate, asked.groups["gate"], len(run.specs()))
    made = make_proposer(source)
    try:
        config = _config(asked, run, made, judge)
        config.check_seeds()
        if dry_run:
            print(config.model_dump_json(indent=2))
            return
        with opened(out, config):
            outcome = Evolution(out, config, _game(asked, run, jobs), made.proposer, judge).run(asked.scaffold, control)
    except KeyboardInterrupt:
        print(f"interrupted; the same command goes on with {out}", file=sys.stderr)
        raise typer.Exit(130) from None
    finally:
        made.proposer.close()
    _tell(outcome, out)


def _game(asked: _Asked, run: RunConfig, jobs: int) -> Game:
    from automem.models import make_model
    from automem.results.plays import Game

    return Game(
        env=run.env,
        tasks=tuple(run.tasks),
        options=run.options,
        models=run.models,
        make_models=lambda: {"gameplay": make_model(asked.model, asked.settings)},
        limits=run.limits,
        jobs=jobs,
    )


def _config(asked: _Asked, run: RunConfig, made: Made, gate: Gate) -> EvolveConfig:
    from automem.evolve.config import EvolveConfig

    return EvolveConfig(
        env=run.env,
        tasks=run.tasks,
        options=run.options,
        start=asked.scaffold.name,
        start_digest=asked.scaffold.digest,
        models={role: spec.model_dump() for role, spec in run.models.items()},
        proposer=made.proposer.name,
        proposer_settings=made.settings,
        gate=str(gate),
        gate_seeds=run.seeds,
        report_seeds=asked.report_seeds,
        allowed=asked.allowed,
        limits=run.limits.model_dump(),
        budget=asked.budget,
    )


def kinds(allow: Iterable[str]) -> list[Kind]:
    """The kinds of change of these names.

    Raises:
        UsageError: there is no such kind.
    """
    from automem.errors import UsageError, did_you_mean
    from automem.evolve.changes import KINDS

    asked = [kind.strip() for kind in allow]
    for kind in asked:
        if kind not in KINDS:
            raise UsageError(f"--allow: unknown kind of change '{kind}'", did_you_mean(kind, KINDS))
    return [kind for kind in KINDS if kind in asked]


def _gate(kind: GateKind, settings: dict[str, Any], episodes: int) -> Gate:
    from automem.config import validate
    from automem.errors import UsageError
    from automem.results.gate import GateSettings, MeanGate, PairedGate

    if kind is GateKind.MEAN:
        if settings:
            raise UsageError(f"-s gate.{next(iter(settings))}: the mean gate has no settings")
        return MeanGate()
    gate = PairedGate(validate(GateSettings, settings, "-s gate").confidence)
    if episodes < gate.fewest_pairs():
        print(
            f"warning: {episodes} gate episodes cannot reach {gate.confidence:.0%} confidence, so nothing will be "
            f"accepted; use at least {gate.fewest_pairs()}, or --gate mean",
            file=sys.stderr,
        )
    return gate


def _tell(outcome: Outcome, out: Path) -> None:
    from automem.results.table import build_table, to_markdown

    runs = [outcome.start.run] if outcome.best is outcome.start else [outcome.start.run, outcome.best.run]
    print(f"stopped: {outcome.stopped}\n\nOn the {outcome.purpose} seeds:\n")
    print(to_markdown(build_table(runs)))
    if outcome.report is None:
        print(f"\nNo comparison: {outcome.start.fault or outcome.best.fault}")
    elif outcome.best is not outcome.start:
        print(f"\nbest against start: {outcome.report}")
        if outcome.purpose == "gate":
            print("These seeds were decided on; --report-seeds asks for others.")
    print(f"\nThe best scaffold is in {out / 'best'}; `automem table {out} --lineage` tells how it came about.")
