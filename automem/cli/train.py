"""`automem train`: loop 2, a memory specialist is trained on an agent's own good memory turns."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from automem.models.base import Model
    from automem.play.folder import RunFolder
    from automem.results.gate import PairedGate
    from automem.serve.ondemand import OnDemand
    from automem.train.config import TrainConfig
    from automem.train.engine import Engine
    from automem.train.job import Job, Trained
    from automem.train.loop import Bench, Outcome
    from automem.train.players import Players
    from automem.train.recipe import Recipe
    from automem.train.select import Selector
    from automem.train.turns import Episode


class SelectorKind(StrEnum):
    """Who selects the turns."""

    RULES = "rules"
    JUDGE = "judge"
    ALL = "all"


class ReportKind(StrEnum):
    """Where the trainer reports to, besides the log."""

    NONE = "none"
    TRACKIO = "trackio"
    WANDB = "wandb"


class ServeKind(StrEnum):
    """Who serves base and adapters for play, where this command starts it."""

    NONE = "none"
    VLLM = "vllm"


#: First part of an `-s` key of `train` -> what it sets.
GROUPS = ("selection", "lora", "model", "limits", "gate")


def train(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders whose turns are learnt from.")],
    recipe: Annotated[str, typer.Option(help="pocket, crafter, minihack, nethack, or a YAML file.")],
    select: Annotated[SelectorKind | None, typer.Option(help="Who selects the turns. [the recipe's]")] = None,
    report_seeds: Annotated[str | None, typer.Option(help="Seeds of the report; never decided on.")] = None,
    gate_seeds: Annotated[str | None, typer.Option(help="Seeds that the gate decides on. [next free ones]")] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Iterations of the engine.")] = 1,
    engine: Annotated[str, typer.Option(help="Who proposes recipes: rules, or a model such as openai:NAME.")] = "rules",
    engine_base_url: Annotated[str | None, typer.Option(help="Where the engine's model is served.")] = None,
    judge: Annotated[str | None, typer.Option(help="The model that scores turns (--select judge).")] = None,
    judge_base_url: Annotated[str | None, typer.Option(help="Where the judge is served.")] = None,
    base: Annotated[str | None, typer.Option(help="The base model. [the runs' gameplay model]")] = None,
    base_url: Annotated[str | None, typer.Option(help="Where the base is served; without it, it plays here.")] = None,
    serve: Annotated[
        ServeKind, typer.Option(help="vllm: start a server for play, base and adapter on one copy of the weights.")
    ] = ServeKind.NONE,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Episodes in flight.")] = 32,
    report_to: Annotated[ReportKind, typer.Option(help="Where the trainer reports to.")] = ReportKind.NONE,
    out: Annotated[Path, typer.Option("-o", "--out", help="Train folder.")] = Path("runs/train"),
    overrides: Annotated[
        list[str] | None,
        typer.Option("-s", "--set", metavar="KEY=VALUE", help="Set selection.*, lora.*, model.*, limits.*, gate.*."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("-n", "--dry-run", help="Show the commands and the memory they take.")
    ] = False,
) -> None:
    """Train a memory specialist and adopt it if it helps; the same command again goes on."""
    from automem.cli.run import grouped
    from automem.cli.train_serving import show
    from automem.train.turns import read_runs

    groups = grouped(overrides or [], GROUPS)
    loaded = load_recipe(recipe, groups, select and select.value)
    collected = read_runs(runs)
    name = base or collected[0].config.models["gameplay"].name
    if dry_run:
        show(loaded, name, out)
        return
    asked = _Asked(
        runs=collected,
        recipe=loaded,
        base=name,
        base_url=base_url,
        serve=serve,
        report_seeds=report_seeds,
        gate_seeds=gate_seeds,
        iterations=iterations,
        engine=engine,
        engine_base_url=engine_base_url,
        judge=judge,
        judge_base_url=judge_base_url,
        groups=groups,
    )
    _train(asked, jobs, report_to, out)


def load_recipe(name: str, groups: Mapping[str, Mapping[str, Any]], select: str | None) -> Recipe:
    """The recipe `name` with what the keys of `-s`, by group, and `--select` change in it.

    Raises:
        UsageError: there is none, or a key is unknown or wrong.
    """
    from automem.train import recipe as recipe_files

    _refuse_others(groups["scaffold"])
    changes = {f"{group}.{key}": value for group in ("selection", "lora") for key, value in groups[group].items()}
    if select:
        changes["selection.selector"] = select
    return recipe_files.load(name, changes)


@dataclass(frozen=True)
class _Asked:
    """The command line, read."""

    runs: list[RunFolder]
    recipe: Recipe
    base: str
    base_url: str | None
    serve: ServeKind
    report_seeds: str | None
    gate_seeds: str | None
    iterations: int
    engine: str
    engine_base_url: str | None
    judge: str | None
    judge_base_url: str | None
    groups: dict[str, dict[str, Any]]

    @property
    def selector(self) -> str:
        """The selector's identity: its name, and its model if it asks one."""
        name = self.recipe.selection.selector
        return f"judge {self.judge}" if name == "judge" else name


def _train(asked: _Asked, jobs: int, report_to: ReportKind, out: Path) -> None:
    from automem.config import validate
    from automem.results.gate import GateSettings, PairedGate
    from automem.train.loop import Training, opened

    gate = PairedGate(validate(GateSettings, asked.groups["gate"], "-s gate").confidence)
    settings = _settings(asked)
    server = _server(asked, out)
    who = _players(asked, server, settings)
    config = _config(asked, who, settings, gate)
    config.check_seeds()
    _warn_of_few(gate, len(config.gate_seeds) * len(config.tasks))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with (
            _bench(asked, config, who, gate, jobs, report_to, out) as bench,
            opened(out, config),
            server or nullcontext(),
        ):
            if server:
                bench = replace(bench, train=_after(server.stop, bench.train))
            outcome = Training(out, config, bench).run()
    except KeyboardInterrupt:
        print(f"interrupted; the same command goes on with {out}", file=sys.stderr)
        raise typer.Exit(130) from None
    _tell(outcome, out)


def _server(asked: _Asked, out: Path) -> OnDemand | None:
    """The server that is started for play, if one is wanted."""
    from automem.cli.train_serving import on_demand
    from automem.errors import UsageError

    if asked.serve is ServeKind.NONE:
        return None
    if asked.base_url:
        raise UsageError("--serve vllm starts a server, --base-url names one that runs", "give one of them")
    return on_demand(asked.base, asked.recipe, out, _say)


def _players(asked: _Asked, server: OnDemand | None, settings: dict[str, Any]) -> Players:
    from automem.train.players import players, served_players

    if server:
        return served_players(asked.base, server, settings)
    return players(asked.base, asked.base_url, settings)


def _after(first: Callable[[], None], train: Callable[[Job], Trained]) -> Callable[[Job], Trained]:
    """Training that begins once something else has given way to it."""

    def both(job: Job) -> Trained:
        first()
        return train(job)

    return both


def _settings(asked: _Asked) -> dict[str, Any]:
    """The settings that base and specialist play with: those of the runs, where the base played them."""
    from automem.train.config import play_settings

    played = asked.runs[0].config.models["gameplay"]
    return play_settings(played.settings if played.name == asked.base else {}, asked.groups["model"])


def _config(asked: _Asked, who: Players, settings: dict[str, Any], gate: PairedGate) -> TrainConfig:
    from automem.config import parse_seeds, validate
    from automem.episode import Limits
    from automem.errors import UsageError
    from automem.train.config import TrainConfig, default_gate_seeds

    if asked.report_seeds is None:
        raise UsageError("--report-seeds is missing", "for example --report-seeds 100-139")
    first = asked.runs[0].config
    training = sorted({seed for run in asked.runs for seed in run.config.seeds})
    report = parse_seeds(asked.report_seeds, "--report-seeds")
    limits = {**first.limits.model_dump(), **asked.groups["limits"]}
    return TrainConfig(
        runs=[run.name for run in asked.runs],
        env=first.env,
        tasks=list(dict.fromkeys(task for run in asked.runs for task in run.config.tasks)),
        options=first.options,
        scaffold=first.scaffold,
        scaffold_digest=first.scaffold_digest,
        base=asked.base,
        base_digest=who.digest,
        settings=settings,
        limits=validate(Limits, limits, "-s limits").model_dump(),
        recipe=asked.recipe,
        selector=asked.selector,
        engine=asked.engine,
        gate=str(gate),
        serve=asked.serve.value,
        training_seeds=training,
        gate_seeds=parse_seeds(asked.gate_seeds, "--gate-seeds")
        if asked.gate_seeds
        else default_gate_seeds(training, report),
        report_seeds=report,
        iterations=asked.iterations,
    )


@contextmanager
def _bench(
    asked: _Asked, config: TrainConfig, who: Players, gate: PairedGate, jobs: int, report_to: ReportKind, out: Path
) -> Iterator[Bench]:
    """Everything that the loop works with; models of judge and engine are closed at the end."""
    from automem.episode import Limits
    from automem.results.plays import Game
    from automem.scaffold.spec import load_folder
    from automem.train.loop import Bench
    from automem.train.run import run_job
    from automem.train.turns import episodes

    game = Game(
        env=config.env,
        tasks=tuple(config.tasks),
        options=config.options,
        models={},
        make_models=dict,
        limits=Limits(**config.limits),
        jobs=jobs,
    )
    with _engine(asked) as engine, _selectors(asked, out) as make_selector:
        yield Bench(
            episodes=_finished(list(episodes(asked.runs)), asked),
            scaffold=load_folder(asked.runs[0].path / "scaffold"),
            players=who,
            game=game,
            engine=engine,
            gate=gate,
            make_selector=make_selector,
            train=lambda job: run_job(job, _say),
            report_to=report_to.value,
            tell=_say,
        )


@contextmanager
def _engine(asked: _Asked) -> Iterator[Engine]:
    from automem.train.engine import ModelEngine, RulesEngine

    if asked.engine == "rules":
        yield RulesEngine()
        return
    engine = ModelEngine(_model(asked.engine, asked.engine_base_url, "--engine"), _say)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def _selectors(asked: _Asked, out: Path) -> Iterator[Callable[[Recipe], Selector]]:
    """Makes the selector of a recipe; the judge's scores are kept in the train folder."""
    from automem.errors import UsageError
    from automem.train.hindsight import RulesSelector
    from automem.train.judge import Judge, JudgeSelector
    from automem.train.select import AllSelector

    name = asked.recipe.selection.selector
    if name == "judge" and not asked.judge:
        raise UsageError("--select judge needs --judge", "for example --judge openai:MODEL")
    if name != "judge":
        yield lambda recipe: AllSelector() if name == "all" else RulesSelector(recipe.selection)
        return
    scorer = Judge(_model(str(asked.judge), asked.judge_base_url, "--judge"), out / "judged.jsonl")
    try:
        yield lambda recipe: JudgeSelector(scorer, recipe.selection)
    finally:
        scorer.close()


def _model(name: str, base_url: str | None, option: str) -> Model:
    from automem.cli.run import settings_of
    from automem.errors import UsageError
    from automem.models import make_model

    if ":" not in name:
        raise UsageError(f"{option} {name}: unknown", "write KIND:NAME, for example openai:MODEL")
    return make_model(name, settings_of({}, base_url))


def _finished(found: list[Episode], asked: _Asked) -> list[Episode]:
    from automem.errors import UsageError

    if not found:
        raise UsageError(f"{asked.runs[0].name} has no finished episode", "play it to the end with `automem run`")
    return found


def _refuse_others(keys: Mapping[str, Any]) -> None:
    from automem.errors import UsageError

    if keys:
        raise UsageError(f"-s {next(iter(keys))}: unknown", f"keys begin with {', '.join(f'{g}.' for g in GROUPS)}")


def _warn_of_few(gate: PairedGate, episodes: int) -> None:
    if episodes < gate.fewest_pairs():
        _say(
            f"warning: {episodes} gate episodes cannot reach {gate.confidence:.0%} confidence, so nothing will be "
            f"adopted; use at least {gate.fewest_pairs()}"
        )


def _tell(outcome: Outcome, out: Path) -> None:
    from automem.results.table import build_table, to_markdown
    from automem.train import report

    runs = [outcome.base.run, *([outcome.best_run.run] if outcome.best_run else [])]
    print(f"stopped: {outcome.stopped}\n\nOn the report seeds:\n")
    print(to_markdown(build_table(runs, behaviour=True)))
    print(f"\n{report.to_markdown(report.ledger_rows(out))}")
    if outcome.best:
        print(f"\nThe specialist is in {out / 'best'}: use it as --memory-model local:BASE+{out / 'best'}, or")
        print(f"automem serve BASE --lora memory={out / 'best'}, and --memory-model openai:memory")
    else:
        print(f"\nNo recipe passed the gate, so there is no {out / 'best'}; what was trained is in {out / 'recipes'}.")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
