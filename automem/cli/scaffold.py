"""`automem scaffold`: list, show, make, check and compare scaffolds."""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

app = typer.Typer(name="scaffold", help="List, show, make, check and compare scaffolds.", no_args_is_help=True)


@app.command("list")
def list_scaffolds(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """All scaffolds on the search path."""
    from automem import plugins
    from automem.errors import UsageError
    from automem.scaffold.spec import load_folder
    from automem.text import printable

    rows = []
    for name, folder in plugins.available(plugins.SCAFFOLD).items():
        row = {"name": name, "path": str(folder), "env": None, "parent": None, "about": "", "broken": None}
        try:
            spec = load_folder(folder).spec
            row |= {"env": spec.env, "parent": spec.parent, "about": spec.about}
        except UsageError as error:
            row["broken"] = str(error)
        rows.append(row)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        about = f"broken: {row['broken']}" if row["broken"] else row["about"]
        print(printable(f"{row['name']:16} {row['env'] or 'any':10} {about}"))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Scaffold by name or path.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Every file of a scaffold."""
    from automem.scaffold.spec import load
    from automem.text import printable

    scaffold = load(name)
    if as_json:
        print(json.dumps({"name": scaffold.name, "digest": scaffold.digest, "files": dict(scaffold.texts)}, indent=2))
        return
    print(f"{scaffold.name} ({scaffold.digest}) in {scaffold.folder}")
    for path, text in scaffold.texts.items():
        print(printable(f"\n--- {path}\n{text.rstrip()}"))


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the new scaffold.")],
    parent: Annotated[str, typer.Option("--from", help="The scaffold to start from.")] = "courier-v0",
    folder: Annotated[Path, typer.Option("--in", help="Where to put it.")] = Path("scaffolds"),
) -> None:
    """A new scaffold, as a copy of another that names it as its parent."""
    from automem.scaffold.spec import copy_as, load

    print(copy_as(load(parent), name, folder / name))


@app.command()
def check(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Scaffolds by name or path.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Load each scaffold, render its prompts on real observations, and run its logic in the sandbox."""
    reports = [_checked(name) for name in names]
    if as_json:
        print(json.dumps([report._asdict() for report in reports], indent=2))
    for report in reports if not as_json else ():
        if report.exit_code == 0:
            print(f"{report.name}: ok, {report.what}")
        else:
            named = report.name in report.what
            print(f"error: {report.what if named else f'{report.name}: {report.what}'}", file=sys.stderr)
            print(f"hint: {report.hint}\n" if report.hint else "", end="", file=sys.stderr)
    if worst := max(report.exit_code for report in reports):
        raise typer.Exit(worst)


class _Report(NamedTuple):
    """What the check of one scaffold found; `exit_code` is 1 where it has a fault, 2 where it cannot be loaded."""

    name: str
    exit_code: int
    what: str
    hint: str | None = None


def _checked(name: str) -> _Report:
    from automem.errors import AutoMemError, UsageError
    from automem.play.check import check_scaffold
    from automem.scaffold.spec import load

    try:
        return _Report(name, 0, check_scaffold(load(name)))
    except AutoMemError as error:
        return _Report(name, 2 if isinstance(error, UsageError) else 1, error.message, error.hint)


@app.command()
def diff(
    old: Annotated[str, typer.Argument(help="Scaffold by name or path.")],
    new: Annotated[str, typer.Argument(help="Scaffold by name or path.")],
) -> None:
    """A unified diff of two scaffolds, file by file."""
    from automem.scaffold.spec import load
    from automem.text import printable

    before, after = load(old), load(new)
    for path in sorted({*before.texts, *after.texts}):
        one, other = before.texts.get(path, ""), after.texts.get(path, "")
        lines = difflib.unified_diff(
            one.splitlines(), other.splitlines(), f"{before.name}/{path}", f"{after.name}/{path}", lineterm=""
        )
        for line in lines:
            print(printable(line))
