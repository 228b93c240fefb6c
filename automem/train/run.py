"""Runs the training process: its output goes into a log, its end is told in one line."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from automem.errors import AutoMemError, RunError, UsageError
from automem.play.folder import write_atomically
from automem.train.commands import train_command
from automem.train.job import Job, Trained, read_trained
from automem.train.recipe import Unfit

#: Seconds that the process has to end by itself.
_GRACE = 20.0
_TAIL = 8
#: Exit code of the training process -> what it means.
_ERRORS: dict[int, type[AutoMemError]] = {1: RunError, 2: UsageError, 3: Unfit}


def run_job(job: Job, tell: Callable[[str], None]) -> Trained:
    """Train, unless this very job is done; goes on from its last checkpoint.

    Raises:
        UsageError: the job itself says that its input is wrong.
        RunError: training failed; the message has what it said, or the end of its log.
    """
    out = Path(job.out)
    if done := read_trained(out, job):
        return done
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "job.json", job.model_dump_json(indent=2) + "\n")
    command = train_command(out / "job.json", job.lora)
    tell(f"training {job.name}; {out / 'train.log'} tells how it goes")
    code = _run(command, out / "train.log")
    trained = read_trained(out, job)
    if code or trained is None:
        raise _failure(code, out / "train.log")
    tell(f"trained in {trained.seconds:.0f} s: loss {trained.train_loss:.3f}, {trained.supervised_tokens:,} tokens")
    return trained


def _run(command: list[str], log: Path) -> int:
    """Run in a process group of its own, which is ended whole when this is interrupted."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return process.wait()
        finally:
            if process.poll() is None:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
            return


def _failure(code: int, log: Path) -> AutoMemError:
    """What the log says about it: our own words if it ends with them, else its last lines."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    told = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    if told and code in _ERRORS and len(lines) - told[-1] <= _TAIL:
        message = lines[told[-1]].removeprefix("error: ")
        hint = next((line.removeprefix("hint: ") for line in lines[told[-1] :] if line.startswith("hint: ")), None)
        return _ERRORS[code](message, hint)
    tail = "\n".join(lines[-_TAIL:])
    return RunError(f"training ended with code {code}:\n{tail}", f"{log} has it all; the same command goes on")
