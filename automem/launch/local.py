"""Runs the jobs of a launch on this machine, one after another: the same scripts, without Slurm."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from automem.errors import RunError, UsageError
from automem.launch.folder import LOCK, LaunchFolder
from automem.launch.plan import Planned
from automem.launch.status import JobStatus, look
from automem.play.folder import locked

Tell = Callable[[str], None]
#: Seconds between signs of life, that a job has to stop, and before the lock is tried again.
_TOLD, _GRACE, _AGAIN, _TRIES = 30.0, 60.0, 0.3, 5


def run_all(folder: LaunchFolder, tell: Tell, elements: Mapping[str, Sequence[int]] | None = None) -> None:
    """Run what is not completed, or just these `elements`, in the order of needs.

    A job whose need has failed is passed over.

    Raises:
        UsageError: another process does the same.
        RunError: a job failed.
        KeyboardInterrupt: ^C or SIGTERM; the job that ran was stopped and goes on the next time.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    bad: dict[str, str] = {}
    passed_over: set[str] = set()
    ran: set[str] = set()
    with _alone(folder):
        for planned in folder.jobs:
            name = planned.job.name
            if planned.job.stage != "aggregate" and (missing := [need for need in planned.job.needs if need in bad]):
                bad[name] = f"passed over: it needs {missing[0]}"
                passed_over.add(name)
            else:
                numbers = _owed(folder, planned, ran) if elements is None else elements.get(name, ())
                if numbers:
                    ran.add(name)
                if reason := _run_job(folder, planned, numbers, tell):
                    bad[name] = reason
            if name in bad:
                tell(f"{name}: {bad[name]}")
    if bad:
        first, reason = next(iter(bad.items()))
        also = f" and {len(passed_over)} passed over" if passed_over else ""
        raise RunError(
            f"{len(bad) - len(passed_over)} of {len(folder.jobs)} jobs failed{also}; the first, {first}: {reason}",
            f"`automem job logs {folder.shown} {first}` shows why; the same command goes on",
        )
    tell(_summary(folder))


@contextmanager
def _alone(folder: LaunchFolder) -> Iterator[None]:
    with ExitStack() as stack:
        # Whoever looks whether it is held has it for an instant.
        for _ in range(_TRIES):
            with suppress(UsageError):
                stack.enter_context(locked(folder.path / LOCK))
                break
            time.sleep(_AGAIN)
        else:
            stack.enter_context(locked(folder.path / LOCK))
        yield


def _summary(folder: LaunchFolder) -> str:
    """How many jobs are completed, and which are not."""
    jobs = look(folder)
    owed = [job.name for job in jobs if set(job.counts) != {"completed"}]
    if not owed:
        return f"all {len(jobs)} jobs are completed"
    hint = f"`automem job resubmit {folder.shown} --failed` goes on with them"
    return f"{len(jobs) - len(owed)} of {len(jobs)} jobs are completed, {', '.join(owed)} not; {hint}"


def _owed(folder: LaunchFolder, planned: Planned, ran: set[str]) -> list[int]:
    """The elements that are not completed; a table is made again when something new is in it."""
    afresh = planned.job.stage == "aggregate" and bool(ran & set(planned.job.needs))
    return [e.number for e in _status(folder, planned).elements if afresh or e.state != "completed"]


def _status(folder: LaunchFolder, planned: Planned) -> JobStatus:
    return next(status for status in look(folder) if status.name == planned.job.name)


def _run_job(folder: LaunchFolder, planned: Planned, numbers: Sequence[int], tell: Tell) -> str | None:
    """Run elements of a job; what went wrong first, or None."""
    failed = []
    for number in numbers:
        tell(f"{planned.job.name}: {number + 1} of {planned.elements}")
        if code := _run_element(folder, planned, number, tell):
            own = _status(folder, planned).elements[number].own
            failed.append((own and own.reason) or f"element {number} ended with exit code {code}")
    return failed[0] if failed else None


def _run_element(folder: LaunchFolder, planned: Planned, number: int, tell: Tell) -> int:
    (part,) = planned.parts
    script = folder.job(planned.job.name) / part.script
    # Inside an allocation of Slurm its variables would be taken for those of this job.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
    environment["SLURM_ARRAY_TASK_ID"] = str(number)
    process = subprocess.Popen(
        ["bash", str(script)],
        cwd=folder.record.cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return _wait(process, folder, planned, tell)
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)


def _wait(process: subprocess.Popen[bytes], folder: LaunchFolder, planned: Planned, tell: Tell) -> int:
    began = time.monotonic()
    while True:
        try:
            return process.wait(_TOLD)
        except subprocess.TimeoutExpired:
            status = _status(folder, planned)
            passed = time.monotonic() - began
            episodes = f"{status.done} of {status.total} episodes, " if status.total else ""
            tell(f"{planned.job.name}: {episodes}{passed:.0f} s")
