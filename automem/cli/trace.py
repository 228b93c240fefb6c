"""`automem trace`: list, show, compare and export what happened."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from automem.cli.choosing import EPISODE, chosen

if TYPE_CHECKING:
    from automem.episode import EpisodeSpec
    from automem.play.folder import RunFolder
    from automem.trace import Call, Step


class Form(StrEnum):
    """What rows are made for: TRL, or LLaMA-Factory."""

    SFT = "sft"
    SHAREGPT = "sharegpt"


app = typer.Typer(name="trace", help="List, show, compare and export traces.", no_args_is_help=True)


@app.command("list")
def list_traces(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """The episodes of a run, and how each ended; exit code 2 if a trace is damaged."""
    from automem.errors import UsageError
    from automem.play.folder import RunFolder

    folder = RunFolder.read(run)
    rows, damaged = [], list[UsageError]()
    for spec in folder.config.specs():
        row = {
            "id": spec.id,
            "env": spec.env,
            "task": spec.task,
            "seed": spec.seed,
            "path": str(folder.trace_path(spec)),
        }
        try:
            rows.append({**row, **_ended(folder, spec)})
        except UsageError as error:
            rows.append({**row, "end": "damaged"})
            damaged.append(error)
    if as_json:
        print(json.dumps(rows, indent=2))
    for row in [] if as_json else rows:
        outcome = f"{row['progress']:7.1%} {row['steps']:6} steps" if "steps" in row else ""
        print(f"{row['id']}  {row['env']}/{row['task']}  {row['end']:10} {outcome}")
    # What can be listed is listed; the command fails all the same.
    if damaged:
        raise damaged[0]


def _ended(folder: RunFolder, spec: EpisodeSpec) -> dict[str, Any]:
    """How an episode ended.

    Raises:
        UsageError: its trace is damaged.
    """
    from automem.trace import check_lines

    if (trace := folder.trace_path(spec)).is_file():
        check_lines(trace, spec)
    result = folder.result(spec)
    return result.model_dump() if result else {"end": "unfinished"}


@app.command()
def show(
    source: Annotated[Path, typer.Argument(help="Run folder or trace file.")],
    step: Annotated[int | None, typer.Option(min=0, help="Only this step, with its prompts in full.")] = None,
    episode: Annotated[str | None, typer.Option(help=EPISODE)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Whole steps as JSON lines.")] = False,
) -> None:
    """What the agent saw, wrote and did, step by step."""
    from automem.errors import UsageError
    from automem.trace import TraceReader

    reader = TraceReader(_trace_file(source, episode))
    shown = 0
    for record in reader.steps():
        if step is not None and record.t != step:
            continue
        shown += 1
        if as_json:
            print(record.model_dump_json())
        else:
            _print_step(record, in_full=step is not None)
    if step is not None and not shown:
        raise UsageError(f"{reader.path} has no step {step}")
    if step is None and not as_json:
        print(f"result: {reader.result.model_dump_json(exclude_none=True) if reader.result else 'unfinished'}")


@app.command()
def diff(
    one: Annotated[Path, typer.Argument(help="Run folder or trace file.")],
    other: Annotated[Path, typer.Argument(help="Run folder or trace file.")],
) -> None:
    """Where two runs first differ, timings and model names aside; exit code 1 if they do."""
    from automem.results.diff import diff_runs, diff_traces
    from automem.text import printable

    difference = diff_traces(one, other) if one.is_file() and other.is_file() else diff_runs(one, other)
    if difference:
        print(printable(str(difference)))
        raise typer.Exit(1)
    print("identical, timings and model names aside")


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Run folder or trace file; for sharegpt a dataset of a train folder.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write; .jsonl or .parquet, sharegpt: .json.")],
    form: Annotated[
        Form, typer.Option("--format", help="sft: a row for each model call; sharegpt: the rows of a dataset.")
    ] = Form.SFT,
    role: Annotated[str | None, typer.Option(help="Only calls of this role: memory or gameplay.")] = None,
    phase: Annotated[str | None, typer.Option(help="Only calls of this phase: log, plan, gameplay or summary.")] = None,
) -> None:
    """Write the model calls as chat rows for training, verbatim."""
    from automem.errors import UsageError
    from automem.results.export import export_rows

    if form is Form.SHAREGPT:
        from automem.train.sharegpt import export_sharegpt

        if role or phase:
            raise UsageError("--role and --phase have no meaning with --format sharegpt", "the dataset is selected")
        print(f"{export_sharegpt(run, out)} rows in {out}, named in {out.parent / 'dataset_info.json'}")
        return
    count = export_rows(run, out, role=role, phase=phase)
    print(f"{count} rows in {out}")


def _trace_file(source: Path, episode: str | None) -> Path:
    from automem.errors import UsageError
    from automem.play.folder import RunFolder

    if source.is_file():
        if episode is not None:
            raise UsageError(f"--episode {episode}: {source} is the trace of one episode", "name the run folder")
        return source
    folder = RunFolder.read(source)
    return folder.trace_path(chosen(folder, episode))


def _print_step(step: Step, in_full: bool) -> None:
    from automem.text import printable

    print(f"=== step {step.t} ===")
    print(printable(step.observation))
    for call in step.calls:
        _print_call(call, in_full)
    proposed = f" (proposed: {step.proposed})" if step.proposed not in (None, step.action) else ""
    print(printable(f"-> {step.action}{' by default' if step.fallback else ''}{proposed}"))
    print(f"   progress {step.progress:.1%}, reward {step.reward:g}\n")


def _print_call(call: Call, in_full: bool) -> None:
    from automem.text import printable

    print(f"--- {call.phase} ({call.role}), {call.usage.prompt} + {call.usage.completion} tokens")
    if in_full:
        for message in call.messages:
            print(printable(f"[{message['role']}]\n{message['content']}"))
        print("[reply]")
    print(printable(call.reply or json.dumps(call.tool_calls)))
    for operation in call.operations:
        if operation.name not in ("DONE", "ACTION"):
            print(printable(f"    {operation.name} {' | '.join(operation.args)}: {operation.result}"))
