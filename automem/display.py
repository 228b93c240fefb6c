"""What people see while they wait: a progress bar each on a terminal, plain lines elsewhere.

Everything here goes to stderr; data goes to stdout.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from automem.episode import EpisodeSpec
from automem.text import printable
from automem.trace import Result, Step

#: Seconds between plain lines that only tell that work goes on.
_PLAIN_SECONDS = 30.0
#: Episodes in flight that get a bar of their own.
_BARS = 10


class Display(Protocol):
    """Shows how the episodes of a run go, from entering to leaving it as a context."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...
    def started(self, spec: EpisodeSpec, steps: int, max_steps: int) -> None:
        """An episode starts or goes on."""

    def stepped(self, spec: EpisodeSpec, step: Step) -> None:
        """A step was played."""

    def finished(self, spec: EpisodeSpec, result: Result) -> None:
        """An episode ended."""


def run_display(name: str, total: int, done: int) -> Display:
    """The display for `total` episodes of which `done` were there before."""
    console = Console(stderr=True)
    return BarDisplay(console, name, total, done) if console.is_terminal else PlainDisplay(name, total, done)


class BarDisplay:
    """Bars: one for the run, one for each of the first episodes in flight."""

    def __init__(self, console: Console, name: str, total: int, done: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._run = self._progress.add_task(f"[bold]{name}", total=total, completed=done, note="episodes")
        self._bars: dict[str, TaskID] = {}
        self._steps = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def started(self, spec: EpisodeSpec, steps: int, max_steps: int) -> None:
        """Add the episode's bar, if there is room."""
        if len(self._bars) == _BARS:
            return
        name = f"  {spec.env}/{spec.task} seed {spec.seed}"
        self._bars[spec.id] = self._progress.add_task(name, total=max_steps, completed=steps, note="")

    def stepped(self, spec: EpisodeSpec, step: Step) -> None:
        """Move the episode's bar, and count its step."""
        self._steps += 1
        self._progress.update(self._run, note=f"episodes, {self._steps:,} steps")
        if (bar := self._bars.get(spec.id)) is not None:
            self._progress.update(bar, completed=step.t + 1, note=f"{step.progress:.1%}")

    def finished(self, spec: EpisodeSpec, result: Result) -> None:
        """Take the episode's bar away; a failure stays to be read."""
        if (bar := self._bars.pop(spec.id, None)) is not None:
            self._progress.remove_task(bar)
        self._progress.advance(self._run)
        if result.failure:
            self._progress.console.print(printable(_line(spec, result)), style="red", markup=False, highlight=False)


class PlainDisplay:
    """Lines: one for each episode that ends, and a sign of life now and then."""

    def __init__(self, name: str, total: int, done: int) -> None:
        self._name = name
        self._total = total
        self._done = done
        self._steps = 0
        self._told = time.monotonic()

    def __enter__(self) -> Self:
        self._say(f"{self._name}: episodes {self._total}, done before {self._done}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._say(f"{self._name}: {self._done} of {self._total} done")

    def started(self, spec: EpisodeSpec, steps: int, max_steps: int) -> None:
        """Tell only of episodes that go on."""
        if steps:
            self._say(f"{spec.env}/{spec.task} seed {spec.seed}: going on at step {steps}")

    def stepped(self, spec: EpisodeSpec, step: Step) -> None:
        """Now and then, say how far the run is."""
        self._steps += 1
        if time.monotonic() - self._told > _PLAIN_SECONDS:
            self._say(f"{self._name}: {self._done} of {self._total} done, {self._steps} steps played")

    def finished(self, spec: EpisodeSpec, result: Result) -> None:
        """One line for the episode."""
        self._done += 1
        self._say(f"[{self._done}/{self._total}] {_line(spec, result)}")

    def _say(self, text: str) -> None:
        self._told = time.monotonic()
        print(printable(text), file=sys.stderr, flush=True)


def _line(spec: EpisodeSpec, result: Result) -> str:
    name = f"{spec.env}/{spec.task} seed {spec.seed}"
    if result.failure:
        hint = f" (hint: {result.hint})" if result.hint else ""
        return f"{name}: failed ({result.failure}) after {result.steps} steps: {result.message}{hint}"
    return f"{name}: {result.progress:.1%} in {result.steps} steps, {result.end}"
