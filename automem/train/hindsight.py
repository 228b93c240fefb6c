"""The `rules` selector: what a turn was good for is known once the episode is over.

A write was of use if a later step's SEARCH, READ or TAIL returned its line and progress rose soon after. A question
was of use if what was then written was, or, where nothing was written, if it was answered. Ending without a word is
right where nothing new was to be seen, or when everything before was in order. All of it is read off the trace, in one
pass.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from automem.episode import text_digest
from automem.trace import OperationRecord, Step
from automem.train.recipe import Selection
from automem.train.select import Decision
from automem.train.turns import Episode, Turn, turns

#: Operations that put lines into a file, and those that show them.
_WRITES = frozenset({"APPEND", "WRITE", "UPSERT"})
_SHOWS = frozenset({"SEARCH", "READ", "TAIL"})
_NUMBER = re.compile(r"^\d+: ")


@dataclass
class _Written:
    """One write of a turn. `read` is the later step that showed its line before progress rose at step `gain`."""

    step: int
    read: int | None = None
    gain: int | None = None


@dataclass
class _Seen:
    """A turn, and what can be said about it while the episode goes on."""

    turn: Turn
    operations: list[OperationRecord]
    writes: list[_Written] = field(default_factory=list)
    hits: int = 0
    familiar: bool = False

    @property
    def acts(self) -> bool:
        """Whether it did more than to end the phase."""
        return any(record.name != "DONE" for record in self.operations)


class RulesSelector:
    """Hindsight credit, by rules."""

    name = "rules"

    def __init__(self, settings: Selection) -> None:
        self._settings = settings

    def decide(self, episode: Episode) -> Iterator[Decision]:
        """Judge every turn of a finished episode."""
        pass_ = _Pass(self._settings.horizon)
        for step in episode.steps():
            pass_.read(step)
        for seen_in_phase in pass_.phases:
            yield from self._judge_phase(seen_in_phase)

    def _judge_phase(self, conversation: Sequence[_Seen]) -> Iterator[Decision]:
        """Judge the turns of one conversation; how the later ones went tells about an empty search."""
        decisions: list[Decision] = []
        for number, seen in enumerate(conversation):
            rest = conversation[number + 1 :]
            in_order = bool(decisions) and all(one.keep for one in decisions)
            decisions.append(self._judge(seen, rest, in_order))
        yield from decisions

    def _judge(self, seen: _Seen, rest: Sequence[_Seen], in_order: bool) -> Decision:
        call = seen.turn.call
        keep, reason, detail = self._verdict(seen, rest, in_order)
        return Decision(seen.turn.step, seen.turn.number, call.phase, keep, reason, detail, noop=not seen.acts)

    def _verdict(self, seen: _Seen, rest: Sequence[_Seen], in_order: bool) -> tuple[bool, str, str]:
        """Whether to take the turn, the reason in a word, and more about it."""
        if not seen.operations:
            return False, "no_operation", "the reply holds no operation"
        if wrong := next((record for record in seen.operations if not record.ok), None):
            return False, "malformed" if wrong.name == "?" else "refused", f"{wrong.name}: {wrong.result[:120]}"
        if any(record.repeat for record in seen.operations):
            return False, "repeat", "writes what memory holds already"
        if seen.writes:
            return self._writing(seen)
        if any(record.name in _SHOWS for record in seen.operations):
            return _asking(seen, rest, self._settings.used_share)
        if seen.acts:
            return False, "unproven", "its operations leave nothing that could be found later"
        return _ending(seen, in_order)

    def _writing(self, seen: _Seen) -> tuple[bool, str, str]:
        used = [write for write in seen.writes if write.gain is not None]
        share = f"{len(used)} of {len(seen.writes)} writes"
        if len(used) < self._settings.used_share * len(seen.writes):
            return False, "unused", f"{share} were found again before progress rose"
        return True, "used", f"{share}; found at step {used[0].read}, progress at step {used[0].gain}"


def _asking(seen: _Seen, rest: Sequence[_Seen], share: float) -> tuple[bool, str, str]:
    """A question before a write is worth what was written; any other, whether it was answered."""
    if written := [write for later in rest for write in later.writes]:
        used = [write for write in written if write.gain is not None]
        if len(used) >= share * len(written):
            return True, "looked", "it looked first, and what it then wrote was of use"
        return False, "unused", "it looked first, and what it then wrote was of no use"
    if seen.hits:
        return True, "hit", f"{seen.hits} questions were answered"
    return False, "empty", "nothing was found"


def _ending(seen: _Seen, in_order: bool) -> tuple[bool, str, str]:
    if in_order:
        return True, "settled", "everything before in this phase was in order"
    if seen.familiar and seen.turn.call.phase == "log":
        return True, "familiar", "this very observation had been seen before"
    return False, "idle", "there was something new, and nothing was done"


class _Pass:
    """One pass over an episode: who wrote which line, who showed it, and when progress rose."""

    def __init__(self, horizon: int) -> None:
        self.phases: list[list[_Seen]] = []
        self._horizon = horizon
        self._lines: dict[tuple[str, str], _Written] = {}
        self._waiting: deque[tuple[int, _Written]] = deque()
        self._observations: set[str] = set()
        self._progress = 0.0

    def read(self, step: Step) -> None:
        """Take in one step."""
        here = text_digest(step.observation)
        memory_turns = {turn.number: turn for turn in turns(step)}
        phase: str | None = None
        for number, call in enumerate(step.calls):
            self._show(step.t, call.operations)
            if number not in memory_turns:
                continue
            if call.phase != phase:
                self.phases.append([])
                phase = call.phase
            self.phases[-1].append(self._seen(memory_turns[number], here in self._observations))
        self._write(step)
        self._observations.add(here)
        self._credit(step)

    def _seen(self, turn: Turn, familiar: bool) -> _Seen:
        operations = _executed(turn)
        hits = sum(self._answered(record) for record in operations if record.ok)
        return _Seen(turn, operations, hits=hits, familiar=familiar)

    def _answered(self, record: OperationRecord) -> bool:
        """Whether a question to memory brought something: a hit, or a line that was written before."""
        if record.name == "SEARCH":
            return bool(record.hits)
        return record.name in ("READ", "TAIL") and any(True for _ in self._shown(record))

    def _shown(self, record: OperationRecord) -> Iterator[_Written]:
        """The writes whose lines an answer shows."""
        for line in record.result.splitlines():
            for text in (line, _NUMBER.sub("", line, count=1)):
                if write := self._lines.get((_file(record), text)):
                    yield write
                    break

    def _show(self, t: int, operations: Sequence[OperationRecord]) -> None:
        for record in operations:
            if record.ok and record.name in _SHOWS:
                for write in self._shown(record):
                    if write.step < t:
                        self._waiting.append((t, write))

    def _write(self, step: Step) -> None:
        """Find for every line that came into memory in this step the operation that wrote it."""
        fresh: list[tuple[str, str]] = [
            (_stem(splice.file), line) for splice in step.memory for line in splice.inserted
        ]
        for conversation in self.phases[::-1]:
            if conversation[0].turn.step != step.t:
                break
            for seen in conversation:
                for record in seen.operations:
                    if record.ok and record.changed and record.name in _WRITES:
                        self._own(seen, record, step.t, fresh)

    def _own(self, seen: _Seen, record: OperationRecord, t: int, fresh: Sequence[tuple[str, str]]) -> None:
        write = _Written(t)
        seen.writes.append(write)
        told = {" ".join(line.split()) for line in record.args[-1].splitlines() if line.strip()}
        for place in fresh:
            text = " ".join(place[1].split())
            if place[0] == _file(record) and any(line in text for line in told):
                self._lines[place] = write

    def _credit(self, step: Step) -> None:
        """What was shown within the horizon before progress rose has been of use."""
        while self._waiting and self._waiting[0][0] < step.t - self._horizon:
            self._waiting.popleft()
        if step.progress > self._progress:
            for read, write in self._waiting:
                if write.gain is None:
                    write.read, write.gain = read, step.t
            self._waiting.clear()
        self._progress = step.progress


def _executed(turn: Turn) -> list[OperationRecord]:
    """The operations of a turn up to the one that ends it: what stands after it is cut away in cleaning."""
    kept = []
    for record in turn.call.operations:
        if record.name == "ACTION":
            break
        kept.append(record)
        if record.name == "DONE":
            break
    return kept


def _file(record: OperationRecord) -> str:
    return _stem(record.args[0])


def _stem(name: str) -> str:
    return name.casefold().removesuffix(".txt")
