"""The run folder: what was asked for, what was played, and a lock while it is being written.

run.json                              config, versions, git commit, evaluator digest, command lines
scaffold/                             the scaffold played, by value
traces/<env>/<task>/<episode>.jsonl
memory/<env>/<task>/<episode>/        final memory directory
logs/attempt_<n>/
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from automem.differences import differences
from automem.episode import EpisodeSpec, Limits, ModelSpec
from automem.errors import RunError, UsageError, did_you_mean
from automem.messages import Role
from automem.plugins import plain_name
from automem.records import checked, read_json
from automem.trace import Result, check_lines, read_result

#: The name of a trace: what `EpisodeSpec.id` is made of.
_TRACE = re.compile(r"s\d+-[0-9a-f]{12}\.jsonl")
_MEND = "put it right or bring it back from a copy; `automem run --redo` plays the run afresh"


class RunConfig(BaseModel):
    """What a run plays: one env with one scaffold and models, over tasks and seeds."""

    model_config = ConfigDict(extra="forbid")

    env: str
    tasks: Annotated[list[str], Field(min_length=1)]
    options: dict[str, Any] = Field(default_factory=dict)
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    scaffold: str
    scaffold_digest: str
    models: dict[Role, ModelSpec]
    limits: Limits = Limits()
    repeat: Annotated[int, Field(ge=0)] = 0

    @field_validator("models")
    @classmethod
    def _committing(cls, models: dict[Role, ModelSpec]) -> dict[Role, ModelSpec]:
        if "gameplay" not in models:
            raise ValueError("there is none for the role gameplay")
        return models

    def specs(self) -> list[EpisodeSpec]:
        """The episodes of the run, task by task, seed by seed."""
        shared = self.model_dump(exclude={"tasks", "seeds"})
        return [EpisodeSpec(task=task, seed=seed, **shared) for task in self.tasks for seed in self.seeds]

    def differences(self, other: RunConfig) -> list[str]:
        """The settings, other than tasks and seeds, in which two configs differ."""
        return differences(self, other, free=("tasks", "seeds"))

    def extended(self, other: RunConfig) -> RunConfig:
        """This config with the tasks and seeds of `other` added."""
        tasks = list(dict.fromkeys(other.tasks + self.tasks))
        seeds = list(dict.fromkeys(other.seeds + self.seeds))
        return self.model_copy(update={"tasks": tasks, "seeds": seeds})


class _Record(BaseModel):
    """`run.json`, as far as it is read here; the rest of it is about the first attempt."""

    config: RunConfig


class RunFolder:
    """One run on disk. Reading needs no lock; `writing_run` holds it."""

    def __init__(self, path: Path, config: RunConfig, record: dict[str, Any]) -> None:
        self.path = path
        self.config = config
        self.record = record

    @classmethod
    def read(cls, path: Path) -> RunFolder:
        """The run at `path`.

        Raises:
            UsageError: there is no run there, or its `run.json` is damaged.
        """
        file = path / "run.json"
        refuse_lost(path)
        if not file.is_file():
            raise UsageError(f"no run at '{path}': there is no {file}", "runs are written by `automem run -o`")
        record = read_json(file, _MEND)
        return cls(path, checked(_Record, record, f"{file} is damaged", _MEND).config, record)

    @property
    def name(self) -> str:
        """The name of the run: its folder as it was given."""
        return str(self.path)

    def trace_path(self, spec: EpisodeSpec) -> Path:
        """Where the trace of `spec` is."""
        return self.path / "traces" / plain_name(spec.env) / spec.task / f"{spec.id}.jsonl"

    def result(self, spec: EpisodeSpec) -> Result | None:
        """How the episode of `spec` ended; None while it was not played to an end."""
        path = self.trace_path(spec)
        return read_result(path) if path.is_file() else None

    def finished(self) -> Iterator[tuple[EpisodeSpec, Result]]:
        """The finished episodes with their results, in the order of the config."""
        for spec in self.config.specs():
            result = self.result(spec)
            if result is not None and result.finished:
                yield spec, result

    def find(self, episode: str) -> EpisodeSpec:
        """The episode that is meant by its id, its seed or TASK/SEED.

        Raises:
            UsageError: there is none, or the seed was played in several tasks.
        """
        specs = self.config.specs()
        found = [s for s in specs if episode in (s.id, str(s.seed), f"{s.task}/{s.seed}")]
        if not found:
            known = [name for s in specs for name in (s.id, f"{s.task}/{s.seed}")]
            raise UsageError(f"there is no episode '{episode[:80]}'", did_you_mean(episode[:80], known))
        if len(found) > 1:
            names = ", ".join(f"{s.id} ({s.task})" for s in found)
            raise UsageError(f"several episodes have the seed {episode}", f"name one of {names}")
        return found[0]

    def trace_of(self, episode: str) -> Path:
        """The trace of the episode that `find` finds.

        Raises:
            UsageError: there is no such episode, or nothing of it was played yet.
        """
        spec = self.find(episode)
        path = self.trace_path(spec)
        if not path.is_file():
            raise UsageError(f"episode {spec.id} ({spec.task}, seed {spec.seed}) was not played yet")
        return path

    def memory_path(self, spec: EpisodeSpec) -> Path:
        """Where the memory directory of `spec` is."""
        return self.path / "memory" / plain_name(spec.env) / spec.task / spec.id

    def save(self) -> None:
        """Write `run.json`, whole or not at all."""
        self.record["config"] = self.config.model_dump(mode="json")
        write_atomically(self.path / "run.json", json.dumps(self.record, indent=2) + "\n")


@contextmanager
def writing_run(
    path: Path, config: RunConfig, record: dict[str, Any], redo: bool = False
) -> Iterator[tuple[RunFolder, Path]]:
    """Hold the run folder at `path` for `config`: a new one, or an earlier one of the same settings, extended.

    Yields the folder and a new `logs/attempt_<n>`, which has `record` as `attempt.json`.

    Raises:
        UsageError: the folder holds a run of other settings (the message says which) or something else, or
            another process writes there (the message names its host and pid).
        RunError: the folder cannot be written.
    """
    if not (path / "run.json").is_file():
        _refuse_foreign(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make {path}: {error.strerror}") from error
    with locked(path / "run.lock"):
        if redo:
            _throw_away(path)
        folder = _opened(path, config, record)
        attempt = _new_attempt(path / "logs")
        write_atomically(attempt / "attempt.json", json.dumps(record, indent=2) + "\n")
        folder.save()
        yield folder, attempt


def check_run(path: Path, config: RunConfig) -> None:
    """Raise what `writing_run` would raise about what stands at `path`; writes nothing."""
    if (path / "run.json").is_file():
        _opened(path, config, {})
    else:
        _refuse_foreign(path)


def refuse_lost(path: Path) -> None:
    """Raise UsageError where `path` is a run whose `run.json` is gone: without it nobody knows what was played."""
    if (path / "run.json").is_file() or not any(_TRACE.fullmatch(file.name) for file in path.glob("traces/*/*/*")):
        return
    raise UsageError(
        f"{path / 'run.json'} is missing, but there are traces of a run in {path / 'traces'}",
        "bring it back from a copy; without one, move the folder away and play the run again",
    )


def _opened(path: Path, config: RunConfig, record: dict[str, Any]) -> RunFolder:
    if not (path / "run.json").is_file():
        return RunFolder(path, config, record)
    folder = RunFolder.read(path)
    if differences := config.differences(folder.config):
        raise UsageError(
            f"{path} was made with other settings: {'; '.join(differences)}",
            "choose another -o, or --redo to throw the earlier run away",
        )
    extended = RunFolder(path, config.extended(folder.config), folder.record)
    # An episode counts as played by its last line alone: a trace that is damaged must be told before others are played.
    for spec in extended.config.specs():
        if (trace := extended.trace_path(spec)).is_file():
            check_lines(trace, spec)
    return extended


def _throw_away(path: Path) -> None:
    try:
        for name in ("traces", "memory"):
            if (path / name).exists():
                shutil.rmtree(path / name)
        (path / "run.json").unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"cannot throw the earlier run in {path} away: {error}") from error


def _new_attempt(logs: Path) -> Path:
    numbers = [int(p.name.removeprefix("attempt_")) for p in logs.glob("attempt_*") if p.name[8:].isdecimal()]
    attempt = logs / f"attempt_{1 + max(numbers, default=0)}"
    try:
        attempt.mkdir(parents=True)
    except OSError as error:
        raise RunError(f"cannot make {attempt}: {error.strerror}") from error
    return attempt


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that no reader ever sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"cannot write {path}: {error.strerror}") from error


def _refuse_foreign(path: Path) -> None:
    if path.is_file():
        raise UsageError(f"-o {path}: there is a file of that name")
    refuse_lost(path)
    # What a run that was killed before it wrote run.json may have left.
    left = {"run.lock", "logs", "scaffold"}
    names = [p.name for p in path.iterdir()] if path.is_dir() else []
    if others := sorted(name for name in names if name not in left and not name.startswith(".run.json.")):
        raise UsageError(f"-o {path}: the folder holds something else ({others[0]}, …)", "choose a new folder")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`.

    Raises:
        UsageError: another process holds it; the message names its host and pid.
        RunError: the file cannot be written, or the file system knows no locks.
    """
    with ExitStack() as opened:
        try:
            file = opened.enter_context(path.open("a+b", buffering=0))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
            file.write(f"pid {os.getpid()} on {socket.gethostname()}".encode())
        except BlockingIOError as error:
            file.seek(0)
            raise UsageError(
                f"{path.parent} is being written by {file.read().decode().strip() or 'another process'}",
                "wait for it, or choose another -o",
            ) from error
        except OSError as error:
            raise RunError(f"cannot write {path}: {error.strerror}") from error
        yield
