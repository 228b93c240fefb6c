"""`Watch`: what a diagnosis gathers, in one pass over the steps of each episode.

Nothing here grows with the length of an episode but tallies of distinct things, which are capped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from automem.episode import text_digest
from automem.evolve.facts import KeyStats, Side, nearest, place_in, read_fact, words
from automem.evolve.mirror import Mirror
from automem.grammar import reads
from automem.results.behaviour import WRITES, named_unknown_action
from automem.scaffold.spec import Scaffold
from automem.trace import OperationRecord, Step

#: Unproductive steps on end from which they are a stretch.
STUCK = 3
#: Words that a line has to share with the observation to be worth asking for; a shared place counts as many.
SHARED = 2
#: A word in more than this share of an episode's observations says nothing about one of them.
_COMMON = 0.5
_DISTINCT, _STRETCHES = 20_000, 200
_SIDES: tuple[Side, ...] = ("subject", "place")
#: Kinds of file whose lines the model writes freely; rows of a table have one key each already.
FREE = ("log", "note")

_NUMBERED = re.compile(r"^\d+: ")
_NOT_CONTENT = re.compile(r"^\(lines \d+-\d+ of \d+.*\)$|^\S+ (?:is empty|holds blank lines only)$")
_QUOTED = re.compile(r"'[^']*'")
_NUMBER = re.compile(r"\d+")


@dataclass
class Seen:
    """How often something was seen, where, and what was noted there."""

    count: int
    episode: str
    step: int
    note: dict[str, Any]


class Tally:
    """Things counted by key, each with the place where it was seen first."""

    def __init__(self) -> None:
        self.total = 0
        self._seen: dict[tuple[str, ...], Seen] = {}

    def add(self, key: tuple[str, ...], episode: str, step: int, **note: Any) -> Seen:
        """Count `key` once more; `note` is kept with its first place."""
        self.total += 1
        seen = self._seen.get(key)
        if seen is None:
            seen = Seen(0, episode, step, note)
            if len(self._seen) < _DISTINCT:
                self._seen[key] = seen
        seen.count += 1
        return seen

    def top(self) -> list[tuple[tuple[str, ...], Seen]]:
        """The most frequent first; among equals the one seen first."""
        return sorted(self._seen.items(), key=lambda entry: -entry[1].count)


@dataclass
class FileUse:
    """How one file was used, over all episodes; place and line are those of the last write."""

    lines: int = 0
    writes: int = 0
    consulted: int = 0
    removed: int = 0
    episode: str = ""
    step: int = 0
    line: str = ""


@dataclass
class Stretch:
    """Unproductive steps on end."""

    episode: str
    step: int
    scene: str
    count: int = 0
    actions: Counter[str] = field(default_factory=Counter)


@dataclass
class _Here:
    """Where the watch is: the episode, its memory, and what is remembered of its steps."""

    episode: str
    memory: Mirror
    step: int = 0
    earlier: str | None = None
    stretch: Stretch | None = None
    observations: int = 0
    common: Counter[str] = field(default_factory=Counter)

    @property
    def place(self) -> tuple[str, int]:
        return self.episode, self.step


class Watch:
    """Tallies over episodes. `answers` and `contradictory` count answers from memory by file (and side)."""

    def __init__(self, scaffold: Scaffold) -> None:
        self.scaffold = scaffold
        self.uses = {file.name: FileUse() for file in scaffold.spec.files}
        self.kinds = {file.name: file.kind for file in scaffold.spec.files}
        self.keys: dict[str, KeyStats] = {}
        self.repeated = Tally()
        self.empty = Tally()
        self.forgotten = Tally()
        self.contradictions = Tally()
        self.invalid = Tally()
        self.failed = Tally()
        self.not_consulted = Tally()
        self.stretches: list[Stretch] = []
        self.answers: Counter[str] = Counter()
        self.contradictory: Counter[tuple[str, str]] = Counter()
        self.unproductive = 0

    def episode(self, name: str, steps: Iterable[Step]) -> Iterator[Step]:
        """The steps of an episode, passed on as they are watched."""
        here = _Here(name, Mirror(self.scaffold.spec.files, self.scaffold.initial))
        for step in steps:
            here.step = step.t
            self._memory(here, step)
            self._outcome(here, step)
            yield step
        self._end_stretch(here)
        for file, mirrored in here.memory.files.items():
            self._use(file).lines += len(mirrored.lines)
        for stats in self.keys.values():
            stats.end_episode()

    # Memory: what was asked, written and answered

    def _memory(self, here: _Here, step: Step) -> None:
        """LOG is answered from memory as it stood before the step, PLAN from memory after its writes."""
        for call in step.calls:
            if call.phase == "log":
                self._operations(here, step, call.operations)
        for splice in step.memory:
            here.memory.apply(splice, step.t)
            use = self._use(splice.file)
            use.removed += max(0, splice.removed - len(splice.inserted))
            if splice.inserted:
                use.episode, use.step, use.line = *here.place, splice.inserted[-1]
            if self.kinds.setdefault(splice.file, "log") in FREE:
                stats = self.keys.setdefault(splice.file, KeyStats())
                for line in filter(str.strip, splice.inserted):
                    stats.add(line)
        for call in step.calls:
            if call.phase != "log":
                self._operations(here, step, call.operations)

    def _operations(self, here: _Here, step: Step, operations: Iterable[OperationRecord]) -> None:
        for operation in operations:
            if operation.refusal in ("unknown action", "rejected"):
                proposed = operation.args[0] if operation.args else ""
                self.invalid.add((proposed,), *here.place, executed=step.action, answer=operation.result)
            elif not operation.ok:
                kind = _NUMBER.sub("N", _QUOTED.sub("'…'", operation.result))
                self.failed.add((operation.name, kind), *here.place, wrote="|".join(operation.args))
            elif operation.name == "CREATE":
                here.memory.create(operation.args[0])
            elif operation.name in WRITES:
                self._write(here, operation)
            elif operation.name != "RECALL" and reads(operation.name):
                self._read(here, operation)

    def _write(self, here: _Here, operation: OperationRecord) -> None:
        file, text = here.memory.resolve(operation.args[0]), " | ".join(operation.args[1:])
        self._use(file).writes += 1
        if operation.repeat:
            self.repeated.add((file, text), *here.place)

    def _read(self, here: _Here, operation: OperationRecord) -> None:
        file = here.memory.resolve(operation.args[0])
        self._use(file).consulted += 1
        if operation.name == "SEARCH":
            self._search(here, file, operation)
        if operation.name != "COUNT" and operation.hits != 0:
            self._answer(here, file, operation)

    def _search(self, here: _Here, file: str, operation: OperationRecord) -> None:
        keyword = operation.args[1]
        key = (file, keyword.casefold())
        if operation.hits == 0:
            seen = self.empty.add(key, *here.place, answer=operation.result, nearest=[])
            if not seen.note["nearest"]:
                held = (f"{name}: {line}" for name, line in here.memory.held())
                seen.note["nearest"] = nearest(keyword, held)
                seen.episode, seen.step = here.place
        lost = here.memory.lost(file, keyword)
        if lost:
            self.forgotten.add(key, *here.place, line=lost.line, removed=lost.step)

    def _answer(self, here: _Here, file: str, operation: OperationRecord) -> None:
        """Look for a subject, or a place, of which the answer tells several things."""
        if self.kinds.get(file, "log") not in FREE:
            return
        lines = operation.result.splitlines()
        if operation.name == "SEARCH":
            lines = [_NUMBERED.sub("", line) for line in lines[1:]]
        shown = [line for line in lines if line.strip() and not _NOT_CONTENT.match(line)]
        self.answers[file] += bool(shown)
        for side in _SIDES:
            told: dict[str, dict[str, str]] = {}
            for line in shown:
                pair = read_fact(line).pair(side)
                if pair:
                    told.setdefault(pair[0], {})[pair[1]] = line
            several = {key: list(values.values()) for key, values in told.items() if len(values) > 1}
            self.contradictory[file, side] += bool(several)
            for key, contradicting in several.items():
                self.contradictions.add((file, side, key), *here.place, lines=contradicting[-4:])

    def _use(self, file: str) -> FileUse:
        return self.uses.setdefault(file, FileUse())

    # The outcome of a step

    def _outcome(self, here: _Here, step: Step) -> None:
        digest = text_digest(step.observation)
        idle = step.next_digest in (digest, here.earlier)
        here.earlier = digest
        here.observations += 1
        here.common.update(words(step.observation))
        if idle:
            here.stretch = here.stretch or Stretch(here.episode, step.t, step.observation)
            here.stretch.count += 1
            here.stretch.actions[step.action] += 1
        else:
            self._end_stretch(here)
        if step.fallback and step.proposed is None:
            self.invalid.add(("",), *here.place, executed=step.action, answer="no action was named in time")
        if idle or step.fallback or step.rejections or named_unknown_action(step):
            self.unproductive += 1
            self._look_for_known(here, step)

    def _end_stretch(self, here: _Here) -> None:
        if here.stretch and here.stretch.count >= STUCK:
            self.stretches.append(here.stretch)
        here.stretch = None
        if len(self.stretches) > _STRETCHES:
            self.stretches = self.longest()

    def longest(self) -> list[Stretch]:
        """The longest stretches, half of those that are kept at most."""
        return sorted(self.stretches, key=lambda stretch: -stretch.count)[: _STRETCHES // 2]

    def _look_for_known(self, here: _Here, step: Step) -> None:
        """The line of memory that had most to do with the scene, if PLAN neither asked memory nor was shown it."""
        calls = [call for call in step.calls if call.phase != "log"]
        if not calls or any(op.ok and reads(op.name) for call in calls for op in call.operations):
            return
        scene = {word for word in words(step.observation) if here.common[word] <= _COMMON * here.observations}
        place = place_in(step.observation)
        prompt = "\n".join(message["content"] for message in calls[-1].messages)
        best: tuple[int, str, str, frozenset[str]] | None = None
        for file, line in here.memory.held():
            shared = words(line) & scene
            same_place = place is not None and read_fact(line).place == place
            score = len(shared) + SHARED * same_place
            if score >= SHARED and (best is None or score >= best[0]) and line not in prompt:
                best = (score, file, line, shared | ({place} if place and same_place else set()))
        if best:
            self.not_consulted.add(best[1:3], *here.place, shared=sorted(best[3]))
