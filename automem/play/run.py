"""A run: the episodes of one config, played into one folder. Running it again resumes."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import Any

from automem.agent.agent import make_shown
from automem.display import Display, run_display
from automem.episode import EpisodeSpec
from automem.errors import RunError
from automem.messages import Role
from automem.models.base import Model
from automem.play import provenance
from automem.play.folder import RunConfig, RunFolder, writing_run
from automem.play.rollout import Rollout, rollout_all
from automem.scaffold.spec import Scaffold
from automem.trace import Result, Step


@dataclass(frozen=True)
class Played:
    """What became of a run: its folder, the results of all its episodes, and how many were played just now."""

    folder: RunFolder
    results: dict[str, Result]
    new: int

    @property
    def failures(self) -> list[Result]:
        """The episodes that failed and are owed again."""
        return [result for result in self.results.values() if not result.finished]


def play_run(
    out: Path,
    config: RunConfig,
    scaffold: Scaffold,
    models: Mapping[Role, Model],
    jobs: int,
    redo: bool = False,
) -> Played:
    """Play, or go on with, the run of `config` in the folder `out`.

    Raises:
        UsageError: `out` holds another run, or is being written by another process, or the policy of the
            scaffold's `context` cannot be made.
        RunError: the folder cannot be written.
        KeyboardInterrupt: ^C or SIGTERM; everything played so far is on the disk.
    """
    # A policy that cannot be made is told before anything is written.
    make_shown(scaffold)
    record = provenance.record(config.env)
    with writing_run(out, config, record, redo) as (folder, attempt):
        _warn_of_other_code(folder, record)
        scaffold.save(folder.path / "scaffold")
        specs = folder.config.specs()
        finished = {spec.id: result for spec, result in folder.finished()}
        owed = [spec for spec in specs if spec.id not in finished]
        name = f"{config.env} {scaffold.name}"
        with (
            run_display(name, len(specs), len(finished)) as display,
            (attempt / "events.jsonl").open("wb", buffering=0) as events,
        ):
            rollout = Rollout(folder, scaffold, models, _EventLog(events, display))
            try:
                results = asyncio.run(_play(rollout, owed, jobs, models))
            except asyncio.CancelledError:
                raise KeyboardInterrupt from None
    return Played(folder, finished | {spec.id: result for spec, result in zip(owed, results, strict=True)}, len(owed))


def _warn_of_other_code(folder: RunFolder, record: dict[str, Any]) -> None:
    if folder.record.get("evaluator") != record["evaluator"]:
        print(
            f"warning: {folder.path} was begun with other code (evaluator {folder.record.get('evaluator')}, now "
            f"{record['evaluator']}); --redo plays it afresh",
            file=sys.stderr,
        )


async def _play(rollout: Rollout, owed: list[EpisodeSpec], jobs: int, models: Mapping[Role, Model]) -> list[Result]:
    # A batch scheduler stops a job by SIGTERM: it is answered like ^C, which scripts may have set to be ignored.
    before = signal.getsignal(signal.SIGTERM)
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await rollout_all(rollout, owed, jobs)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)
        for model in dict.fromkeys(models.values()):
            await model.close()


class _EventLog:
    """Writes when episodes start and end into the attempt's log, and passes everything on to the display."""

    def __init__(self, file: RawIOBase, display: Display) -> None:
        self._file = file
        self._display = display

    def started(self, spec: EpisodeSpec, steps: int, max_steps: int) -> None:
        """Log and pass on."""
        self._write(spec, event="started", steps=steps)
        self._display.started(spec, steps, max_steps)

    def stepped(self, spec: EpisodeSpec, step: Step) -> None:
        """Pass on."""
        self._display.stepped(spec, step)

    def finished(self, spec: EpisodeSpec, result: Result) -> None:
        """Log and pass on."""
        self._write(spec, event="finished", **result.model_dump(exclude_none=True))
        self._display.finished(spec, result)

    def _write(self, spec: EpisodeSpec, **facts: Any) -> None:
        line = {"time": round(time.time(), 3), "episode": spec.id, "task": spec.task, **facts}
        try:
            self._file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            raise RunError(f"cannot write the log of events: {error.strerror}", "the run can be resumed") from error
