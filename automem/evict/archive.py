"""`Archive`: what was evicted, to be found again by words; the long-term memory beside the prompt.

archive = Archive()
archive.add(evictor.archive)
archive.recall("case of Nadia Ritter", k=3)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from automem.errors import UsageError
from automem.evict.counting import words
from automem.evict.evictor import Evicted
from automem.evict.search import Bm25Search, Search

#: Units that one question brings back.
RECALLED = 3

_LINE = TypeAdapter(Evicted)


@dataclass(frozen=True)
class Recalled:
    """An evicted unit that came back, and how well it fits the question."""

    evicted: Evicted
    score: float


class Archive:
    """Evicted units in the order in which they left, and a search over their texts."""

    def __init__(self, search: Search | None = None) -> None:
        """`search` must be fresh; None: BM25, which needs `automem[evict]`."""
        self._search = Bm25Search() if search is None else search
        self._evicted: list[Evicted] = []

    def __len__(self) -> int:
        return len(self._evicted)

    def __iter__(self) -> Iterator[Evicted]:
        return iter(self._evicted)

    def add(self, evicted: Iterable[Evicted]) -> None:
        """Take units in."""
        new = list(evicted)
        self._evicted += new
        self._search.add([gone.unit.text for gone in new])

    def recall(self, query: str, k: int = RECALLED) -> list[Recalled]:
        """The `k` units that fit `query` best, best first, of equals the later one; what does not fit at all is none.

        The same archive and question always give the same answer.
        """
        scores = self._search.scores(query) if self._evicted else []
        found = [position for position, score in enumerate(scores) if score > 0]
        found.sort(key=lambda position: (-scores[position], -position))
        return [Recalled(self._evicted[position], scores[position]) for position in found[:k]]

    def save(self, path: Path) -> None:
        """Write one JSON line for each unit: the unit with its messages, its score then, and when it left."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(_LINE.dump_python(gone, mode="json"), ensure_ascii=False) for gone in self._evicted]
        # Text of agents may hold lone surrogates, which UTF-8 has no bytes for.
        path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))

    @classmethod
    def load(cls, path: Path, search: Search | None = None) -> Archive:
        """Read what `save` wrote.

        Raises:
            UsageError: the file cannot be read, or a line is none of an archive.
        """
        archive = cls(search)
        try:
            lines = path.read_bytes().decode("utf-8", "surrogatepass").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the archive {path}: {error}") from error
        archive.add([_read(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line])
        return archive


def excerpt(text: str, query: str, limit: int) -> str:
    """`text` in at most `limit` characters: whole where it fits, else its lines that share most words with `query`.

    Lines stay in their order and as they are; `…` stands for what is left out.
    """
    if len(text) <= limit:
        return text
    wanted, lines = set(words(query)), text.split("\n")
    shares = [len(wanted & set(words(line))) for line in lines]
    kept: set[int] = set()
    room = limit - 2
    for number in sorted(range(len(lines)), key=lambda number: (-shares[number], number)):
        # A line, its line end and a mark of what is left out before it.
        if (cost := len(lines[number]) + 3) <= room:
            kept.add(number)
            room -= cost
    if not kept:
        return f"{text[: limit - 1]}…"
    shown: list[str] = []
    for number, line in enumerate(lines):
        if number in kept:
            shown.append(line)
        elif not shown or shown[-1] != "…":
            shown.append("…")
    return "\n".join(shown)


def _read(line: str, where: str) -> Evicted:
    try:
        return _LINE.validate_python(json.loads(line))
    except (ValueError, ValidationError) as error:
        raise UsageError(f"{where}: not a line of an archive ({str(error).splitlines()[0]})") from error
