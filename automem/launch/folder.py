"""The launch folder: what was launched, its scripts, and what the scheduler calls them. `launch.json` says it all.

launch.json                        the experiment with what -s changed, jobs, parts, submissions, commit, command line
cluster.yaml experiment.yaml       as they were read
diff.patch                         what the code differs in from its commit, where it does
snapshot/                          the code that the jobs run
jobs/<job>/job.sh                  its script; `sbatch jobs/<job>/job.sh` submits it again
jobs/<job>/status/<element>.json   how each element goes, written by the script
jobs/<job>/logs/<element>/attempt_<n>/
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from automem.config import read_yaml, validate
from automem.differences import differences
from automem.errors import RunError, UsageError
from automem.launch import snapshot
from automem.launch.cluster import Cluster, Resources
from automem.launch.job import Job
from automem.launch.plan import Part, Planned
from automem.launch.render import Place, render
from automem.launch.schema import ExperimentSpec
from automem.play.folder import write_atomically
from automem.play.provenance import command_line
from automem.records import read_record

FILE = "launch.json"
#: What to do about one that is damaged.
_MEND = "put it right or bring it back from a copy; without it `automem table` still reads the runs"
LOCK = "launch.lock"
CLUSTER = "cluster.yaml"
#: Keys of an experiment that change nothing of what is launched.
FREE = ("about", "variants")
#: Differences that are told at most.
_TOLD = 6


class PartRecord(BaseModel):
    """A script of a job: its elements `first` to `first + count - 1`."""

    model_config = ConfigDict(extra="forbid")

    number: int
    first: int = Field(ge=0)
    count: int = Field(ge=1)


class JobRecord(BaseModel):
    """A job as it was planned."""

    model_config = ConfigDict(extra="forbid")

    job: Job
    resources: Resources
    per: int = Field(ge=1)
    parts: list[PartRecord] = Field(min_length=1)
    parallel: int | None = Field(ge=1)

    def planned(self) -> Planned:
        """The plan again."""
        parts = tuple(Part(**part.model_dump()) for part in self.parts)
        return Planned(self.job, self.resources, self.per, parts, self.parallel)


class Submission(BaseModel):
    """A script given to the scheduler, and the name that it got there. `elements` count over the whole job."""

    model_config = ConfigDict(extra="forbid")

    job: str
    part: int
    slurm_id: str
    elements: list[int]
    at: float


class Record(BaseModel):
    """`launch.json`."""

    model_config = ConfigDict(extra="forbid")

    experiment: str
    on: Literal["slurm", "local"]
    cluster: str
    commit: str | None
    command: str
    cwd: str
    created: float
    jobs: list[JobRecord]
    submissions: list[Submission] = []
    #: The experiment as it was asked for, with what `-s` changed; None where jobs were made by hand.
    spec: dict[str, Any] | None = None

    def asked(self) -> ExperimentSpec | None:
        """The experiment again.

        Raises:
            UsageError: it is none by now, which an earlier version may have written.
        """
        return None if self.spec is None else validate(ExperimentSpec, self.spec, f"{FILE}: spec")

    @model_validator(mode="after")
    def _of_its_jobs(self) -> Record:
        parts = {(entry.job.name, part.number) for entry in self.jobs for part in entry.parts}
        for submission in self.submissions:
            if (submission.job, submission.part) not in parts:
                raise ValueError(f"part {submission.part} of '{submission.job}' was submitted, and there is none")
        return self


class LaunchFolder:
    """A launch on disk."""

    def __init__(self, path: Path, record: Record) -> None:
        self.path = path
        self.record = record

    @classmethod
    def read(cls, path: Path) -> LaunchFolder:
        """The launch at `path`.

        Raises:
            UsageError: nothing was launched there, or its `launch.json` is damaged.
        """
        file = path / FILE
        if not file.is_file():
            raise UsageError(f"no launch at '{path}': there is no {file}", "`automem launch EXPERIMENT -o` makes one")
        return cls(path.resolve(), read_record(file, Record, _MEND))

    @property
    def shown(self) -> str:
        """Its path as a command that is typed here takes it."""
        return os.path.relpath(self.path)

    @property
    def started(self) -> bool:
        """Whether a process is there that runs its jobs one after another, without Slurm."""
        try:
            with (self.path / LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @property
    def jobs(self) -> list[Planned]:
        """The jobs, needed ones first."""
        return [entry.planned() for entry in self.record.jobs]

    def job(self, name: str) -> Path:
        """The folder of a job."""
        return self.path / "jobs" / name

    def check_same(self, experiment: str, spec: ExperimentSpec, cluster: Cluster, on: str) -> None:
        """Raise UsageError when something else was launched here; the message names the keys."""
        if found := self._differences(experiment, spec, cluster, on):
            more = f"; and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
            raise UsageError(
                f"{self.shown} was made with other settings: {'; '.join(found[:_TOLD])}{more}",
                f"choose another -o; `automem job resubmit {self.shown} --failed` goes on with what is there",
            )

    def _differences(self, experiment: str, spec: ExperimentSpec, cluster: Cluster, on: str) -> list[str]:
        there = self.record
        for key, mine, its in (("experiment", experiment, there.experiment), ("on", on, there.on)):
            if mine != its:
                return [f"{key}: {its} there, {mine} here"]
        if (launched := there.asked()) is None:
            return ["it does not say which, as launches of an earlier version"]
        file = self.path / CLUSTER
        site = differences(cluster, validate(Cluster, read_yaml(file), file))
        return differences(spec, launched, FREE) + [f"cluster {difference}" for difference in site]

    def submitted(self, submissions: Iterable[Submission]) -> None:
        """Note what the scheduler has taken."""
        self.record.submissions.extend(submissions)
        self.save()

    def save(self) -> None:
        """Write `launch.json`, whole or not at all."""
        write_atomically(self.path / FILE, self.record.model_dump_json(indent=2) + "\n")


def make(
    out: Path,
    experiment: str,
    source: Path | None,
    cluster_name: str,
    cluster: Cluster,
    jobs: Iterable[Planned],
    on: Literal["slurm", "local"],
    spec: ExperimentSpec | None = None,
) -> LaunchFolder:
    """Write a new launch folder: snapshot, config and scripts. Nothing is submitted.

    `spec` is the experiment that the jobs were made from, with what was changed in it.

    Raises:
        UsageError: something else stands there.
        RunError: the folder cannot be written.
    """
    _refuse_foreign(out)
    out = out.resolve()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make {out}: {error.strerror}") from error
    code = snapshot.take(out)
    planned = list(jobs)
    place = Place(out, code.code, Path.cwd(), code.plugins)
    for each in planned:
        _write_job(each, cluster, place, about(experiment, cluster_name, code.commit))
    write_atomically(out / CLUSTER, yaml.safe_dump(cluster.model_dump(mode="json", exclude_unset=True)))
    if source is not None:
        write_atomically(out / "experiment.yaml", source.read_text(encoding="utf-8"))
    record = Record(
        experiment=experiment,
        on=on,
        cluster=cluster_name,
        commit=code.commit,
        command=command_line(),
        cwd=str(Path.cwd()),
        created=time.time(),
        jobs=[_job_record(each) for each in planned],
        spec=spec and spec.model_dump(mode="json"),
    )
    folder = LaunchFolder(out, record)
    folder.save()
    return folder


def about(experiment: str, cluster: str, commit: str | None) -> str:
    """One line on what a script was made from."""
    return f"Experiment {experiment}, cluster {cluster}, commit {commit or 'none: an installed package'}."


def _job_record(planned: Planned) -> JobRecord:
    parts = [PartRecord(number=part.number, first=part.first, count=part.count) for part in planned.parts]
    return JobRecord(
        job=planned.job, resources=planned.resources, per=planned.per, parts=parts, parallel=planned.parallel
    )


def _write_job(planned: Planned, cluster: Cluster, place: Place, said: str) -> None:
    folder = place.job(planned.job.name)
    # Slurm does not make the folder of its own log: without it a job fails and leaves no word.
    for name in ("logs", "status"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for part in planned.parts:
        script = folder / part.script
        write_atomically(script, render(planned, part, cluster, place, said))
        script.chmod(0o755)


def _refuse_foreign(out: Path) -> None:
    if out.is_file():
        raise UsageError(f"-o {out}: there is a file of that name")
    if (out / FILE).is_file():
        raise UsageError(
            f"{out} was launched before",
            f"`automem job list {out}` shows how it goes, `automem job resubmit {out} --failed` goes on with it",
        )
    if others := sorted(path.name for path in out.iterdir()) if out.is_dir() else []:
        raise UsageError(f"-o {out}: the folder holds something else ({others[0]}, …)", "choose a new folder")
