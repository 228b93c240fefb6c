"""`Trace`: what happened in one episode, as one JSONL file that loses nothing and repeats little.

A header line, one line per step, one result line. Without a result line the episode is not finished. The result
line ends with a digest of everything before it, so that an edited trace can be told from one that was played.
Texts of some length are stored once per file: each line brings its new `texts`, which extend the file's
text table, and wherever a text stands there may be an int (a table entry) or a list of ints and literal
pieces to be joined. A torn last line is dropped and owed again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict

from automem.episode import EpisodeSpec
from automem.errors import FailureKind, RunError, UsageError
from automem.interning import TextTable, pack, unpack
from automem.memory.kinds import Splice
from automem.messages import Message, Phase, Role, ToolCall, Usage
from automem.records import reason

FORMAT = 1
_SYNC_SECONDS = 3.0

_HASH = partial(blake2b, digest_size=16)

#: How lines begin; by that they are told without being taken apart.
_STEP, _RESULT = b'{"kind":"step","t":%d,', b'{"kind":"result",'
#: How the result line goes on to its end, after what the digest was taken of.
_DIGEST = b',"digest":'

#: What reading a line may raise when somebody has edited it.
_DAMAGED = (AttributeError, LookupError, TypeError, ValueError)


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


#: Why an operation was not executed: `memory` refused it, the game has no such action, the scaffold's guard
#: spoke against it, it was held until an answer is read, it stood after the end or beyond a limit, …
Refusal = Literal["malformed", "not offered", "memory", "unknown action", "rejected", "held", "after the end"]


class OperationRecord(_Record):
    """One operation of a reply and the answer to it. `name` is `?` where the reply was malformed.

    `refusal` is set when it was not executed, and `ok` is then False.
    """

    name: str
    args: list[str] = []
    ok: bool = True
    result: str = ""
    hits: int | None = None
    changed: bool = False
    repeat: bool = False
    refusal: Refusal | None = None


class Call(_Record):
    """One model call: what was sent, what came back, what its operations did."""

    role: Role
    phase: Phase
    messages: list[Message]
    reply: str
    tool_calls: list[ToolCall] = []
    operations: list[OperationRecord] = []
    usage: Usage
    finish_reason: str = "stop"
    retries: int = 0
    seconds: float = 0.0


class Step(_Record):
    """One `env.step`: what the agent saw, its calls, the action, what came of it.

    `proposed` is the last action the model named (None: it named none); `action` is what was executed;
    `fallback` tells that the default action stood in because no valid one came within the rounds.
    `next_digest` is the digest of the observation that followed, for the check on resume.
    """

    t: int
    observation: str
    calls: list[Call] = []
    proposed: str | None = None
    action: str
    fallback: bool = False
    rejections: list[str] = []
    reward: float
    progress: float
    terminated: bool = False
    truncated: bool = False
    next_digest: str
    memory: list[Splice] = []
    evictions: list[dict[str, Any]] = []
    seconds: dict[str, float] = {}


class Result(_Record):
    """How the episode ended. `failure` and `message` (and perhaps `hint`) are set when it failed: it is owed again."""

    end: Literal["terminated", "truncated", "failed"]
    progress: float
    score: float
    steps: int
    failure: FailureKind | None = None
    message: str | None = None
    hint: str | None = None

    @property
    def finished(self) -> bool:
        """Whether the episode was played to its end; one that failed is owed again."""
        return self.failure is None


@dataclass
class Trace:
    """A trace in memory. `result` is None while the episode is not finished."""

    spec: EpisodeSpec
    steps: list[Step]
    result: Result | None
    path: Path | None = None


class TraceWriter:
    """Appends records to one trace file. A line is one write, so a killed process loses at most one step."""

    def __init__(self, path: Path, spec: EpisodeSpec) -> None:
        """Open `path`; an existing unfinished trace is cut to its whole step lines and continued.

        Raises:
            UsageError: the file is the trace of another episode, or is damaged.
        """
        self._path = path
        self._table = TextTable()
        self._hasher = _HASH()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._reopen(spec)
        self._file = path.open("ab", buffering=0)
        self._synced = time.monotonic()
        if path.stat().st_size == 0:
            self._write({"kind": "header", "format": FORMAT, "id": spec.id, "spec": spec.model_dump(mode="json")})

    def step(self, step: Step) -> None:
        """Write one step line."""
        record = {"kind": "step", **pack(step.model_dump(exclude_defaults=True), self._table)}
        if fresh := self._table.take_fresh():
            record["texts"] = fresh
        self._write(record)
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            self.sync()

    def result(self, result: Result) -> None:
        """Write the result line: the episode is finished."""
        record = {"kind": "result", **result.model_dump(exclude_none=True)}
        hasher = self._hasher.copy()
        hasher.update(_line(record))
        self._write(record | {"digest": hasher.hexdigest()})
        self.sync()

    def sync(self) -> None:
        """Force what was written to the disk."""
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and close the file."""
        self.sync()
        self._file.close()

    def _reopen(self, spec: EpisodeSpec) -> None:
        check_lines(self._path, spec)
        end = 0
        for record, end_of_line in _lines(self._path):
            if record["kind"] == "result":
                break
            for text in record.get("texts", ()):
                self._table.add(text)
            end = end_of_line
        self._table.take_fresh()
        os.truncate(self._path, end)
        self._hasher.update(self._path.read_bytes())

    def _write(self, record: dict[str, Any]) -> None:
        line = _line(record)
        self._hasher.update(line)
        try:
            written = self._file.write(line)
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {error.strerror}", "the run can be resumed") from error
        if written != len(line):
            raise RunError(f"cannot write {self._path}: the disk is full", "make room, then run again to resume")


class TraceReader:
    """Reads one trace file step by step, holding no more than its text table."""

    def __init__(self, path: Path) -> None:
        """Read the header of `path`.

        Raises:
            UsageError: not a trace, or of another format.
        """
        self.path = path
        self.result: Result | None = None
        self._texts: list[str] = []
        header = next((record for record, _ in _lines(path)), None)
        if header is None or header.get("kind") != "header":
            raise UsageError(f"{path} is not a trace: it has no header line", _mend(path, 1))
        if header.get("format") != FORMAT:
            raise UsageError(
                f"{path} has trace format {header.get('format')}, this version reads {FORMAT}",
                "read it with the version of AutoMem that wrote it",
            )
        try:
            self.spec = EpisodeSpec.model_validate(header["spec"])
        except _DAMAGED as error:
            raise _damaged(path, 1, reason(error)) from error

    def steps(self) -> Iterator[Step]:
        """The steps in order; `result` is set when the last one has been read.

        Raises:
            UsageError: a line is damaged or missing; names it.
        """
        self._texts, self.result = [], None
        order = _Order()
        for number, (record, _) in enumerate(_lines(self.path), 1):
            try:
                kind = order.take(record)
                self._texts += record.pop("texts", ())
                step = Step.model_validate(unpack(record, self._texts)) if kind == "step" else None
            except _DAMAGED as error:
                raise _damaged(self.path, number, reason(error)) from error
            self.result = order.result
            if step is not None:
                yield step


@dataclass
class _Order:
    """The order of the lines of a trace: how far it has come."""

    steps: int = 0
    begun: bool = False
    result: Result | None = None

    def take(self, record: dict[str, Any]) -> str:
        """The kind of the next line.

        Raises:
            KeyError, ValueError: it is none, or another one is due; says which.
        """
        kind = record.pop("kind")
        if self.result is not None:
            raise ValueError("it stands behind the result")
        if not self.begun and kind != "header":
            raise ValueError("the header is missing")
        if kind == "step":
            # Looked at before the texts: where a line is missing, those that it brought are missing, too.
            if record["t"] != self.steps:
                raise ValueError(f"step {record['t']} stands where step {self.steps} is due")
            self.steps += 1
        elif kind == "result":
            self.result = _result(record)
            if self.result.finished and self.result.steps != self.steps:
                raise ValueError(f"the result is of {self.result.steps} steps, and {self.steps} are there")
        elif self.begun:
            raise ValueError("it is no step")
        self.begun = True
        return str(kind)


def read_trace(path: Path) -> Trace:
    """Read a whole trace into memory."""
    reader = TraceReader(path)
    steps = list(reader.steps())
    return Trace(reader.spec, steps, reader.result, path)


def read_result(path: Path) -> Result | None:
    """The result line of a trace, read from its end; None while the episode is not finished."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 65_536))
        tail = file.read().splitlines(keepends=True)
    if not tail or not tail[-1].endswith(b"\n") or not tail[-1].startswith(_RESULT):
        return None
    try:
        record = json.loads(tail[-1])
        record.pop("kind")
        return _result(record)
    except _DAMAGED as error:
        raise _damaged(path, "the last line", reason(error)) from error


def check_lines(path: Path, spec: EpisodeSpec) -> None:
    """Check that a trace is that of `spec` and that all of its lines are there, without taking them apart.

    So fast that each start can look at all traces of a run. What is wrong within a line is found by whoever reads it.

    Raises:
        UsageError: it is the trace of another episode, or a line is damaged or missing; names it.
    """
    order = _Order()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if order.begun and order.result is None and line.startswith(_STEP % order.steps) and line.endswith(b"}\n"):
                order.steps += 1
                continue
            if (record := _parsed(path, number, line, file)) is None:
                return
            try:
                if number == 1 and record["id"] != spec.id:
                    raise ValueError(f"it is the trace of another episode ({record['id']})")
                order.take(record)
            except _DAMAGED as error:
                raise _damaged(path, number, reason(error)) from error


def check_unedited(path: Path) -> None:
    """Check that a finished trace is byte for byte what was written.

    Raises:
        UsageError: its lines are not those that the digest in its result line was taken of, or it has none.
    """
    hasher = _HASH()
    last = b""
    with path.open("rb") as file:
        for line in file:
            hasher.update(last)
            last = line
    result, has_digest, digest = last.rpartition(_DIGEST)
    if not has_digest:
        raise UsageError(f"{path} has no digest: it was edited, or written before traces had one", _mend(path, 0))
    hasher.update(result + b"}\n")
    if digest != b'"%s"}\n' % hasher.hexdigest().encode():
        raise UsageError(f"{path} was edited or is damaged: its digest is that of other lines", _mend(path, 0))


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _result(record: dict[str, Any]) -> Result:
    """The result in a line, whose digest is about the file and no part of it."""
    return Result.model_validate({key: value for key, value in record.items() if key != "digest"})


def _lines(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Whole lines as (record, offset of the line's end); a torn last line is left out."""
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            offset += len(line)
            if (record := _parsed(path, number, line, file)) is None:
                return
            yield record, offset


def _parsed(path: Path, number: int, line: bytes, file: BinaryIO) -> dict[str, Any] | None:
    """The record in a line; None in place of a torn last one."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # bytes that are not UTF-8 count too
        if file.read(1) == b"":
            return None
        raise UsageError(f"{path}, line {number}: not JSON", _mend(path, number)) from error
    if not isinstance(record, dict):
        raise UsageError(f"{path}, line {number}: not a line of a trace", _mend(path, number))
    return record


def _damaged(path: Path, number: int | str, why: str) -> UsageError:
    line = f"line {number}" if isinstance(number, int) else number
    return UsageError(f"{path}, {line}: damaged: {why}", _mend(path, number))


def _mend(path: Path, number: int | str) -> str:
    """What to do about a file that is not the trace that it should be."""
    if path.parts[-4:-3] == ("traces",):
        return "delete this file and run again: its episode is played afresh"
    if number == 1:
        return "traces are the files traces/ENV/TASK/EPISODE.jsonl of a run folder"
    return "copy it again from the run that it is of"
