"""`automem env`: list and check environments."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

app = typer.Typer(name="env", help="List and check environments.", no_args_is_help=True)


@app.command("list")
def list_envs(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """All environments on the search path, with their tasks."""
    from automem import env as envs
    from automem import plugins
    from automem.errors import UsageError

    rows: list[dict[str, Any]] = []
    for name, folder in plugins.available(plugins.ENV).items():
        row: dict[str, Any] = {"name": name, "path": str(folder), "tasks": [], "missing": None}
        try:
            row["tasks"] = list(envs.tasks(name))
        except UsageError as error:
            row["missing"] = str(error)
        rows.append(row)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['name']:12} {row['missing'] or ', '.join(row['tasks'])}")


@app.command()
def check(
    name: Annotated[str, typer.Argument(metavar="ENV", help="Name of the environment.")],
    steps: Annotated[int, typer.Option(min=1, help="Random steps to play per task.")] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Check conformance, seeding, and that episodes depend on nothing but seed and actions."""
    from automem import env as envs
    from automem.errors import UsageError
    from automem.play.env_check import check_env

    env, task = envs.split_game(name)
    if task:
        envs.check_task(env, task)
        raise UsageError(f"'{name}' is a task; environments are checked whole", f"automem env check {env}")
    reports = check_env(env, steps)
    if as_json:
        print(json.dumps([report.__dict__ for report in reports], indent=2))
    else:
        for report in reports:
            print(f"{'ok     ' if report.ok else 'skipped' if report.ok is None else 'FAILED '} {report.what}")
    if any(report.ok is False for report in reports):
        raise typer.Exit(1)
