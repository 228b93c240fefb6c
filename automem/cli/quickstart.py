"""`automem quickstart`: real episodes of both environments, with scripted models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from automem.play.run import Played


class Showing(NamedTuple):
    """One run of the quickstart: what is played, how, and what there is to see in it."""

    name: str
    game: str
    scaffold: str
    model: str
    seeds: list[int]
    about: str


_TEN = list(range(10))
_FIVE = [42, 43, 44, 45, 46]
SHOWINGS = (
    Showing("floor", "courier/small", "window", "scripted:null", _TEN, "Courier, one who waits"),
    Showing("window", "courier/small", "window", "scripted:courier", _TEN, "Courier with no memory"),
    Showing("courier-v0", "courier/small", "courier-v0", "scripted:courier", _TEN, "Courier with a log"),
    Showing("courier-v1", "courier/small", "courier-v1", "scripted:courier", _TEN, "Courier with a table"),
    Showing("crafter-v0", "crafter", "crafter-v0", "scripted:crafter", _FIVE, "Crafter with five files of notes"),
)

_NEXT = """\
Next:
  how they used their memory                automem table {out}/* --behaviour
  prompts, replies, memory of one step      automem trace show {out}/courier-v1 --step 30
  a scaffold of your own                    automem scaffold new mine --from courier-v1
  your own model, on any OpenAI-compatible server
      automem run courier/small -S courier-v1 -m openai:MODEL --base-url http://HOST:8000/v1\
"""


def quickstart(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the runs.")] = Path("runs/quickstart"),
    fast: Annotated[bool, typer.Option("--fast", help="Fewer seeds: a few seconds.")] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Throw the earlier runs away.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Play Courier and Crafter with scripted models: no key, no network."""
    from automem.cli.run import report

    runs = []
    for showing in SHOWINGS:
        seeds = showing.seeds[: 2 if fast else None]
        print(f"\n{showing.name}: {showing.about}", file=sys.stderr)
        runs.append(_play(showing, seeds, out / showing.name, redo))
    print(file=sys.stderr)
    report(runs, as_json)
    if not any(played.new for played in runs):
        print(f"\nAll episodes were in {out} already; --redo plays them again.", file=sys.stderr)
    print(f"\n{_NEXT.format(out=out)}", file=sys.stderr)


def _play(showing: Showing, seeds: list[int], folder: Path, redo: bool) -> Played:
    from automem.cli.run import play, run_config
    from automem.models import make_model
    from automem.scaffold import spec as scaffolds

    scaffold = scaffolds.load(showing.scaffold)
    config = run_config(showing.game, seeds, scaffold, {"gameplay": showing.model}, {}, {}, {})
    return play(folder, config, scaffold, {"gameplay": make_model(showing.model, {})}, jobs=1, redo=redo)
