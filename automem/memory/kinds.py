"""Kinds of memory file: what each accepts, and how an operation becomes splices. The upsert logic, once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from automem.errors import ScaffoldFailure, UsageError
from automem.grammar import OPERATIONS
from automem.memory.keys import KeyPart, Refused, key_parts, normal_key

Kind = Literal["log", "note", "table", "auto", "reference"]
UpsertLogic = Callable[[str, list[dict[str, Any]], dict[str, Any]], Any]
"""(file, rows, entry) -> rows; a row and the entry are dicts of `key`, `text` and `step`."""

ACCEPTS: dict[Kind, tuple[str, ...]] = {
    "log": ("APPEND", "WRITE"),
    "note": ("WRITE", "APPEND"),
    "table": ("UPSERT", "DELETE"),
    "auto": (),
    "reference": (),
}
"""The writing operations that each kind takes; all kinds can be read."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_BREAKS = re.compile("\r\n?|[\v\f\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_STEP = re.compile(r" ?\| ?step ([0-9]{1,9})$", re.IGNORECASE)
_STEPS = re.compile(r"(?: ?\| ?step [0-9]{1,9})+$", re.IGNORECASE)


def valid_name(name: str) -> bool:
    """Whether a memory file may have this name: one flat ASCII name of at most 64 characters."""
    return _NAME.fullmatch(name) is not None


class FileSpec(BaseModel):
    """One memory file as the scaffold declares it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="File name: ASCII letters, digits, '_', '.' and '-', at most 64 characters.")
    kind: Kind = Field(
        description="log: lines are added; note: overwritten; table: rows by key; auto: by logic; reference: never."
    )
    about: str = Field(default="", description="One line for the memory index: what belongs in the file.")
    keep: int | None = Field(
        default=None,
        ge=1,
        description="log: only the newest so many lines below the header stay. Default: all.",
    )
    header: int | None = Field(
        default=None,
        ge=0,
        description="Protected lines at the top. Default: the leading '#' lines of the contents.",
    )
    max_lines: int | None = Field(
        default=None, ge=1, description="note: at most so many lines below the header. Default: no limit."
    )
    key: tuple[str, ...] = Field(
        default=(),
        description="table: the parts of a row's key, 'name', 'name:int' or 'name:text'. Default: one text.",
    )
    max_chars: int | None = Field(
        default=None, ge=1, description="Size limit of this file, instead of that of the memory limits."
    )
    logic: bool = Field(default=False, description="table: rows are put by `upsert` of the scaffold's logic.py.")

    @field_validator("name")
    @classmethod
    def _flat_name(cls, name: str) -> str:
        if not valid_name(name):
            raise ValueError("a file name is ASCII letters, digits, '_', '.' and '-', at most 64 characters")
        return name

    @field_validator("about")
    @classmethod
    def _one_line(cls, about: str) -> str:
        if len(about.splitlines()) > 1:
            raise ValueError("about must be one line")
        return about.strip()

    @model_validator(mode="after")
    def _fields_of_kind(self) -> Self:
        for name, kind in (("keep", "log"), ("max_lines", "note"), ("key", "table"), ("logic", "table")):
            if getattr(self, name) and self.kind != kind:
                raise ValueError(f"{self.name}: '{name}' is for kind {kind}, not {self.kind}")
        key_parts(self.key)
        return self


@dataclass(frozen=True)
class Splice:
    """One change of a file: at line `at`, `removed` lines go, `inserted` come. An unknown file is created."""

    file: str
    at: int
    removed: int
    inserted: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """What an operation comes to: splices (none: memory stays as it is) and the answer to the model."""

    splices: tuple[Splice, ...]
    told: str
    repeat: bool = False


class StoredFile:
    """A file in memory: its lines, the first `header` of which are protected. Changed by `splice` alone."""

    def __init__(self, spec: FileSpec, lines: Sequence[str] = (), header: int = 0) -> None:
        self.spec = spec
        self.header = header
        self.lines: list[str] = []
        #: The lines as a search compares them.
        self.folded: list[str] = []
        self.chars = 0
        self.parts: tuple[KeyPart, ...] = key_parts(spec.key)
        self._held: Counter[str] = Counter()
        self._rows: dict[str, int] | None = None
        self.splice(0, 0, lines)

    @property
    def name(self) -> str:
        """The file name."""
        return self.spec.name

    @property
    def body(self) -> int:
        """How many lines, or rows, stand below the header."""
        return len(self.lines) - self.header

    def splice(self, at: int, removed: int, inserted: Sequence[str]) -> None:
        """Change lines, and what is counted from them, without reading the rest of the file."""
        old = self.lines[at : at + removed]
        in_place = len(old) == len(inserted) or at == len(self.lines)
        self.lines[at : at + removed] = inserted
        self.folded[at : at + removed] = [line.casefold() for line in inserted]
        self.chars += size(inserted) - size(old)
        if self.spec.kind != "table":
            self._held.update(map(identity, inserted))
            for line in map(identity, old):
                self._held[line] -= 1
                if not self._held[line]:
                    del self._held[line]
        elif self._rows is not None and in_place:
            for line in old:
                self._rows.pop(row(line)[0], None)
            self._rows.update((row(line)[0], at + i) for i, line in enumerate(inserted))
        else:
            self._rows = None

    def holds(self, lines: Sequence[str]) -> bool:
        """Whether all of these lines are in the file already, case, spacing and provenance aside."""
        told = [identity(line) for line in lines if line.strip()]
        return bool(told) and all(line in self._held for line in told)

    def find(self, key: str) -> int | None:
        """The line of the row with this (normal) key."""
        if self._rows is None:
            below = enumerate(self.lines[self.header :], self.header)
            self._rows = {row(line)[0]: number for number, line in below}
        return self._rows.get(key)


def size(lines: Sequence[str]) -> int:
    """Characters that these lines take in a file, line ends included."""
    return sum(map(len, lines)) + len(lines)


def plain(text: str) -> str:
    """Text whose line breaks are all `\\n`, with other control characters replaced."""
    return _CONTROLS.sub("\ufffd", _BREAKS.sub("\n", text))


def to_lines(text: str) -> list[str]:
    """Text as the lines of a file; none if it is blank."""
    return [line.rstrip() for line in plain(text).strip("\n").split("\n")] if text.strip() else []


def identity(line: str) -> str:
    """What makes two lines the same entry: not case, spacing or the step of the last write."""
    bare = _STEP.sub("", line) if "|" in line else line
    return " ".join(bare.casefold().split())


def row(line: str) -> tuple[str, str, int]:
    """Key, text and step of a table line `key | text | step N`."""
    key, _, rest = line.partition("|")
    step = _STEP.search(rest)
    text = rest[: step.start()] if step else rest
    return key.strip(), text.strip(), int(step[1]) if step else 0


def row_line(key: str, text: str, step: int, parts: Sequence[KeyPart]) -> str:
    """The table line for a row, its key brought to normal form and its text to one line.

    Raises:
        Refused: the key does not have the declared parts, or the text is empty.
    """
    one_line = _STEPS.sub("", " ".join(plain(text).split()))
    if not one_line:
        raise Refused("the text of a row may not be empty")
    return f"{normal_key(plain(key), parts)} | {one_line} | step {step}"


def replace(file: StoredFile, start: int, lines: Sequence[str]) -> tuple[Splice, ...]:
    """The smallest splice that makes `lines` of everything from line `start` on; none if nothing differs."""
    old, end = file.lines, len(file.lines)
    first, last = 0, len(lines)
    while first < last and start + first < end and old[start + first] == lines[first]:
        first += 1
    while last > first and end > start + first and old[end - 1] == lines[last - 1]:
        last, end = last - 1, end - 1
    at = start + first
    return (Splice(file.name, at, end - at, tuple(lines[first:last])),) if at < end or first < last else ()


def append(file: StoredFile, text: str) -> Change:
    """Lines at the end of a log, whose oldest lines make room, or of a note, if they fit."""
    new = to_lines(text)
    _fits(file, new, file.body if file.spec.kind == "note" else 0)
    drop = max(0, file.body + len(new) - file.spec.keep) if file.spec.keep else 0
    pruned = (Splice(file.name, file.header, drop, ()),) if drop else ()
    told = f"appended {_lines(len(new))} to {file.name}"
    told += f", the oldest {_lines(drop)} dropped" if drop else ""
    repeat = file.holds(new)
    told += "; it was there already" if repeat else ""
    return Change((*pruned, Splice(file.name, len(file.lines) - drop, 0, tuple(new))), told, repeat)


def write(file: StoredFile, text: str) -> Change:
    """Everything below the header of a log or note replaced; a copy of the header in `text` is left out."""
    new = to_lines(text)
    head = list(map(identity, file.lines[: file.header]))
    if head and list(map(identity, new[: file.header])) == head:
        new = new[file.header :]
    _fits(file, new, 0)
    told = f"wrote {_lines(len(new))} to {file.name}"
    return Change(replace(file, file.header, new), told, file.holds(new))


def upsert(file: StoredFile, key: str, text: str, step: int, logic: UpsertLogic | None) -> Change:
    """The row with this key put at the end, the newest; the scaffold's `logic` may do it its own way."""
    line = row_line(key, text, step, file.parts)
    at = file.find(row(line)[0])
    same = at is not None and identity(file.lines[at]) == identity(line)
    if logic is not None:
        return Change(_by_logic(file, line, logic), f"put '{row(line)[0]}' into {file.name}", same)
    if same:
        return Change((), f"{file.name} holds this row already", repeat=True)
    if at is None:
        return Change((Splice(file.name, len(file.lines), 0, (line,)),), f"new row '{row(line)[0]}' in {file.name}")
    put = replace(file, at, [*file.lines[at + 1 :], line])
    return Change(put, f"row '{row(line)[0]}' of {file.name} updated")


def delete(file: StoredFile, key: str) -> Change:
    """The row with this key removed."""
    normal = normal_key(plain(key), file.parts)
    at = file.find(normal)
    if at is None:
        raise Refused(f"{file.name} has no row '{normal}': look for it with SEARCH|{file.name}|keyword")
    return Change((Splice(file.name, at, 1, ()),), f"row '{normal}' of {file.name} removed")


def table_lines(lines: Sequence[str], parts: Sequence[KeyPart]) -> list[str]:
    """The rows of a table's initial contents in normal form.

    Raises:
        Refused: a line is not a row, or two rows have one key.
    """
    found: dict[str, str] = {}
    for line in filter(str.strip, lines):
        if "|" not in line:
            raise Refused(f"'{line}' is not a row of the form key | text")
        normal = row_line(*row(line), parts)
        if found.setdefault(row(normal)[0], normal) != normal:
            raise Refused(f"two rows have the key '{row(normal)[0]}'")
    return list(found.values())


def loaded(spec: FileSpec, text: str, file_chars: int) -> StoredFile:
    """A file with its initial contents.

    Raises:
        UsageError: they do not fit its kind, its header or its limits.
    """
    lines = to_lines(text)
    header = spec.header
    if header is None:
        header = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    try:
        below = lines[header:]
        if spec.kind == "table":
            below = table_lines(below, StoredFile(spec).parts)
        file = StoredFile(spec, lines[:header] + below, header)
    except Refused as error:
        raise UsageError(f"initial contents of {spec.name}: {error}") from None
    most, cap = spec.keep or spec.max_lines, spec.max_chars or file_chars
    if header > len(lines):
        raise UsageError(f"{spec.name} has {len(lines)} lines, fewer than its header of {header}")
    if most and file.body > most:
        raise UsageError(f"{spec.name} starts with {file.body} lines below its header, at most {most} stay")
    if file.chars > cap:
        raise UsageError(f"{spec.name} starts with {file.chars} characters, the limit is {cap}", "set max_chars")
    return file


def count(file: StoredFile) -> str:
    """How long a file is, in the unit of its kind."""
    return f"{file.body} rows" if file.spec.kind == "table" else f"{len(file.lines)} lines"


def index_line(file: StoredFile) -> str:
    """The line of the memory index for a file."""
    about = f": {file.spec.about}" if file.spec.about else ""
    return f"- {file.name} ({file.spec.kind}, {count(file)}){about}"


def uses(file: StoredFile) -> str:
    """How to write to this file, e.g. `use UPSERT|parcels.txt|key|text`."""
    forms = [
        "|".join((name, file.name, *(param.name for param in OPERATIONS[name].params[1:])))
        for name in ACCEPTS[file.spec.kind]
    ] or [f"READ|{file.name}"]
    return f"use {' or '.join(forms)}"


def shorten(file: StoredFile) -> str:
    """How to make room in this file."""
    how = "DELETE|{}|key" if file.spec.kind == "table" else "WRITE|{}|text with a summary"
    return f"make room with {how.format(file.name)}"


def _by_logic(file: StoredFile, line: str, logic: UpsertLogic) -> tuple[Splice, ...]:
    rows = [dict(zip(("key", "text", "step"), row(old), strict=True)) for old in file.lines[file.header :]]
    entry = dict(zip(("key", "text", "step"), row(line), strict=True))
    returned = logic(file.name, rows, entry)
    where = f"logic.py: upsert for {file.name}, step {entry['step']},"
    if not isinstance(returned, list):
        raise ScaffoldFailure(f"{where} returned {type(returned).__name__}, not a list of rows")
    lines = []
    for found in returned:
        match found:
            case {"key": str(key), "text": str(text), "step": int(at), **rest} if not rest and 0 <= at < 10**9:
                lines.append((key, text, int(at)))
            case _:
                raise ScaffoldFailure(f"{where} returned a row that is not key, text and step: {found!r:.200}")
    try:
        new = [row_line(*found, file.parts) for found in lines]
    except Refused as error:
        raise ScaffoldFailure(f"{where} returned a bad row: {error}") from None
    if len({row(line)[0] for line in new}) < len(new):
        raise ScaffoldFailure(f"{where} returned two rows with one key")
    return replace(file, file.header, new)


def _fits(file: StoredFile, new: Sequence[str], standing: int) -> None:
    if not new:
        raise Refused(f"there is no text to write to {file.name}")
    most = file.spec.keep or file.spec.max_lines
    if most and standing + len(new) > most:
        holds = f" and has {standing}" if standing else ""
        raise Refused(
            f"{file.name} takes at most {_lines(most)}{holds}, the text has {len(new)}: "
            f"use WRITE|{file.name}|text with a shorter text"
        )


def _lines(number: int) -> str:
    return "1 line" if number == 1 else f"{number} lines"
