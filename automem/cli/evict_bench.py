"""`automem evict bench`: scorers on LoCoMo and LongMemEval, from data files that the user has."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Data(StrEnum):
    """Data sets with annotated evidence."""

    LOCOMO = "locomo"
    LONGMEMEVAL = "longmemeval"


def bench(
    data: Annotated[Data, typer.Argument(help="Data set.")],
    file: Annotated[Path, typer.Argument(help="Its JSON file, as published.")],
    scorers: Annotated[str, typer.Option(help="Comma-separated.")] = "recency,tfidf,content,self,supervised",
    retain: Annotated[float, typer.Option(help="Share of the units to keep.")] = 0.2,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=1,
            help="Coverage that labels a unit for `self`; 0.4 is published. [chosen in each fold, without gold]",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Save the one fitted scorer, fitted on all groups.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """How well scorers rank the evidence in conversations, and how much of it a fifth of the units keeps."""
    from automem.errors import UsageError
    from automem.evict import bench as benching
    from automem.evict.datasets import load_locomo, load_longmemeval

    names = [name.strip() for name in scorers.split(",")]
    fitted = [name for name in names if name in benching.LEARNED]
    if out and len(fitted) != 1:
        raise UsageError(f"-o saves one fitted scorer, {len(fitted)} are asked for", "--scorers self -o FILE")
    groups = load_locomo(file) if data is Data.LOCOMO else load_longmemeval(file)
    units, questions = (sum(map(len, parts)) for parts in ([g.units for g in groups], [g.questions for g in groups]))
    print(
        f"{file}: {len(groups)} groups, {units:,} units, {questions:,} questions; {sum(g.unknown for g in groups)} "
        "pieces of evidence name no unit",
        file=sys.stderr,
    )
    measured = benching.Bench(groups, None if data is Data.LOCOMO else 5, threshold, retain)
    rows = [measured.row(name) for name in names]
    if out:
        auc = next(row.auc for row in rows if row.scorer == fitted[0])
        size = measured.fit(fitted[0], str(file), auc).save(out)
        print(f"{out}: {size:,} bytes", file=sys.stderr)
    print(benching.to_json(rows) if as_json else benching.to_markdown(rows))
