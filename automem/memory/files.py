"""`Memory`: the files of one episode, held in process. Every change is a splice, kept in a journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from automem.errors import RunError, ScaffoldFailure, UsageError, did_you_mean, nearest
from automem.grammar import OPERATIONS, Operation, check
from automem.memory import kinds
from automem.memory.keys import Refused
from automem.memory.kinds import ACCEPTS, Change, FileSpec, Splice, StoredFile, UpsertLogic


class MemoryLimits(BaseModel):
    """What a memory may grow to, and how much of it one operation shows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file_chars: int = Field(default=20_000, ge=1, description="Characters in one file, line ends included.")
    memory_chars: int = Field(
        200_000,
        ge=1,
        description="Characters in all files that the model writes (log, note, table) together.",
    )
    files: int = Field(default=32, ge=1, description="Number of files.")
    line_chars: int = Field(default=500, ge=1, description="Characters in a line that the model writes.")
    search_results: int | None = Field(
        default=10, ge=1, description="Lines that a SEARCH shows, the newest; null for all of them."
    )
    read_lines: int | None = Field(
        default=60, ge=1, description="Lines that a READ or TAIL shows at a time; null for all of them."
    )


@dataclass(frozen=True)
class OperationResult:
    """The answer to one operation. `text` goes to the model and is never empty.

    `ok` is False for a refusal, `hits` counts all matching lines of a SEARCH or COUNT, `changed` says
    whether memory is another now, `repeat` whether a write told memory what the file held already.
    """

    ok: bool
    text: str
    hits: int | None = None
    changed: bool = False
    repeat: bool = False


class Memory:
    """The memory files of one episode and the operations on them.

    Args:
        specs: the files that the scaffold declares; each exists from the start.
        limits: sizes that nothing the model does can exceed.
        initial: contents by file name; they are not part of the journal.
        upsert: the scaffold's own way to put rows, for tables declared with `logic`.

    Raises:
        UsageError: specs and initial contents do not go together.
    """

    def __init__(
        self,
        specs: Iterable[FileSpec],
        limits: MemoryLimits,
        initial: Mapping[str, str],
        upsert: UpsertLogic | None = None,
    ) -> None:
        self._limits = limits
        self._upsert = upsert
        self._files: dict[str, StoredFile] = {}
        self._folded: dict[str, str] = {}
        self._index: dict[str, str] = {}
        self._dirty: set[str] = set()
        self._synced: Path | None = None
        self._journal: list[Splice] = []
        self._written = 0
        for spec in specs:
            if spec.name.casefold() in self._folded:
                raise UsageError(f"two memory files are called '{spec.name}'")
            self._add(kinds.loaded(spec, initial.get(spec.name, ""), limits.file_chars))
        for name in initial:
            if name not in self._files:
                raise UsageError(
                    f"initial contents for '{name}', which no file declares", did_you_mean(name, self._files)
                )
        if len(self._files) > limits.files or self._written > limits.memory_chars:
            raise UsageError(
                f"the memory starts with {len(self._files)} files and {self._written} characters, "
                f"the limits are {limits.files} and {limits.memory_chars}"
            )

    def names(self) -> list[str]:
        """All file names: declared ones first, then created ones."""
        return list(self._files)

    def text(self, name: str) -> str:
        """The contents of a file, without a line end after the last line."""
        return "\n".join(self._files[name].lines)

    def index(self) -> str:
        """One line for each file: `- NAME (KIND, N lines): ABOUT`."""
        for name in self._files.keys() - self._index.keys():
            self._index[name] = kinds.index_line(self._files[name])
        return "\n".join(self._index[name] for name in self._files)

    def execute(self, op: Operation, step: int) -> OperationResult:
        """Do one operation, or refuse it with an answer that says what would work.

        Raises:
            ScaffoldFailure: the scaffold's `upsert` failed or returned something else than rows.
        """
        problem = check(op)
        if problem:
            return OperationResult(False, problem)
        try:
            return self._execute(op, step)
        except Refused as refusal:
            return OperationResult(False, str(refusal))

    def set_auto(self, name: str, text: str) -> None:
        """Give a file of kind `auto` new contents.

        Raises:
            ScaffoldFailure: there is no such file, or the text is too long for it.
        """
        file = self._files.get(name)
        if file is None or file.spec.kind != "auto":
            auto = [other.name for other in self._files.values() if other.spec.kind == "auto"]
            raise ScaffoldFailure(f"'{name}' is not a file of kind auto", did_you_mean(name, auto))
        change = kinds.replace(file, 0, kinds.to_lines(text))
        size = file.chars + _growth(file, change)
        if size > self._cap(file):
            raise ScaffoldFailure(f"{size} characters for {name}, which may have {self._cap(file)}")
        self._commit(change)

    def take_journal(self) -> list[Splice]:
        """The splices since the last call, in order."""
        taken, self._journal = self._journal, []
        return taken

    def replay(self, splices: Iterable[Splice]) -> None:
        """Apply recorded splices, without journal and without logic.

        Raises:
            RunError: one does not fit this memory.
        """
        for splice in splices:
            file = self._files.get(splice.file)
            lines = len(file.lines) if file else 0
            if not kinds.valid_name(splice.file) or splice.at < 0 or not 0 <= splice.removed <= lines - splice.at:
                raise RunError(f"recorded memory does not fit: {splice} on a file of {lines} lines")
            self._apply(splice)

    def sync(self, directory: Path) -> None:
        """Bring the files in `directory` up to date, each whole or not at all.

        The first time, files that do not belong to this memory are removed. Links in the directory are
        replaced or removed, never followed.

        Raises:
            RunError: the directory cannot be written.
        """
        try:
            if self._synced != directory:
                directory.mkdir(parents=True, exist_ok=True)
                _remove_others(directory, self._files)
                self._dirty.update(self._files)
                self._synced = directory
            while self._dirty:
                name = next(iter(self._dirty))
                _write_whole(directory, name, self.text(name))
                self._dirty.discard(name)
        except OSError as error:
            raise RunError(
                f"cannot write memory to {directory}: {error.strerror}", "make room, then run again to resume"
            ) from error

    def _execute(self, op: Operation, step: int) -> OperationResult:
        if op.name == "CREATE":
            return self._create(op.args[0])
        if not OPERATIONS[op.name].on_file:
            raise Refused(f"{op.name} is not an operation on memory")
        file = self._find(op.args[0])
        match op.name:
            case "SEARCH":
                return self._search(file, op.args[1])
            case "COUNT":
                hits = len(_matches(file, op.args[1]))
                return OperationResult(True, f"{_matching(hits, op.args[1])} in {file.name}", hits)
            case "READ":
                return self._read(file, int(op.args[1]) if len(op.args) > 1 else 1)
            case "TAIL":
                return self._tail(file, int(op.args[1]))
        change = self._change(file, op, step)
        self._check_sizes(file, change.splices)
        self._commit(change.splices)
        return OperationResult(True, change.told, changed=bool(change.splices), repeat=change.repeat)

    def _change(self, file: StoredFile, op: Operation, step: int) -> Change:
        accepts = ACCEPTS[file.spec.kind]
        if op.name not in accepts:
            raise Refused(self._instead(file))
        match op.name:
            case "APPEND":
                return kinds.append(file, op.args[1])
            case "WRITE":
                return kinds.write(file, op.args[1])
            case "UPSERT":
                logic = self._upsert if file.spec.logic else None
                return kinds.upsert(file, op.args[1], op.args[2], step, logic)
            case _:
                return kinds.delete(file, op.args[1])

    def _create(self, name: str) -> OperationResult:
        known = self._known(name)
        if known:
            raise Refused(f"{known} exists already: {kinds.uses(self._files[known])}")
        if not kinds.valid_name(name):
            raise Refused(_bad_name(name))
        if len(self._files) >= self._limits.files:
            raise Refused(f"there may be at most {self._limits.files} files: use one of {', '.join(self._files)}")
        self._commit((Splice(name, 0, 0, ()),))
        return OperationResult(True, f"created {name}: {kinds.uses(self._files[name])}", changed=True)

    def _search(self, file: StoredFile, keyword: str) -> OperationResult:
        found = _matches(file, keyword)
        if not found:
            return OperationResult(True, f"no lines match '{_short(keyword)}'", 0)
        most = self._limits.search_results
        told, shown = _matching(len(found), keyword), found
        if most and len(found) > most:
            told, shown = f"newest {most} of {told}", _newest(file, found, most)
        lines = [f"{number}: {file.lines[number - 1]}" for number in shown]
        return OperationResult(True, "\n".join([f"{told}:", *lines]), len(found))

    def _read(self, file: StoredFile, first: int) -> OperationResult:
        total = len(file.lines)
        if not total:
            return OperationResult(True, f"{file.name} is empty")
        if first > total:
            raise Refused(f"{file.name} has only {kinds.count(file)}: use READ|{file.name}")
        last = min(total, first - 1 + (self._limits.read_lines or total))
        text = "\n".join(file.lines[first - 1 : last])
        if first == 1 and last == total:
            return OperationResult(True, text if text.strip() else f"{file.name} holds blank lines only")
        more = f"; READ|{file.name}|{last + 1} for more" if last < total else ""
        return OperationResult(True, f"{text}\n(lines {first}-{last} of {total}{more})")

    def _tail(self, file: StoredFile, count: int) -> OperationResult:
        shown = min(count, len(file.lines), self._limits.read_lines or count)
        return self._read(file, len(file.lines) - shown + 1) if shown else self._read(file, 1)

    def _known(self, name: str) -> str | None:
        """The file that is meant by a name, whatever its case and with or without `.txt`."""
        if name in self._files:
            return name
        folded = name.casefold() if name.isascii() else name
        return self._folded.get(folded) or self._folded.get(f"{folded}.txt")

    def _find(self, name: str) -> StoredFile:
        known = self._known(name)
        if known:
            return self._files[known]
        if not kinds.valid_name(name):
            raise Refused(_bad_name(name))
        close = nearest(name, self._files)
        hint = f", did you mean '{close}'?" if close else ";"
        raise Refused(f"there is no file '{name}'{hint} Files: {', '.join(self._files) or 'none'}")

    def _instead(self, file: StoredFile) -> str:
        if ACCEPTS[file.spec.kind]:
            return f"{file.name} is a {file.spec.kind}: {kinds.uses(file)}"
        others = ", ".join(other.name for other in self._files.values() if ACCEPTS[other.spec.kind])
        return f"{file.name} is read-only ({file.spec.kind}): write to {others or 'a file made with CREATE'}"

    def _cap(self, file: StoredFile) -> int:
        return file.spec.max_chars or self._limits.file_chars

    def _check_sizes(self, file: StoredFile, splices: Sequence[Splice]) -> None:
        longest = max((len(line) for splice in splices for line in splice.inserted), default=0)
        if longest > self._limits.line_chars:
            raise Refused(
                f"a line has {longest} characters, at most {self._limits.line_chars} are allowed: write shorter lines"
            )
        growth = _growth(file, splices)
        if growth > 0 and file.chars + growth > self._cap(file):
            raise Refused(
                f"{file.name} would have {file.chars + growth} characters, at most {self._cap(file)} are "
                f"allowed: {kinds.shorten(file)}"
            )
        if growth > 0 and self._written + growth > self._limits.memory_chars:
            raise Refused(
                f"memory would have {self._written + growth} characters, at most {self._limits.memory_chars} "
                "are allowed: shorten a file first"
            )

    def _commit(self, splices: Sequence[Splice]) -> None:
        for splice in splices:
            self._apply(splice)
        self._journal += splices

    def _apply(self, splice: Splice) -> None:
        if splice.file not in self._files:
            self._add(StoredFile(FileSpec(name=splice.file, kind="log")))
        file = self._files[splice.file]
        before = file.chars
        file.splice(splice.at, splice.removed, splice.inserted)
        if ACCEPTS[file.spec.kind]:
            self._written += file.chars - before
        self._index.pop(file.name, None)
        self._dirty.add(file.name)

    def _add(self, file: StoredFile) -> None:
        self._files[file.name] = file
        self._folded[file.name.casefold()] = file.name
        self._written += file.chars if ACCEPTS[file.spec.kind] else 0
        self._dirty.add(file.name)


def _bad_name(name: str) -> str:
    return (
        f"'{_short(name)}' cannot be a file name: use at most 64 ASCII letters, digits, '_', '.' or '-', "
        "no folders, starting with a letter or digit"
    )


def _short(text: str) -> str:
    return kinds.plain(text if len(text) <= 80 else f"{text[:77]}...")


def _matches(file: StoredFile, keyword: str) -> list[int]:
    """Numbers of the lines that contain the keyword, from 1."""
    wanted = keyword.casefold()
    return [number for number, line in enumerate(file.folded, 1) if wanted in line]


def _matching(hits: int, keyword: str) -> str:
    return f"{hits} line{' matches' if hits == 1 else 's match'} '{_short(keyword)}'"


def _newest(file: StoredFile, numbers: list[int], most: int) -> list[int]:
    """The newest of these lines, in file order; in a table, those written at the latest steps."""
    if file.spec.kind != "table":
        return numbers[-most:]
    return sorted(sorted(numbers, key=lambda number: kinds.row(file.lines[number - 1])[2])[-most:])


def _growth(file: StoredFile, splices: Iterable[Splice]) -> int:
    return sum(
        kinds.size(splice.inserted) - kinds.size(file.lines[splice.at : splice.at + splice.removed])
        for splice in splices
    )


def _remove_others(directory: Path, names: Iterable[str]) -> None:
    kept = set(names)
    for entry in directory.iterdir():
        if entry.name not in kept and (entry.is_symlink() or not entry.is_dir()):
            entry.unlink()


def _write_whole(directory: Path, name: str, text: str) -> None:
    # File names of a memory never start with a dot, so this one is free; mode x follows no link.
    part = directory / f".{name}.part"
    part.unlink(missing_ok=True)
    with part.open("x", encoding="utf-8", newline="\n") as stream:
        stream.write(f"{text}\n" if text else "")
    part.replace(directory / name)
