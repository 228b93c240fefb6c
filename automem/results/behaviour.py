"""`Behaviour`: what an agent did, counted in one pass over its trace. Formulas: `docs/metrics.md`.

All fields are counts, so behaviours add up; the rates of a sum are micro-averages over steps, operations
or tokens, not means of episodes. A rate of nothing is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from automem.episode import text_digest
from automem.memory.kinds import Splice
from automem.trace import Step, TraceReader

#: Operations that put text into a file.
WRITES = frozenset({"APPEND", "WRITE", "UPSERT"})


@dataclass(frozen=True)
class Behaviour:
    """Counts over episodes; `a + b` are the counts of both.

    `log_writes` and `log_searches` are those of the LOG phase. `cached_of` are the prompt tokens of the calls
    whose server told how many were `cached`. `refused` operations include the `malformed` ones. `added` are
    characters written per memory file, line breaks counted, `kept` those still there when the episode ends.
    """

    episodes: int = 0
    steps: int = 0
    stuck: int = 0
    oscillating: int = 0
    invalid: int = 0
    fallbacks: int = 0
    operations: int = 0
    refused: int = 0
    malformed: int = 0
    writes: int = 0
    repeats: int = 0
    searches: int = 0
    empty_searches: int = 0
    log_writes: int = 0
    log_searches: int = 0
    calls: int = 0
    estimated_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached: int = 0
    cached_of: int = 0
    added: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Behaviour) -> Behaviour:
        return Behaviour(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    @property
    def unproductive_rate(self) -> float | None:
        """Steps that were stuck or oscillated / steps."""
        return _ratio(self.stuck + self.oscillating, self.steps)

    @property
    def repeat_write_rate(self) -> float | None:
        """Writes of text that the file held already / executed writes."""
        return _ratio(self.repeats, self.writes)

    @property
    def empty_search_rate(self) -> float | None:
        """Searches without a hit / executed searches."""
        return _ratio(self.empty_searches, self.searches)

    @property
    def log_writes_per_search(self) -> float | None:
        """Executed writes of the LOG phase / executed searches of the LOG phase."""
        return _ratio(self.log_writes, self.log_searches)

    @property
    def invalid_action_rate(self) -> float | None:
        """Steps in which an action was refused, or none was named in time / steps."""
        return _ratio(self.invalid, self.steps)

    @property
    def fallback_rate(self) -> float | None:
        """Steps in which the default action stood in / steps."""
        return _ratio(self.fallbacks, self.steps)

    @property
    def refused_rate(self) -> float | None:
        """Operations that were not executed, malformed ones included / operations."""
        return _ratio(self.refused, self.operations)

    @property
    def input_tokens_per_step(self) -> float | None:
        """Prompt tokens of all calls / steps."""
        return _ratio(self.prompt_tokens, self.steps)

    @property
    def output_tokens_per_step(self) -> float | None:
        """Completion tokens of all calls / steps."""
        return _ratio(self.completion_tokens, self.steps)

    @property
    def cached_share(self) -> float | None:
        """Cached prompt tokens / prompt tokens, over the calls whose server told; None if none did."""
        return _ratio(self.cached, self.cached_of)

    @property
    def written_per_step(self) -> float | None:
        """Characters written to memory / steps."""
        return _ratio(self.added.total(), self.steps)

    @property
    def growth_per_step(self) -> float | None:
        """Characters written to memory and still there at the end / steps."""
        return _ratio(self.kept.total(), self.steps)

    def file_growth(self) -> dict[str, float]:
        """`growth_per_step` of each memory file that was written to."""
        return {file: self.kept[file] / self.steps for file in sorted(self.added)} if self.steps else {}


def behaviour(steps: Iterable[Step]) -> Behaviour:
    """The behaviour of one episode."""
    total = Behaviour(episodes=1)
    files = _Files()
    earlier = None
    for step in steps:
        here = text_digest(step.observation)
        total += _actions(step, here, earlier) + _operations(step) + _tokens(step)
        files.apply(step.memory)
        earlier = here
    return replace(total, added=files.added, kept=files.kept())


def read_behaviour(path: Path) -> Behaviour:
    """The behaviour of the episode whose trace is at `path`, finished or not."""
    return behaviour(TraceReader(path).steps())


def _actions(step: Step, here: str, earlier: str | None) -> Behaviour:
    """`here` and `earlier` are the digests of what was seen before this step and before the one before."""
    stuck = step.next_digest == here
    return Behaviour(
        steps=1,
        stuck=stuck,
        oscillating=not stuck and step.next_digest == earlier,
        invalid=step.fallback or bool(step.rejections) or named_unknown_action(step),
        fallbacks=step.fallback,
    )


def named_unknown_action(step: Step) -> bool:
    """Whether the model committed an action that the game does not have."""
    return any(op.refusal == "unknown action" for call in step.calls for op in call.operations)


def _operations(step: Step) -> Behaviour:
    records = [(call.phase == "log", op) for call in step.calls for op in call.operations]
    writes = [(log, op) for log, op in records if op.ok and op.name in WRITES]
    searches = [(log, op) for log, op in records if op.ok and op.name == "SEARCH"]
    return Behaviour(
        operations=len(records),
        refused=sum(not op.ok for _, op in records),
        malformed=sum(op.refusal == "malformed" for _, op in records),
        writes=len(writes),
        repeats=sum(op.repeat for _, op in writes),
        searches=len(searches),
        empty_searches=sum(op.hits == 0 for _, op in searches),
        log_writes=sum(log for log, _ in writes),
        log_searches=sum(log for log, _ in searches),
    )


def _tokens(step: Step) -> Behaviour:
    usages = [call.usage for call in step.calls]
    return Behaviour(
        calls=len(usages),
        estimated_calls=sum(usage.estimated for usage in usages),
        prompt_tokens=sum(usage.prompt for usage in usages),
        completion_tokens=sum(usage.completion for usage in usages),
        cached=sum(usage.cached or 0 for usage in usages),
        cached_of=sum(usage.prompt for usage in usages if usage.cached is not None),
    )


class _Files:
    """Lengths of the lines written so far, by file and place; lines that the episode began with count 0."""

    def __init__(self) -> None:
        self.added: Counter[str] = Counter()
        self._lines: dict[str, list[int]] = {}

    def apply(self, splices: Iterable[Splice]) -> None:
        for splice in splices:
            lines = self._lines.setdefault(splice.file, [])
            lines += [0] * (splice.at - len(lines))
            inserted = [len(line) + 1 for line in splice.inserted]
            lines[splice.at : splice.at + splice.removed] = inserted
            self.added[splice.file] += sum(inserted)

    def kept(self) -> Counter[str]:
        return Counter({file: sum(lines) for file, lines in self._lines.items()})


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
