"""What a diagnosis says: a summary, rates, and findings that each name a place to look.

Texts that models wrote are data here: one line, clipped, control characters escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from automem.evolve.prose import tell

#: Characters of a text from a trace that a diagnosis keeps.
CLIP = 160


def plain(text: str, limit: int = CLIP) -> str:
    """A text as one printable line of at most `limit` characters."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: limit + 1])
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def quoted(text: str) -> str:
    """A text from a trace, marked as such: what it says is data."""
    return f"`{text.replace('`', chr(39))}`"


def listed(texts: Iterable[str]) -> str:
    """Texts from a trace in a row."""
    return ", ".join(map(quoted, texts)) or "nothing"


#: A text that came out of a trace.
Told = Annotated[str, BeforeValidator(plain)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Summary(_Record):
    """What was played. `failed` episodes are those that are not in the mean; `se` is the population's."""

    run: str
    env: str
    tasks: list[str]
    scaffold: str
    episodes: int
    failed: int
    steps: int
    mean: float | None
    se: float | None


class Totals(_Record):
    """How often what the findings are about occurred, before they were cut to the most frequent.

    `answers` are those that showed lines of a file with a recurring key; of them, `contradictions` told
    several things of one key. `unproductive` steps include those with an invalid action; of them,
    `not_consulted` are those whose PLAN asked memory nothing although it held something.
    """

    searches: int = 0
    forgotten: int = 0
    answers: int = 0
    contradictions: int = 0
    unproductive: int = 0
    not_consulted: int = 0


class Finding(_Record):
    """Something that happened `count` times; `episode` and `step` are where to look at one of them."""

    episode: str
    step: int
    count: int
    example: Told

    @property
    def told(self) -> str:
        """The finding in one line."""
        return quoted(self.example)


class RepeatedWrite(Finding):
    """A text (the example) that was written although the file held it already."""

    file: Told

    @property
    def told(self) -> str:
        """The finding in one line."""
        return f"{self.file}: {quoted(self.example)}"


class EmptySearch(Finding):
    """A keyword that was not found; `nearest` are lines that share a word with it. The example is the answer."""

    file: Told
    keyword: Told
    nearest: list[Told] = []

    @property
    def told(self) -> str:
        """The finding in one line."""
        return f"{self.file}: {quoted(self.keyword)}; nearest: {listed(self.nearest)}"


class Forgotten(Finding):
    """A keyword that was not found, or only in older lines, after the line `example` was `removed` at a step."""

    file: Told
    keyword: Told
    removed: int

    @property
    def told(self) -> str:
        """The finding in one line."""
        return f"{self.file}: {quoted(self.keyword)}; {quoted(self.example)} went at step {self.removed}"


class Contradiction(Finding):
    """One subject with several values in one answer from memory: `lines` are some of them."""

    file: Told
    subject: Told
    lines: list[Told]

    @property
    def told(self) -> str:
        """The finding in one line."""
        return f"{self.file}: {quoted(self.subject)}: {listed(self.lines)}"


class StuckStretch(Finding):
    """`count` unproductive steps on end, from `step` on; `actions` says what was done. The example is the scene."""

    actions: Told

    @property
    def told(self) -> str:
        """The finding in one line."""
        return f"{self.actions}; {quoted(self.example)}"


class InvalidAction(Finding):
    """An action that was not taken; `executed` was done in that step. The example is the answer to it."""

    proposed: Told
    executed: Told

    @property
    def told(self) -> str:
        """The finding in one line."""
        return f"{quoted(self.proposed or 'nothing')}, so {self.executed}: {quoted(self.example)}"


class FailedOperation(Finding):
    """An operation that was not executed, by kind of error. The example is what was written."""

    operation: Told
    error: Told

    @property
    def told(self) -> str:
        """The finding in one line."""
        return f"{self.operation}: {quoted(self.error)}; e.g. {quoted(self.example)}"


class NotConsulted(Finding):
    """The line `example` of `file` stood in memory and was not asked for, in a step that came to nothing."""

    file: Told
    shared: list[Told]

    @property
    def told(self) -> str:
        """The finding in one line."""
        return f"{self.file}: {quoted(self.example)} (shares {', '.join(self.shared)})"


class RecurringKey(_Record):
    """Lines of a file that have the form KEY and VALUE, with keys that come again.

    `side` tells what the key is: the `subject` before the `separator`, or the `place` (two whole numbers)
    somewhere in the line. `share`: keyed lines / lines written; `keys`: distinct keys per episode; `repeats`:
    keyed lines per key; `values`: distinct values per key; `changes`: keyed lines that gave a key another
    value than it had / keyed lines.
    """

    side: Literal["subject", "place"]
    separator: str
    share: float
    keys: float
    repeats: float
    values: float
    changes: float
    examples: list[Told]

    @property
    def parts(self) -> list[str]:
        """The key as a table declares it."""
        return ["x:int", "y:int"] if self.side == "place" else ["name"]

    @property
    def form(self) -> str:
        """The form of the lines in words."""
        return "tell of a place x,y" if self.side == "place" else f"have the form NAME{self.separator}VALUE"

    @property
    def told(self) -> str:
        """The key in one line."""
        return (
            f"Recurring key: {self.share:.0%} of the lines {self.form}; {self.keys:.0f} keys per episode, "
            f"{self.repeats:.1f} lines and {self.values:.1f} values per key, {self.changes:.0%} of these lines change "
            f"a value; e.g. {listed(self.examples)}"
        )


class FileUse(Finding):
    """How a memory file was used; `count` are writes to it, the example the last line written.

    `growth`: characters written that are there at the end / steps; `written`: characters written / steps;
    `lines`: lines at the end, mean of episodes; `consulted`: executed reads; `removed`: lines that went
    without a new one in their place; `shown`: a prompt shows its text.
    """

    name: str
    kind: str
    declared: bool
    keep: int | None
    growth: float
    written: float
    lines: float
    consulted: int
    removed: int
    shown: bool
    key: RecurringKey | None = None

    @property
    def told(self) -> str:
        """The use of the file in one line."""
        limits = f", keep {self.keep}" if self.keep else ""
        text = (
            f"{self.name} ({self.kind}{limits}): {self.count} writes, {self.consulted} reads, {self.lines:.0f} lines "
            f"at the end, {self.growth:+.1f} characters per step ({self.written:.1f} written), {self.removed} lines "
            f"removed{', shown in a prompt' if self.shown else ''}"
        )
        return f"{text}. {self.key.told}" if self.key else text


class Diagnosis(_Record):
    """What traces say about a scaffold. Lists are cut to the most frequent findings, most frequent first."""

    summary: Summary
    behaviour: dict[str, float | None]
    totals: Totals = Totals()
    files: list[FileUse] = []
    repeated_writes: list[RepeatedWrite] = []
    empty_searches: list[EmptySearch] = []
    forgotten: list[Forgotten] = []
    contradictions: list[Contradiction] = []
    stuck: list[StuckStretch] = []
    invalid_actions: list[InvalidAction] = []
    failed_operations: list[FailedOperation] = []
    not_consulted: list[NotConsulted] = []

    def text(self, limit: int = 6_000) -> str:
        """The report as Markdown, of at most `limit` characters."""
        return tell(self, limit)

    def file(self, name: str) -> FileUse | None:
        """How file `name` was used."""
        return next((file for file in self.files if file.name == name), None)
