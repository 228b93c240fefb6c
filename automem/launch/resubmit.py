"""What of a launch is started again, and what is stopped."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress

from automem.errors import UsageError, did_you_mean
from automem.launch import slurm
from automem.launch.folder import LaunchFolder, Submission
from automem.launch.status import ENDED, JobStatus


def named(jobs: Sequence[JobStatus], names: Iterable[str]) -> list[JobStatus]:
    """The jobs of these names; all where none is named.

    Raises:
        UsageError: there is no such job.
    """
    known = {job.name: job for job in jobs}
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise UsageError(f"there is no job '{name}'", did_you_mean(name, known))
    return [known[name] for name in wanted] if wanted else list(jobs)


def owed(jobs: Sequence[JobStatus], names: Iterable[str] = (), failed: bool = False) -> dict[str, list[int]]:
    """The elements to start: those that neither wait nor run, with `failed` only those not completed.

    A table is made again when something is played again that goes into it.
    """
    again: dict[str, list[int]] = {}
    chosen = {job.name for job in named(jobs, names)}
    for job in jobs:
        ended = [element for element in job.elements if element.state in ENDED]
        if job.planned.job.stage == "aggregate" and set(job.planned.job.needs) & set(again):
            numbers = [element.number for element in ended]
        elif job.name in chosen:
            numbers = [element.number for element in ended if not failed or element.state != "completed"]
        else:
            continue
        if numbers:
            again[job.name] = numbers
    return again


def active(folder: LaunchFolder, jobs: Sequence[JobStatus]) -> list[Submission]:
    """The submissions of which something waits or runs."""
    ids = {e.slurm_id.partition("_")[0] for job in jobs for e in job.elements if e.state not in ENDED}
    return [submission for submission in folder.record.submissions if submission.slurm_id in ids]


def stop(folder: LaunchFolder, jobs: Sequence[JobStatus]) -> list[str]:
    """Cancel what waits or runs of these jobs; returns what was stopped, by the scheduler's name or as a process.

    Raises:
        RunError: the scheduler does not answer.
    """
    active = [element for job in jobs for element in job.elements if element.state not in ENDED]
    if folder.record.on == "slurm":
        ids = [element.slurm_id for element in active if element.slurm_id]
        slurm.cancel(ids)
        return ids
    stopped = []
    for element in active:
        if element.own and element.state == "running" and element.own.host == socket.gethostname():
            with suppress(ProcessLookupError):
                os.kill(element.own.pid, signal.SIGTERM)
                stopped.append(f"process {element.own.pid}")
    return stopped
