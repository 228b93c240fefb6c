"""`replay:PATH`: answers from the traces of a run folder, or from one trace file, to play without a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from automem.errors import ModelFailure, UsageError
from automem.messages import Message
from automem.models.base import Completion, Request
from automem.trace import Call, Step, TraceReader

Place = tuple[str, str, int]


@dataclass
class _Tape:
    """One trace, read along with the episode that replays it."""

    steps: Iterator[Step]
    step: Step | None = None

    def at(self, t: int) -> Step | None:
        """Step `t` of the trace; earlier ones are passed over."""
        while self.step is None or self.step.t < t:
            self.step = next(self.steps, None)
            if self.step is None:
                return None
        return self.step if self.step.t == t else None


class ReplayModel:
    """Gives each call the reply that the trace of the same env, task and seed has for it."""

    def __init__(self, source: Path) -> None:
        """`source` is a run folder or one trace file.

        Raises:
            UsageError: there is no trace there.
        """
        self.name = f"replay:{source}"
        files = sorted(source.glob("traces/**/*.jsonl")) if source.is_dir() else [source]
        if not files or not source.exists():
            raise UsageError(f"no traces at '{source}'", "replay: takes a run folder or a trace file")
        readers = [TraceReader(file) for file in files]
        self._readers: dict[Place, TraceReader] = {reader.spec.place: reader for reader in readers}
        self._tapes: dict[Place, _Tape] = {}

    async def generate(self, messages: Sequence[Message], request: Request) -> Completion:
        """The recorded reply to these very messages.

        Raises:
            ModelFailure: nothing was recorded for this call, or it was asked something else.
        """
        call = self._find(request)
        if call.messages != list(messages):
            raise ModelFailure(
                f"{self.name}: step {request.step}, call {request.call} was asked something else when it was recorded",
                "replay needs the scaffold, env and seeds of the recorded run",
            )
        return Completion(
            text=call.reply,
            usage=call.usage,
            finish_reason=call.finish_reason,
            tool_calls=tuple(call.tool_calls),
        )

    async def close(self) -> None:
        """Forget the traces."""
        self._tapes.clear()

    def _find(self, request: Request) -> Call:
        place = (request.env, request.task, request.seed)
        where = f"{request.env}/{request.task} seed {request.seed}"
        if place not in self._readers:
            raise ModelFailure(f"{self.name} has no trace of {where}")
        tape = self._tapes.get(place)
        if tape is None or (tape.step is not None and tape.step.t > request.step):
            tape = self._tapes[place] = _Tape(self._readers[place].steps())
        step = tape.at(request.step)
        if step is None or request.call >= len(step.calls):
            raise ModelFailure(f"{self.name}: {where} has no call {request.call} at step {request.step}")
        return step.calls[request.call]
