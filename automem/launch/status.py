"""How the jobs of a launch go: their own status files first, then sacct, then scontrol."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from automem.launch import slurm
from automem.launch.folder import LaunchFolder, Submission
from automem.launch.plan import Planned
from automem.play.folder import RunFolder
from automem.records import read_record

#: `unstarted` waits like `pending`, but nobody is there who would start it.
State = Literal["pending", "running", "completed", "failed", "interrupted", "cancelled", "lost", "unstarted"]
#: States that an element stays in unless it is started again.
ENDED: frozenset[State] = frozenset({"completed", "failed", "interrupted", "cancelled", "lost", "unstarted"})

#: The states of Slurm in which a job is over -> ours.
_OVER: dict[str, State] = {
    "BOOT_FAIL": "failed",
    "CANCELLED": "cancelled",
    "COMPLETED": "lost",
    "DEADLINE": "failed",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "PREEMPTED": "interrupted",
    "REVOKED": "cancelled",
    "TIMEOUT": "failed",
    slurm.GONE: "lost",
}
#: What to do about a status file that is damaged.
_MEND = "delete it: a job that runs writes it anew, and `automem job resubmit` goes on with one that has ended"
_WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "SUSPENDED", "CONFIGURING")


class OwnStatus(BaseModel):
    """`status/<element>.json`, as slurm/lib/job.sh writes it. Times are seconds since 1970."""

    model_config = ConfigDict(extra="forbid")

    state: Literal["running", "completed", "failed", "interrupted", "requeued"]
    element: int
    attempt: int
    task: int
    slurm_id: str
    restart: int
    host: str
    pid: int
    started: int
    ended: int | None
    exit_code: int | None
    reason: str

    @classmethod
    def read(cls, file: Path) -> OwnStatus | None:
        """The status in a file; None before there is one.

        Raises:
            UsageError: it is damaged.
        """
        return read_record(file, cls, _MEND) if file.exists() else None


@dataclass(frozen=True)
class Element:
    """One element of a job: how it goes, and what it is called. `own` is what its script last wrote."""

    job: str
    number: int
    state: State
    slurm_id: str = ""
    own: OwnStatus | None = None
    reason: str = ""

    @property
    def exit_code(self) -> int | None:
        """Its exit code, where it has one."""
        return self.own.exit_code if self.own else None


@dataclass(frozen=True)
class JobStatus:
    """A job with its elements, and the episodes that it has played."""

    planned: Planned
    elements: tuple[Element, ...]
    done: int
    total: int

    @property
    def name(self) -> str:
        """The job's name."""
        return self.planned.job.name

    @property
    def ended(self) -> bool:
        """Whether nothing of it waits or runs."""
        return all(element.state in ENDED for element in self.elements)

    @property
    def counts(self) -> Counter[State]:
        """How many elements are in which state."""
        return Counter(element.state for element in self.elements)


def look(folder: LaunchFolder) -> list[JobStatus]:
    """How all jobs go, in their order."""
    if folder.record.on == "local":
        started = folder.started
        elements = [tuple(_local(folder, job, n, started) for n in range(job.elements)) for job in folder.jobs]
    else:
        elements = _on_slurm(folder)
    found = []
    for planned, of_job in zip(folder.jobs, elements, strict=True):
        done, total = episodes(_folders(folder, planned))
        found.append(JobStatus(planned, of_job, done, total))
    return found


def _on_slurm(folder: LaunchFolder) -> list[tuple[Element, ...]]:
    """The elements of each job, as their own files and the scheduler say."""
    # The scheduler is asked first, so that a status file that is read later is never older than its answer.
    seen = slurm.look(list(dict.fromkeys(s.slurm_id for s in folder.record.submissions)))
    elements = _elements(folder, seen)
    # For some seconds sacct tells a job that went back into the queue as ended.
    if unconfirmed := _unconfirmed(elements):
        elements = _elements(folder, seen | slurm.held(unconfirmed))
    return elements


def _unconfirmed(elements: Iterable[Iterable[Element]]) -> list[str]:
    """The jobs of elements that are over, as the scheduler says and they themselves do not."""
    ended = [element for of_job in elements for element in of_job if element.state in ENDED]
    over = [e for e in ended if not (e.own and e.own.state in ("completed", "failed"))]
    return list(dict.fromkeys(e.slurm_id.partition("_")[0] for e in over if e.slurm_id))


def _elements(folder: LaunchFolder, seen: Mapping[str, slurm.Seen]) -> list[tuple[Element, ...]]:
    """The elements of each job."""
    return [tuple(_element(folder, job, n, seen) for n in range(job.elements)) for job in folder.jobs]


def _element(folder: LaunchFolder, planned: Planned, number: int, seen: Mapping[str, slurm.Seen]) -> Element:
    own = _own(folder, planned, number)
    submission = _last(folder.record.submissions, planned.job.name, number)
    if submission is None:
        return Element(planned.job.name, number, "pending", reason="not submitted")
    name = _name_of(submission, planned, number)
    if own is not None and _number(own.slurm_id) < _number(name):
        own = None
    elif own is not None and own.slurm_id != name and own.slurm_id:
        name = own.slurm_id
    # Of a job that is forgotten there is one answer for all its elements; else the bare number is one of them.
    job = seen.get(name.partition("_")[0])
    gone = job if job and job.state == slurm.GONE else None
    return _with_scheduler(planned.job.name, number, name, own, seen.get(name) or gone)


def _own(folder: LaunchFolder, planned: Planned, number: int) -> OwnStatus | None:
    return OwnStatus.read(folder.job(planned.job.name) / "status" / f"{number}.json")


def _local(folder: LaunchFolder, planned: Planned, number: int, started: bool) -> Element:
    name, own = planned.job.name, _own(folder, planned, number)
    if own is None:
        return Element(name, number, "pending" if started else "unstarted")
    state: State = "interrupted" if own.state == "requeued" else own.state
    if own.state == "running" and own.host == socket.gethostname() and not _runs(own.pid, folder.job(name)):
        return Element(name, number, "lost", own=own, reason="its process is gone")
    return Element(name, number, state, own=own, reason=own.reason)


def _runs(pid: int, folder: Path) -> bool:
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _with_scheduler(job: str, number: int, name: str, own: OwnStatus | None, seen: slurm.Seen | None) -> Element:
    if own is not None and own.state in ("completed", "failed"):
        return Element(job, number, "completed" if own.state == "completed" else "failed", name, own, own.reason)
    if seen is None:
        # Just submitted, or the scheduler does not answer: what was last known stays.
        state: State = "running" if own and own.state == "running" else "pending"
    elif seen.state in _WAITING:
        state = "pending"
    elif seen.state in _OVER:
        state = _OVER[seen.state]
        if own is not None and own.state == "interrupted" and state in ("failed", "lost"):
            state = "interrupted"
    else:
        state = "running"
    said = f"{seen.state} {seen.reason if seen.reason != 'None' else ''}".strip() if seen else ""
    return Element(job, number, state, name, own, said)


def _last(submissions: Sequence[Submission], job: str, number: int) -> Submission | None:
    return next((s for s in reversed(submissions) if s.job == job and number in s.elements), None)


def _name_of(submission: Submission, planned: Planned, number: int) -> str:
    if not planned.array:
        return submission.slurm_id
    part = next(part for part in planned.parts if part.number == submission.part)
    return f"{submission.slurm_id}_{number - part.first}"


def _number(name: str) -> int:
    digits = name.partition("_")[0]
    return int(digits) if digits.isdecimal() else -1


def _folders(folder: LaunchFolder, planned: Planned) -> list[Path]:
    """What the commands of a job write to."""
    found = []
    for command in planned.job.tasks:
        for option, value in pairwise(command):
            if option in ("-o", "--out"):
                found.append(Path(folder.record.cwd) / value)
    return list(dict.fromkeys(found))


def episodes(folders: Iterable[Path]) -> tuple[int, int]:
    """Episodes that are done, and those that are known to be played, in runs at or below folders."""
    done = total = 0
    for place in folders:
        for file in sorted(place.rglob("run.json")):
            run = RunFolder.read(file.parent)
            total += len(run.config.specs())
            done += sum(1 for _ in run.finished())
    return done, total
