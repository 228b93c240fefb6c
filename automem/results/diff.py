"""The first difference between two traces, or the traces of two runs, in what happened.

How long things took, how often an endpoint had to be asked again, what a server had in its cache and what
the header says (models, limits) is not compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from automem.play.folder import RunFolder
from automem.trace import Result, Step, TraceReader

Place = tuple[str, str, int]
_IGNORED = frozenset({"seconds", "retries", "cached"})
_ABSENT = object()
#: Characters of a value that are shown, and how many of them stand before the first that differs.
_SHOWN, _BEFORE = 72, 20


@dataclass(frozen=True)
class Difference:
    """Where two traces part: `step` is None for what is no step; `a` and `b` are the values, shortened."""

    episode: str
    step: int | None
    field: str
    a: str
    b: str

    def __str__(self) -> str:
        step = "" if self.step is None else f" step {self.step},"
        return f"{self.episode},{step} {self.field}:\n  a: {self.a}\n  b: {self.b}"


@dataclass(frozen=True)
class RunDifference:
    """The first difference of each episode that two runs do not have alike."""

    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.differences))


def diff_traces(a: Path, b: Path) -> Difference | None:
    """The first difference between two traces, read side by side; None if there is none.

    Raises:
        UsageError: one of them is not a trace.
    """
    one, other = TraceReader(a), TraceReader(b)
    episode = _name(one.spec.place)
    for step, (left, right) in enumerate(zip_longest(one.steps(), other.steps())):
        if left is None or right is None:
            return Difference(episode, step, "step", _played(left), _played(right))
        if found := _first(left.model_dump(), right.model_dump()):
            return Difference(episode, step, *found)
    if found := _first(_data(one.result), _data(other.result), "result"):
        return Difference(episode, None, *found)
    return None


def diff_runs(a: RunFolder | Path, b: RunFolder | Path) -> RunDifference | None:
    """The differences between two runs, their traces paired by env, task and seed; None if there are none.

    An episode that only one of them has played is a difference, too (field `episode`).
    """
    one, other = _traces(a), _traces(b)
    pairs = ((place, one.get(place), other.get(place)) for place in dict.fromkeys([*one, *other]))
    found = tuple(difference for pair in pairs if (difference := _diff_episode(*pair)))
    return RunDifference(found) if found else None


def _diff_episode(place: Place, a: Path | None, b: Path | None) -> Difference | None:
    if a and b:
        return diff_traces(a, b)
    return Difference(_name(place), None, "episode", *("played" if path else "not played" for path in (a, b)))


def _traces(run: RunFolder | Path) -> dict[Place, Path]:
    folder = RunFolder.read(run) if isinstance(run, Path) else run
    paths = {spec.place: folder.trace_path(spec) for spec in folder.config.specs()}
    return {place: path for place, path in paths.items() if path.is_file()}


def _name(place: Place) -> str:
    env, task, seed = place
    return f"{env}/{task}, seed {seed}"


def _played(step: Step | None) -> str:
    return "not played" if step is None else f"played: {step.action}"


def _data(result: Result | None) -> dict[str, Any] | str:
    return result.model_dump() if result else "not finished"


def _first(a: Any, b: Any, field: str = "") -> tuple[str, str, str] | None:
    """(field, value in a, value in b) where two values first differ, in the order of the record."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        shared = [key for key in dict.fromkeys([*a, *b]) if key not in _IGNORED]
        inner = ((f"{field}.{key}".lstrip("."), a.get(key, _ABSENT), b.get(key, _ABSENT)) for key in shared)
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple):
        pairs = enumerate(zip_longest(a, b, fillvalue=_ABSENT))
        inner = ((f"{field}[{place}]", left, right) for place, (left, right) in pairs)
    else:
        return None if a == b else (field, *_shortened(_text(a), _text(b)))
    return next((found for name, left, right in inner if (found := _first(left, right, name))), None)


def _text(value: Any) -> str:
    return "(nothing)" if value is _ABSENT else json.dumps(value, ensure_ascii=False)


def _shortened(a: str, b: str) -> tuple[str, str]:
    """Both texts around the first character in which they differ."""
    places = (place for place, (left, right) in enumerate(zip(a, b, strict=False)) if left != right)
    start = max(0, next(places, min(len(a), len(b))) - _BEFORE)
    return _cut(a, start), _cut(b, start)


def _cut(text: str, start: int) -> str:
    end = start + _SHOWN
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
