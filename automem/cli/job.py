"""`automem job`: how the jobs of a launch go, their logs, stopping and starting them again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from automem.cli.telling import tell

if TYPE_CHECKING:
    from automem.launch.folder import LaunchFolder
    from automem.launch.status import Element, JobStatus

app = typer.Typer(name="job", help="List, watch, cancel and resubmit the jobs of a launch.", no_args_is_help=True)
Launch = Annotated[Path, typer.Argument(metavar="RUN", help="Launch folder.")]
Jobs = Annotated[list[str] | None, typer.Argument(metavar="[JOB...]", help="Jobs by name. [all]")]
#: Seconds between two looks, and between plain lines that only tell that work goes on.
_LOOK, _TOLD = 2.0, 60.0


@app.command("list")
def list_jobs(
    run: Annotated[Path, typer.Argument(metavar="[RUN]", help="Launch folder, or a folder of such.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """The jobs of a launch, or the launches in a folder."""
    from automem.launch.folder import FILE, LaunchFolder
    from automem.launch.status import look

    if (run / FILE).is_file() or not run.is_dir():
        found = [run]
    else:
        found = sorted(file.parent for file in run.glob(f"*/{FILE}")) or [run]
    looked = [(path, look(LaunchFolder.read(path))) for path in found]
    if as_json:
        print(json.dumps([{"run": str(path), "jobs": [_row(job) for job in jobs]} for path, jobs in looked], indent=2))
        return
    for path, jobs in looked:
        print(path)
        print("\n".join(f"  {line}" for line in _lines(jobs)))


@app.command()
def watch(
    run: Launch,
    exit_when_done: Annotated[bool, typer.Option("--exit-when-done", help="End when all jobs have.")] = False,
) -> None:
    """Show how the jobs go until ^C; exit code 1 if one did not succeed."""
    from automem.launch.folder import LaunchFolder
    from automem.launch.status import look

    folder = LaunchFolder.read(run)
    try:
        jobs = _watch_live(folder, exit_when_done) if sys.stderr.isatty() else _watch_plain(folder, exit_when_done)
    except KeyboardInterrupt:
        jobs = look(folder)
        if folder.started or not all(job.ended for job in jobs):
            raise typer.Exit(130) from None
    _tell_failures(jobs, folder)


@app.command()
def logs(
    run: Launch,
    job: Annotated[str | None, typer.Argument(metavar="[JOB[/ELEMENT]]", help="Which; else one that failed.")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job ends.")] = False,
) -> None:
    """The logs of a job's last attempt: of the job itself, its server and its commands."""
    from automem.launch.folder import LaunchFolder
    from automem.launch.status import look

    folder = LaunchFolder.read(run)
    element = _chosen(look(folder), job)
    shown: dict[Path, int] = {}
    last: Path | None = None
    while True:
        ended = _ended(folder, element)
        for file in _log_files(folder, element):
            last = _print_new(file, shown, last)
        if not follow or ended:
            break
        time.sleep(1)


@app.command()
def cancel(
    run: Launch,
    jobs: Jobs = None,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Show what would be cancelled.")] = False,
) -> None:
    """Stop jobs that wait or run; `resubmit` goes on with them."""
    from automem.launch import resubmit as again
    from automem.launch.folder import LaunchFolder
    from automem.launch.status import ENDED, look

    folder = LaunchFolder.read(run)
    chosen = again.named(look(folder), jobs or [])
    if dry_run:
        for job in chosen:
            for element in job.elements:
                if element.state not in ENDED:
                    print(f"would cancel {job.name}/{element.number} {element.slurm_id}".rstrip())
        return
    stopped = again.stop(folder, chosen)
    _say(f"cancelled: {', '.join(stopped)}" if stopped else "nothing waits or runs")


@app.command()
def resubmit(
    run: Launch,
    jobs: Jobs = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only what is not completed.")] = False,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Show what would be submitted.")] = False,
) -> None:
    """Start jobs again that neither wait nor run; their commands go on where they were."""
    from automem.launch import local, submit
    from automem.launch import resubmit as again
    from automem.launch.folder import LaunchFolder
    from automem.launch.status import look

    folder = LaunchFolder.read(run)
    looked = look(folder)
    owed = again.owed(looked, jobs or [], failed)
    if dry_run or not owed:
        for name, numbers in owed.items():
            print(f"would submit {name}: {', '.join(map(str, numbers))}")
        if not owed:
            _say("nothing to submit")
    elif folder.record.on == "local":
        local.run_all(folder, tell, owed)
    else:
        submit.submit_all(folder, tell, owed, again.active(folder, looked))


def _watch_plain(folder: LaunchFolder, exit_when_done: bool) -> list[JobStatus]:
    """Lines, when something has changed, and a sign of life now and then."""
    from automem.launch.status import look

    before: list[str] = []
    told = 0.0
    while True:
        jobs = look(folder)
        lines = list(_lines(jobs))
        changed = [line for line in lines if line not in before]
        if changed or time.monotonic() - told > _TOLD:
            for line in changed or lines:
                _say(line)
            before, told = lines, time.monotonic()
        if exit_when_done and _over(folder, jobs):
            return jobs
        time.sleep(_LOOK)


def _watch_live(folder: LaunchFolder, exit_when_done: bool) -> list[JobStatus]:
    """A table that is drawn anew."""
    from rich.console import Console
    from rich.live import Live

    from automem.launch.status import look

    jobs = look(folder)
    with Live(_table(jobs), console=Console(stderr=True), auto_refresh=False) as live:
        while not (exit_when_done and _over(folder, jobs)):
            time.sleep(_LOOK)
            jobs = look(folder)
            live.update(_table(jobs), refresh=True)
    return jobs


def _over(folder: LaunchFolder, jobs: list[JobStatus]) -> bool:
    """Whether all have ended and nobody is there who would start more."""
    if folder.started or not all(job.ended for job in jobs):
        return False
    if any(job.counts["unstarted"] for job in jobs):
        # A launch is written an instant before it starts.
        time.sleep(_LOOK)
    return not folder.started


def _table(jobs: list[JobStatus]) -> Any:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table("job", "stage", "elements", "episodes", "", box=None)
    for job in jobs:
        bar = ProgressBar(job.total, job.done, width=24) if job.total else ""
        table.add_row(job.name, job.planned.job.stage, _counts(job), _episodes(job), bar)
    return table


def _lines(jobs: list[JobStatus]) -> Iterator[str]:
    width = max((len(job.name) for job in jobs), default=0)
    for job in jobs:
        yield f"{job.name:{width}}  {_counts(job)}" + (f"; episodes {_episodes(job)}" if job.total else "")


def _counts(job: JobStatus) -> str:
    counts = job.counts
    if len(counts) == 1 and len(job.elements) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _episodes(job: JobStatus) -> str:
    return f"{job.done} of {job.total}" if job.total else ""


def _row(job: JobStatus) -> dict[str, Any]:
    elements = [
        {
            "element": element.number,
            "state": element.state,
            "slurm_id": element.slurm_id,
            "reason": element.reason,
            **(element.own.model_dump(include={"attempt", "host", "started", "ended"}) if element.own else {}),
            "exit_code": element.exit_code,
        }
        for element in job.elements
    ]
    stage = job.planned.job.stage
    return {"job": job.name, "stage": stage, "done": job.done, "episodes": job.total, "elements": elements}


def _tell_failures(jobs: list[JobStatus], folder: LaunchFolder) -> None:
    """Say which elements did not succeed, and how to go on.

    Raises:
        RunError: there is one.
    """
    from automem.errors import RunError

    elements = [element for job in jobs for element in job.elements]
    unstarted = list(dict.fromkeys(element.job for element in elements if element.state == "unstarted"))
    bad = [element for element in elements if element.state not in ("completed", "pending", "running")]
    if not bad:
        return
    failed = [element for element in bad if element.state != "unstarted"]
    for element in failed[:10]:
        _say(f"{element.job}/{element.number} {element.state}: {element.reason}".rstrip(": "))
    if unstarted:
        _say(f"not started, and nobody is left who would: {', '.join(unstarted)}")
    why = f"`automem job logs {folder.shown} {failed[0].job}/{failed[0].number}` shows why; " if failed else ""
    raise RunError(
        f"{len(bad)} of {len(elements)} elements did not succeed",
        f"{why}`automem job resubmit {folder.shown} --failed` goes on",
    )


def _chosen(jobs: list[JobStatus], asked: str | None) -> Element:
    """The element that is meant: by name, else one that failed, else one that runs, else the last with a log."""
    from automem.errors import UsageError
    from automem.launch.resubmit import named

    name, _, number = (asked or "").partition("/")
    elements = [element for job in named(jobs, [name] if name else []) for element in job.elements]
    if number:
        found = [element for element in elements if str(element.number) == number]
        if not found:
            raise UsageError(f"job '{name}' has no element '{number}'", f"it has 0 to {len(elements) - 1}")
        return found[0]
    order = ("failed", "lost", "interrupted", "running", "cancelled", "completed", "pending", "unstarted")
    return min(elements, key=lambda element: order.index(element.state))


def _log_files(folder: LaunchFolder, element: Element) -> list[Path]:
    """The logs of the last attempt; before there is one, what Slurm itself wrote."""
    logs = folder.job(element.job) / "logs"
    attempts = sorted(logs.glob(f"{element.number}/attempt_*"), key=lambda path: int(path.name.rpartition("_")[2]))
    if attempts:
        return [attempts[-1] / "job.log", *sorted(p for p in attempts[-1].glob("*.log") if p.name != "job.log")]
    return sorted(logs.glob(f"slurm-{element.slurm_id}*.out")) if element.slurm_id else []


def _ended(folder: LaunchFolder, element: Element) -> bool:
    from automem.launch.status import ENDED, look

    jobs = {job.name: job for job in look(folder)}
    return jobs[element.job].elements[element.number].state in ENDED


def _print_new(file: Path, shown: dict[Path, int], last: Path | None) -> Path | None:
    """Print what was added to a log since it was looked at last, under its name where another was printed before."""
    from automem.text import printable

    if not file.is_file():
        return last
    with file.open("rb") as log:
        log.seek(shown.get(file, 0))
        added = log.read()
    shown[file] = shown.get(file, 0) + len(added)
    if not added:
        return last
    if file != last:
        print(f"==> {file}")
    print(printable(added.decode(errors="replace")), end="", flush=True)
    return file


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
