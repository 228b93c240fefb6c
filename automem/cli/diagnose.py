"""`automem diagnose`: what the traces of a run say about its scaffold."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from automem.evolve.findings import Finding
    from automem.play.folder import RunFolder


def diagnose(
    run: Annotated[Path, typer.Argument(help="Run folder, or evolve folder: then the best scaffold's gate run.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """How memory was used: a verdict on each metric, what went wrong, and where to look."""
    from automem.evolve.diagnose import MOST, diagnose
    from automem.evolve.health import health
    from automem.evolve.prose import report

    folder = _folder(run)
    diagnosis = diagnose(folder)
    if as_json:
        verdicts = [item.model_dump(mode="json") for item in health(diagnosis)]
        print(json.dumps({**diagnosis.model_dump(mode="json"), "health": verdicts}, indent=2, ensure_ascii=False))
        return

    def where(finding: Finding) -> str:
        return f"automem trace show {shlex.quote(str(folder.path))} --episode {finding.episode} --step {finding.step}"

    print(report(diagnosis, MOST, where, every=True), end="")


def _folder(path: Path) -> RunFolder:
    from automem.play.folder import RunFolder

    if (path / "evolve.json").is_file():
        from automem.evolve.loop import best_gate_run

        return best_gate_run(path)
    return RunFolder.read(path)
