"""`Trace`: what happened in one episode, as one JSONL file that loses nothing and repeats little.

A header line, one line per step, one result line. Without a result line the episode is not finished.
Texts of some length are stored once per file: each line brings its new `texts`, which extend the file's
text table, and wherever a text stands there may be an int (a table entry) or a list of ints and literal
pieces to be joined. A torn last line is dropped and owed again.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from automem.episode import EpisodeSpec
from automem.errors import FailureKind, RunError, UsageError
from automem.memory.kinds import Splice
from automem.messages import Message, Phase, Role, ToolCall, Usage

FORMAT = 1
#: Blocks shorter than this are written where they stand; an entry in the table would not be shorter.
_INTERN = 80
_BLANK = re.compile(r"\n\n+")
_SYNC_SECONDS = 3.0

Parts = int | str | list[int | str]

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


@dataclass
class _TextTable:
    """Text -> table entry, by hash: what a writer needs; the texts themselves are in the file."""

    entries: dict[bytes, int] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)

    def add(self, text: str) -> int:
        key = blake2b(text.encode(), digest_size=12).digest()
        if key not in self.entries:
            self.entries[key] = len(self.entries)
            self.fresh.append(text)
        return self.entries[key]

    def put(self, text: str, whole: bool = False) -> Parts:
        """The stored form of `text`: split at blank lines, unless it is known to repeat as a whole."""
        if len(text) < _INTERN:
            return text
        if whole:
            return self.add(text)
        parts: list[int | str] = []
        for block in _blocks(text):
            if len(block) >= _INTERN:
                parts.append(self.add(block))
            elif parts and isinstance(parts[-1], str):
                parts[-1] += block
            else:
                parts.append(block)
        return parts[0] if len(parts) == 1 else parts

    def take_fresh(self) -> list[str]:
        fresh, self.fresh = self.fresh, []
        return fresh


def _blocks(text: str) -> list[str]:
    """`text` cut behind each run of blank lines; the last block is empty where the text ends with one."""
    ends = [blank.end() for blank in _BLANK.finditer(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


class TraceWriter:
    """Appends records to one trace file. A line is one write, so a killed process loses at most one step."""

    def __init__(self, path: Path, spec: EpisodeSpec) -> None:
        """Open `path`; an existing unfinished trace is cut to its whole step lines and continued.

        Raises:
            UsageError: the file is the trace of another episode.
        """
        self._path = path
        self._table = _TextTable()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._reopen(spec)
        self._file = path.open("ab", buffering=0)
        self._synced = time.monotonic()
        if path.stat().st_size == 0:
            self._write({"kind": "header", "format": FORMAT, "id": spec.id, "spec": spec.model_dump(mode="json")})

    def step(self, step: Step) -> None:
        """Write one step line."""
        record = {"kind": "step", **_pack_step(step, self._table)}
        if fresh := self._table.take_fresh():
            record["texts"] = fresh
        self._write(record)
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            self.sync()

    def result(self, result: Result) -> None:
        """Write the result line: the episode is finished."""
        self._write({"kind": "result", **result.model_dump(exclude_none=True)})
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
        end = 0
        for record, end_of_line in _lines(self._path):
            if record["kind"] == "header" and record["id"] != spec.id:
                raise UsageError(f"{self._path} is the trace of another episode ({record['id']})")
            if record["kind"] == "result":
                break
            for text in record.get("texts", ()):
                self._table.add(text)
            end = end_of_line
        self._table.take_fresh()
        os.truncate(self._path, end)

    def _write(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
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
            raise UsageError(f"{path} is not a trace: it has no header line")
        if header.get("format") != FORMAT:
            raise UsageError(f"{path} has trace format {header.get('format')}, this version reads {FORMAT}")
        try:
            self.spec = EpisodeSpec.model_validate(header["spec"])
        except _DAMAGED as error:
            raise UsageError(f"{path}, line 1: damaged ({error})") from error

    def steps(self) -> Iterator[Step]:
        """The steps in order; `result` is set when the last one has been read."""
        self._texts = []
        count = 0
        for number, (record, _) in enumerate(_lines(self.path), 1):
            try:
                self._texts += record.pop("texts", ())
                kind = record.pop("kind")
                step = _unpack_step(record, self._texts) if kind == "step" else None
                if step is not None and step.t != count:
                    raise ValueError(f"step {step.t} stands where step {count} is due")
                if kind == "result":
                    self.result = Result.model_validate(record)
            except _DAMAGED as error:
                raise UsageError(f"{self.path}, line {number}: damaged ({type(error).__name__}: {error})") from error
            if step is not None:
                count += 1
                yield step


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
    if not tail or not tail[-1].endswith(b"\n") or b'"kind":"result"' not in tail[-1][:40]:
        return None
    try:
        record = json.loads(tail[-1])
        record.pop("kind")
        return Result.model_validate(record)
    except _DAMAGED as error:
        raise UsageError(f"{path}, last line: damaged ({error})") from error


def _lines(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Whole lines as (record, offset of the line's end); a torn last line is left out."""
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            try:
                record = json.loads(line)
            except ValueError as error:  # bytes that are not UTF-8 count too
                if file.read(1) == b"":
                    return
                raise UsageError(f"{path}, line {number}: not JSON ({error})") from error
            if not isinstance(record, dict):
                raise UsageError(f"{path}, line {number}: not a line of a trace")
            yield record, offset


def _pack_step(step: Step, table: _TextTable) -> dict[str, Any]:
    record = step.model_dump(exclude_defaults=True)
    record["observation"] = table.put(step.observation)
    before: list[Message] = []
    for call, packed in zip(step.calls, record.get("calls", ()), strict=True):
        shared = _shared(before, call.messages)
        packed["shared"] = shared
        packed["messages"] = [
            {**message, "content": table.put(message["content"], whole=message["role"] == "system")}
            for message in call.messages[shared:]
        ]
        packed["reply"] = table.put(call.reply)
        for operation in packed.get("operations", ()):
            if "result" in operation:
                operation["result"] = table.put(operation["result"])
        before = call.messages
    return record


def _unpack_step(record: dict[str, Any], texts: list[str]) -> Step:
    def text(parts: Parts) -> str:
        if isinstance(parts, list):
            return "".join(texts[p] if isinstance(p, int) else p for p in parts)
        return texts[parts] if isinstance(parts, int) else parts

    record["observation"] = text(record["observation"])
    before: list[dict[str, Any]] = []
    for call in record.get("calls", ()):
        own = [{**message, "content": text(message["content"])} for message in call["messages"]]
        call["messages"] = before[: call.pop("shared")] + own
        call["reply"] = text(call["reply"])
        for operation in call.get("operations", ()):
            if "result" in operation:
                operation["result"] = text(operation["result"])
        before = call["messages"]
    return Step.model_validate(record)


def _shared(before: list[Message], after: list[Message]) -> int:
    """How many leading messages two calls have in common."""
    count = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        count += 1
    return count
