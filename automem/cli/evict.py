"""`automem evict`: fit the scorer, measure policies against each other, explain what was evicted."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from automem.cli.choosing import EPISODE, chosen
from automem.cli.evict_bench import bench

if TYPE_CHECKING:
    from automem.evict.fit import Episode
    from automem.evict.mlp import MlpScorer
    from automem.evict.scorer import Scorer
    from automem.play.folder import RunFolder

app = typer.Typer(name="evict", help="Fit, measure and explain eviction.", no_args_is_help=True)
app.command()(bench)


class Labels(StrEnum):
    """Where labels come from."""

    HINDSIGHT = "hindsight"
    GOLD = "gold"
    COUNTERFACTUAL = "counterfactual"


class Scorers(StrEnum):
    """What is fitted."""

    LRE = "lre"
    MLP = "mlp"


@app.command()
def fit(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs with the whole history in the prompt.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="File of the scorer.")],
    labels: Annotated[Labels, typer.Option(help="hindsight needs no annotation.")] = Labels.HINDSIGHT,
    scorer: Annotated[Scorers, typer.Option(help="Features or a small network.")] = Scorers.LRE,
    episodes: Annotated[int | None, typer.Option(min=1, help="counterfactual: replay the first so many. [all]")] = None,
    horizon: Annotated[int | None, typer.Option(min=1, help="counterfactual: steps to play on. [to the end]")] = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="counterfactual: replays in flight.")] = 4,
    yes: Annotated[bool, typer.Option("--yes", help="counterfactual: play what it costs.")] = False,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="counterfactual: say what it costs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the provenance as JSON.")] = False,
) -> None:
    """Fit a scorer on the traces of runs; counterfactual labels play parts of them again."""
    from automem.cli.counterfactual import Asked, labelled
    from automem.play.folder import RunFolder, write_atomically
    from automem.results.episodes import labelled_episodes

    if labels is Labels.COUNTERFACTUAL:
        file = out.with_suffix(".counterfactual.jsonl")
        found = labelled(runs, Asked(episodes, horizon, jobs, yes, dry_run, file))
        if found is None:
            return
    else:
        found = [episode for run in runs for episode in labelled_episodes(RunFolder.read(run), labels.value)]
    made = _fitted(scorer, found, labels, ", ".join(str(run) for run in runs))
    text = made.model_dump_json(indent=1 if scorer is Scorers.LRE else None) + "\n"
    write_atomically(out, text)
    told = made.provenance
    if as_json:
        print(told.model_dump_json(indent=2))
    else:
        auc = "–" if told.auc is None else f"{told.auc:.3f}"
        print(f"{out}: {len(text):,} bytes; {told.episodes} episodes, {told.units:,} units, {told.positives:,} worth "
              f"keeping; AUC on episodes left out {auc}")  # fmt: skip


def _fitted(scorer: Scorers, episodes: list[Episode], labels: Labels, source: str) -> Scorer | MlpScorer:
    from automem.evict.fit import fit as fit_lre
    from automem.evict.fit_mlp import MlpSettings, fit_mlp

    if scorer is Scorers.LRE:
        return fit_lre(episodes, labels.value, source)
    settings = MlpSettings(loss="mse" if labels is Labels.COUNTERFACTUAL else "bce")
    return fit_mlp(episodes, labels.value, source, settings)


@app.command("eval")
def evaluate(
    run: Annotated[Path, typer.Argument(help="A run with the whole history: says what to play, with which model.")],
    policies: Annotated[str, typer.Option(help="Policies, comma-separated; lre:FILE names a scorer.")],
    budget: Annotated[str, typer.Option(help="Tokens of old history, or a share of the run's history such as 25%.")],
    seeds: Annotated[str, typer.Option(help="Seeds to play; not those of the fit.")],
    keep_last: Annotated[int, typer.Option(min=1, help="The latest steps that always stay.")] = 5,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Episodes in flight.")] = 4,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder of the runs. [RUN-evict]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Play the same episodes with each policy at one budget; the same command again resumes."""
    from automem.config import parse_seeds
    from automem.evict.policies.base import make
    from automem.play.folder import RunFolder
    from automem.results import eviction

    base = RunFolder.read(run)
    to_play = parse_seeds(seeds)
    tokens = _tokens(budget, base)
    names = [policy.strip() for policy in policies.split(",")]
    for name in names:
        # What is wrong with the last one is said before the first one is played.
        make(name)
    if shared := sorted(set(to_play) & set(base.config.seeds)):
        told = f"warning: seeds from {shared[0]} on were played in {run} too; a scorer fitted there has seen them"
        print(told, file=sys.stderr)
    rows = []
    for name in names:
        folder = _play(base, name, tokens, keep_last, to_play, jobs, out or Path(f"{run}-evict"))
        rows.append(eviction.policy_row(name, None if name == "full" else tokens, folder))
    print(eviction.to_json(rows) if as_json else eviction.to_markdown(rows))


@app.command()
def explain(
    scorer: Annotated[Path, typer.Argument(help="File of a scorer.")],
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    episode: Annotated[str | None, typer.Option(help=EPISODE)] = None,
    step: Annotated[int | None, typer.Option(min=0, help="The history before this step. [all of it]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """What the scorer thinks of each past step and why, and which of them were evicted when."""
    from automem.evict.scorer import load_scorer
    from automem.play.folder import RunFolder
    from automem.results.episodes import explained
    from automem.text import printable

    folder = RunFolder.read(run)
    spec = chosen(folder, episode)
    rows = explained(load_scorer(scorer), folder.trace_path(spec), step)
    if as_json:
        print(json.dumps({"episode": spec.id, "seed": spec.seed, "rows": rows}, indent=2))
        return
    print(f"{spec.env}/{spec.task} seed {spec.seed} ({spec.id}): {len(rows)} past steps, best first")
    for row in rows:
        gone = f"evicted at step {row['evicted']}" if row["evicted"] is not None else "kept"
        print(
            printable(f"step {row['step']:4}  p {row['score']:.3f}  {row['tokens']:5} tokens  {gone:20} {row['why']}")
        )
        print(printable(f"           {row['text']}"))


@app.command()
def drift(
    run: Annotated[Path, typer.Argument(help="A run with eviction.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """How often what was evicted was asked for again, and whether to fit the scorer anew."""
    from automem.play.folder import RunFolder
    from automem.results import drift as drifts

    found = drifts.drift(RunFolder.read(run))
    print(drifts.to_json(str(run), found) if as_json else drifts.to_text(str(run), found))


def _tokens(budget: str, base: RunFolder) -> int:
    from automem.errors import UsageError
    from automem.results.eviction import history_tokens

    number, percent = budget.removesuffix("%"), budget.endswith("%")
    value = float(number) if number.replace(".", "", 1).isdecimal() else 0.0
    if value < 1e-9 or value > (100 if percent else 1e12):
        told = f"--budget '{budget[:80]}' is neither tokens, more than 0, nor a share, up to 100%"
        raise UsageError(told, "write 2048 or 25%")
    if not percent:
        return max(1, int(value))
    if not list(base.finished()):
        raise UsageError(f"{base.path} has no finished episode to take a share of", "play it first")
    return max(1, round(history_tokens(base) * value / 100))


def _play(
    base: RunFolder, policy: str, budget: int, keep_last: int, seeds: list[int], jobs: int, out: Path
) -> RunFolder:
    from automem.cli.run import play
    from automem.models import make_model
    from automem.scaffold.spec import load_folder

    name, _, scorer = policy.partition(":")
    overrides: dict[str, Any] = {"context": {"policy": name, "keep_last": keep_last}}
    if name != "full":
        overrides["context.budget"] = budget
    if scorer:
        overrides["context.scorer"] = scorer
    scaffold = load_folder(base.path / "scaffold", overrides)
    update = {"seeds": seeds, "scaffold_digest": scaffold.digest, "scaffold": scaffold.name}
    config = base.config.model_copy(update=update)
    models: Any = {role: make_model(spec.name, spec.settings) for role, spec in base.config.models.items()}
    folder = out / f"{policy.replace(':', '-').replace('/', '-')}-{budget}-{scaffold.digest[:6]}"
    return play(folder, config, scaffold, models, jobs, redo=False).folder
