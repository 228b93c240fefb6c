"""Measure a pocket model by its games, and decide whether it is good enough: `python experiments/pocket/measure.py`.

Plays Courier with the memory of each scaffold and without any, writes `quality.json` and the model card beside
the weights, and fails where a figure is below `GATE`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import torch

from automem.models import make_model, model_spec
from automem.play.folder import RunConfig, RunFolder
from automem.play.run import play_run
from automem.results.behaviour import Behaviour, read_behaviour
from automem.scaffold.spec import load
from automem.trace import TraceReader

HERE = Path(__file__).parent
SHIPPED = HERE.parents[1] / "automem/models/pocket"
#: Seeds of the measured games: neither the teacher's nor those of runs, gates and reports.
FIRST_SEED = 2_000_000
#: Name of a measurement -> scaffold, and what is changed in it.
PLAYED: dict[str, tuple[str, dict[str, Any]]] = {
    "window": ("window", {}),
    "memory off": ("courier-v1", {"operations.log": []}),
    "courier-v0": ("courier-v0", {}),
    "courier-v1": ("courier-v1", {}),
}
#: Least shares of replies that parse and of steps with a valid action, in every measurement; least progress that
#: the memory of each scaffold is worth.
GATE = {"parsed": 0.98, "valid": 0.95, "courier-v0": 0.08, "courier-v1": 0.15}


def measure(model: str, games: int, jobs: int, settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The figures of each measurement."""
    return {name: _figures(name, model, games, jobs, settings) for name in PLAYED}


def faults(figures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What is below the gate."""
    found = []
    for name, figure in figures.items():
        least = {share: GATE[share] for share in ("parsed", "valid")}
        found += [
            f"{name}: {share} {figure[share]:.3f} is below {n}" for share, n in least.items() if figure[share] < n
        ]
    for name, figure in figures.items():
        gain = figure["progress"] - figures["memory off"]["progress"]
        if gain < GATE.get(name, -1):
            found.append(f"{name}: memory is worth {gain:.3f}, less than {GATE[name]}")
    return found


def _figures(name: str, model: str, games: int, jobs: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    scaffold, overrides = PLAYED[name]
    made = load(scaffold, overrides)
    config = RunConfig(
        env="courier",
        tasks=["small"],
        seeds=list(range(FIRST_SEED, FIRST_SEED + games)),
        scaffold=made.name,
        scaffold_digest=made.digest,
        models={"gameplay": model_spec(model, settings)},
    )
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        played = play_run(Path(folder) / "run", config, made, {"gameplay": make_model(model, settings)}, jobs)
        took = time.perf_counter() - began
        progress = [result.progress for result in played.results.values()]
        assert not played.failures, played.failures[0].message
        return {
            "progress": round(fmean(progress), 4),
            "se": round(pstdev(progress) / sqrt(len(progress)), 4),
            "games": len(progress),
            **_shares(played.folder, took),
        }


def _shares(folder: RunFolder, took: float) -> dict[str, Any]:
    """Shares of replies and steps, over all games."""
    replies = parsed = 0
    total = Behaviour()
    for spec in folder.config.specs():
        path = folder.trace_path(spec)
        total += read_behaviour(path)
        for step in TraceReader(path).steps():
            replies += len(step.calls)
            parsed += sum(bool(c.operations) and all(o.name != "?" for o in c.operations) for c in step.calls)
    rates = ("repeat_write_rate", "empty_search_rate", "unproductive_rate", "refused_rate", "written_per_step")
    return {
        "parsed": round(parsed / replies, 4),
        "valid": round(1 - (total.invalid_action_rate or 0), 4),
        **{rate: round(getattr(total, rate) or 0, 4) for rate in rates},
        "calls_per_second": round(replies / took, 1),
    }


def _table(figures: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["| memory | progress | replies that parse | valid actions | repeated writes |", "|---|---|---|---|---|"]
    for name, f in figures.items():
        shown = f"{f['progress']:.3f} ± {f['se']:.3f}"
        repeats = f"{f['repeat_write_rate']:.1%}" if f["written_per_step"] else ""
        lines.append(f"| {name} | {shown} | {f['parsed']:.1%} | {f['valid']:.1%} | {repeats} |")
    return "\n".join(lines)


def write_card(folder: Path, figures: Mapping[str, Mapping[str, Any]]) -> None:
    """`quality.json` and README.md, from `card.md` here."""
    (folder / "quality.json").write_text(json.dumps(figures, indent=1) + "\n")
    training = json.loads((folder / "training.json").read_text())
    passes = [row for row in training["curve"] if row["step"] == row["of"]]
    told = {
        "table": _table(figures),
        "games": training["games"],
        "tokens": f"{sum(row['tokens'] for row in passes) / 1e6:.1f}",
        "steps": sum(row["of"] for row in passes),
        "minutes": round(sum(row["cpu_s"] for row in passes) / 60),
        "measured": figures["courier-v1"]["games"],
        "seed": training["seed"],
    }
    (folder / "README.md").write_text((HERE / "card.md").read_text().format(**told))


def main() -> None:
    """Parse the command line, measure, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=SHIPPED)
    parser.add_argument("--games", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    figures = measure(f"local:{args.folder}", args.games, args.jobs, {"temperature": args.temperature})
    print(_table(figures))
    if (args.folder / "training.json").exists():
        write_card(args.folder, figures)
    if found := faults(figures):
        sys.exit("not good enough: " + "; ".join(found))


if __name__ == "__main__":
    main()
