"""`automem table`: what runs scored."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from automem.play.folder import RunFolder


class Format(StrEnum):
    """How to print a table."""

    MD = "md"
    CSV = "csv"
    TEX = "tex"
    JSON = "json"


class Grouping(StrEnum):
    """What to split rows by."""

    TASK = "task"
    SEED = "seed"


def table(
    what: Annotated[
        list[str], typer.Argument(metavar="RUN|EXPERIMENT...", help="Run folders, or folders that have some below.")
    ],
    by: Annotated[list[Grouping] | None, typer.Option("--by", help="A row for each task or seed.")] = None,
    behaviour: Annotated[bool, typer.Option("--behaviour", help="Add the behaviour metrics.")] = False,
    sample: Annotated[bool, typer.Option("--sample", help="Standard error of the sample, not the population.")] = False,
    lineage: Annotated[bool, typer.Option("--lineage", help="The lineage of an evolve folder.")] = False,
    ledger: Annotated[bool, typer.Option("--ledger", help="The ledger of a train folder.")] = False,
    paper: Annotated[bool, typer.Option("--paper", help="Published values of EXPERIMENT beside ours.")] = False,
    check: Annotated[bool, typer.Option("--check", help="With --paper: exit 1 outside tolerance.")] = False,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="Draw figures into DIR, too.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", "-f", help="md, csv, tex or json.")] = Format.MD,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Mean ± standard error of progress, with n and failures."""
    form = Format.JSON if as_json else form
    if lineage or ledger:
        option = "--lineage" if lineage else "--ledger"
        _refuse(option, {"--by": by, "--behaviour": behaviour, "--sample": sample, "--ledger": lineage and ledger})
        _refuse(option, {"--paper": paper, "--check": check, "--figures": figures})
        _print_history([Path(folder) for folder in what], option, form)
        return
    from automem.cli import papers

    if paper:
        _refuse("--paper", {"--by": by, "--behaviour": behaviour})
        papers.print_paper(papers.given(what, paper), form, sample, check, figures)
        return
    if check:
        from automem.errors import UsageError

        raise UsageError("--check needs --paper", "it compares with published values")
    asked = papers.given(what, paper)
    _print_table(papers.shown_runs(asked.found), by or [], sample, behaviour, form)
    if figures:
        papers.draw_loops(asked.found, figures)


def _refuse(option: str, others: dict[str, object]) -> None:
    from automem.errors import UsageError

    if unused := [name for name, value in others.items() if value]:
        raise UsageError(f"{unused[0]} has no meaning with {option}", "it is for tables of runs")


def _print_table(runs: list[RunFolder], by: list[Grouping], sample: bool, behaviour: bool, form: Format) -> None:
    from automem.results import table as tables

    built = tables.build_table(runs, by=[grouping.value for grouping in by], sample_se=sample, behaviour=behaviour)
    writers = {
        Format.MD: tables.to_markdown,
        Format.CSV: tables.to_csv,
        Format.TEX: tables.to_latex,
        Format.JSON: tables.to_json,
    }
    print(writers[form](built))


def _print_history(folders: list[Path], option: str, form: Format) -> None:
    """The lineage of evolve folders, or the ledger of train folders."""
    from automem.errors import UsageError

    if form not in (Format.MD, Format.JSON):
        raise UsageError(f"{option} cannot be printed as {form.value}", "use md or json")
    if option == "--lineage":
        from automem.evolve import report as lineages

        rows = [row for folder in folders for row in lineages.lineage_rows(folder)]
        print(lineages.to_json(rows) if form is Format.JSON else lineages.to_markdown(rows))
        return
    from automem.train import report as ledgers

    rows = [row for folder in folders for row in ledgers.ledger_rows(folder)]
    print(ledgers.to_json(rows) if form is Format.JSON else ledgers.to_markdown(rows))
