"""Memory as it stood at a step, rebuilt from the splices of a trace, with what has gone from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from automem.memory import kinds
from automem.memory.kinds import FileSpec, Splice

#: Distinct removed lines of a file that are remembered, the newest.
_REMOVED = 2_000


@dataclass(frozen=True)
class Removed:
    """A line that went: when it was written (-1: it was there from the start), and when it went."""

    line: str
    written: int
    step: int


@dataclass
class MirrorFile:
    """A file as it stands: its lines, the step of each, and the lines that went."""

    kind: str
    lines: list[str] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    removed: dict[str, Removed] = field(default_factory=dict)


class Mirror:
    """The memory of one episode, rebuilt from the splices of its steps."""

    def __init__(self, specs: Iterable[FileSpec], initial: Mapping[str, str]) -> None:
        self.files: dict[str, MirrorFile] = {}
        for spec in specs:
            lines = kinds.loaded(spec, initial.get(spec.name, ""), 1 << 40).lines
            self.files[spec.name] = MirrorFile(spec.kind, list(lines), [-1] * len(lines))

    def resolve(self, name: str) -> str:
        """The file that a model means by `name`; the name itself where there is none."""
        folded = name.casefold()
        names = {file.casefold(): file for file in self.files}
        return names.get(folded) or names.get(f"{folded}.txt") or name

    def create(self, name: str) -> MirrorFile:
        """File `name`; a log where there was none."""
        return self.files.setdefault(name, MirrorFile("log"))

    def apply(self, splice: Splice, step: int) -> None:
        """One change, as recorded."""
        file = self.create(splice.file)
        end = splice.at + splice.removed
        gone = list(zip(file.lines[splice.at : end], file.written[splice.at : end], strict=True))
        file.lines[splice.at : end] = splice.inserted
        file.written[splice.at : end] = [step] * len(splice.inserted)
        if file.kind != "auto":
            self._forget(file, gone, splice, step)

    def _forget(self, file: MirrorFile, gone: list[tuple[str, int]], splice: Splice, step: int) -> None:
        """Keep what went for good. A row that came back under its key has been replaced, not lost."""
        replaced = {kinds.row(line)[0] for line in splice.inserted} if file.kind == "table" else set()
        for line, written in gone:
            if line.strip() and kinds.row(line)[0] not in replaced:
                identity = kinds.identity(line)
                file.removed.pop(identity, None)
                file.removed[identity] = Removed(line, written, step)
        while len(file.removed) > _REMOVED:
            del file.removed[next(iter(file.removed))]

    def lost(self, name: str, keyword: str) -> Removed | None:
        """The newest line with `keyword` that is in file `name` no more, if no line with it is newer."""
        file = self.files.get(name)
        if file is None or not file.removed:
            return None
        wanted = keyword.casefold()
        held = [(at, kinds.identity(line)) for at, line in zip(file.written, file.lines, strict=True)]
        hits = {line: at for at, line in held if wanted in line}
        newest = max(hits.values(), default=-2)
        found = [gone for line, gone in file.removed.items() if wanted in line and line not in hits]
        last = max(found, key=lambda gone: (gone.written, gone.step), default=None)
        return last if last and last.written > newest else None

    def held(self) -> Iterator[tuple[str, str]]:
        """All lines with their file, as (file, line)."""
        for name, file in self.files.items():
            for line in file.lines:
                yield name, line
