"""What a line of memory says: its subject and value, the place in it, its words. General heuristics, no game."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from automem.evolve.findings import RecurringKey

Side = Literal["subject", "place"]

#: What may stand between a subject and its value; the first of them in a line counts.
SEPARATORS = (" at ", ": ", " is ", " = ", " | ", " in ")
#: Words and characters of a subject at most.
SUBJECT_WORDS, SUBJECT_CHARS = 6, 60
#: Lines per key from which a key counts as recurring, keys per episode from which there is a table to make of
#: them, and the share of a file's lines below which a form is not worth a word.
REPEATS, KEYS, SHARE = 1.1, 4, 0.2
#: Share of a file's lines from which the form is the file's own.
WHOLE = 0.6
#: With more values per key than this, mostly never seen before, lines add to what is known and replace nothing.
MANY, NOVEL = 4, 0.7
#: Distinct (key, value) pairs of one file and episode after which nothing more is counted.
_PAIRS = 20_000

_LEAD = re.compile(
    r"\s*(?:[-*•#>]+\s+|\[?\(?\b(?:step|turn|t)\b\s*[=#]?\s*\d+\)?\]?\s*[:.,)–-]*\s*|\[\d+\]\s*|\d+[.)]\s+)*",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\(?\bx\s*[=:]?\s*(-?\d{1,4})\s*[,;]?\s*y\s*[=:]?\s*(-?\d{1,4})\b\)?"
    r"|(?<![\w.,-])\(?(-?\d{1,3}),(?!\d{3}\b)\s?(-?\d{1,3})\b(?![.,]\d)\)?"
)
_SEPARATOR = re.compile("|".join(re.escape(separator) for separator in SEPARATORS))
_WORD = re.compile(r"[^\W\d_][\w'-]{2,}")
_STOP = frozenset(
    _WORD.findall(
        "about after all and any are back been but can did does done for from get had has have her here his "
        "how into its last let more most move need next none not nothing now off one only our out over same "
        "see seen she should some still than that the their them then there these they this too try turn two "
        "was were what when where which while will with you your"
    )
)


@dataclass(frozen=True)
class Fact:
    """A line read as subject, separator, value. `place` is the first pair of whole numbers in it, as `x,y`."""

    subject: str
    separator: str
    value: str
    place: str | None
    rest: str

    def pair(self, side: Side) -> tuple[str, str] | None:
        """Key and value, seen from one side; None where it has no such key.

        The value of a subject is its place, where it has one. A subject that is a place is none.
        """
        if side == "place":
            return (self.place, self.rest) if self.place else None
        if not self.subject or place_in(self.subject):
            return None
        return self.subject, place_in(self.value) or self.value


@lru_cache(maxsize=4096)
def read_fact(line: str) -> Fact:
    """A line as a fact; the subject is empty where no separator stands behind a few words."""
    bare = " ".join(line[_lead(line) :].casefold().split())
    found = _PLACE.search(bare)
    place = _normal(found) if found else None
    rest = " ".join(_PLACE.sub(" ", bare).split())
    mark = _SEPARATOR.search(bare)
    subject = bare[: mark.start()].strip(" -*'\"") if mark else ""
    if not mark or len(subject) > SUBJECT_CHARS or len(subject.split()) > SUBJECT_WORDS:
        return Fact("", "", bare, place, rest)
    return Fact(subject, mark[0], bare[mark.end() :].strip(), place, rest)


def place_in(text: str) -> str | None:
    """The first pair of whole numbers in a text, as `x,y`."""
    found = _PLACE.search(text)
    return _normal(found) if found else None


@lru_cache(maxsize=8192)
def words(text: str) -> frozenset[str]:
    """The words of a text that mean something: three letters or more, and none of the commonest."""
    return frozenset(_WORD.findall(text.casefold())) - _STOP


def nearest(keyword: str, lines: Iterable[str], most: int = 3) -> list[str]:
    """Lines that share words with a keyword: those that share most, of these the last ones."""
    wanted = words(keyword)
    shared = [(len(wanted & words(line)), number, line) for number, line in enumerate(lines)] if wanted else []
    best = sorted((entry for entry in shared if entry[0]), reverse=True)
    return list(dict.fromkeys(line for _, _, line in best))[:most]


@dataclass
class _Form:
    """Lines of one form: how many, and the last value of each key."""

    lines: int = 0
    changes: int = 0
    last: dict[str, str] = field(default_factory=dict)
    pairs: set[tuple[str, str]] = field(default_factory=set)

    def add(self, key: str, value: str) -> None:
        if len(self.pairs) >= _PAIRS:
            return
        self.lines += 1
        self.changes += self.last.get(key, value) != value
        self.last[key] = value
        self.pairs.add((key, value))


@dataclass
class _Sum:
    """The same over episodes."""

    lines: int = 0
    changes: int = 0
    keys: int = 0
    pairs: int = 0
    examples: list[str] = field(default_factory=list)


class KeyStats:
    """Whether the lines of one file have keys that come again, counted line by line, episode by episode."""

    def __init__(self) -> None:
        self._lines = 0
        self._episodes = 0
        self._forms: dict[tuple[Side, str], _Form] = {}
        self._sums: dict[tuple[Side, str], _Sum] = {}

    def add(self, line: str) -> None:
        """Count a line that was written."""
        self._lines += 1
        fact = read_fact(line)
        names: tuple[tuple[Side, str], ...] = (("subject", fact.separator), ("place", ""))
        for name in names:
            pair = fact.pair(name[0])
            if pair:
                self._forms.setdefault(name, _Form()).add(*pair)
                examples = self._sums.setdefault(name, _Sum()).examples
                if len(examples) < 3:
                    examples.append(line)

    def end_episode(self) -> None:
        """Keys of the next episode are others."""
        self._episodes += bool(self._forms)
        for name, form in self._forms.items():
            total = self._sums[name]
            total.lines += form.lines
            total.changes += form.changes
            total.keys += len(form.last)
            total.pairs += len(form.pairs)
        self._forms = {}

    def key(self) -> RecurringKey | None:
        """The recurring key of the file, if it has one.

        Of several forms that of most lines, then the one whose keys have fewest values: `tree at 4,2` and
        `tree at 9,1` are about two places, not about one tree that moved.
        """
        found = [self._key(*entry) for entry in self._sums.items() if entry[1].keys]
        key = min(found, key=lambda key: (key.share < WHOLE, key.values), default=None)
        if key is None or key.share < SHARE or key.repeats < REPEATS or key.keys < KEYS:
            return None
        adds = key.values > MANY and key.values / key.repeats > NOVEL
        return None if adds else key

    def _key(self, name: tuple[Side, str], total: _Sum) -> RecurringKey:
        return RecurringKey(
            side=name[0],
            separator=name[1],
            share=total.lines / self._lines,
            keys=total.keys / self._episodes,
            repeats=total.lines / total.keys,
            values=total.pairs / total.keys,
            changes=total.changes / total.lines,
            examples=total.examples,
        )


def _lead(line: str) -> int:
    """Where the line begins behind bullets, numbers and step marks."""
    found = _LEAD.match(line)
    return found.end() if found and found.end() < len(line) else 0


def _normal(found: re.Match[str]) -> str:
    x, y = (group for group in found.groups() if group is not None)
    return f"{int(x)},{int(y)}"
