"""`automem quickstart`: both outer loops on Courier with the pocket model, by the commands that a user would type."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from automem.play.folder import RunFolder

_GAME, _MODEL, _START = "courier/small", "local:pocket", "courier-v0"
#: Steps that the agent without memory sees; more of them take longer to read and are of no use to this model.
_WINDOW = 8
#: Episodes in flight: as many as there are report seeds, for large batches.
_JOBS = "40"
#: Seconds for a command that ^C reached as well to end by itself, and to end when it is told to.
_PATIENCE, _GRACE = 3, 30

_NEXT = """\
Next:
  look at a step              automem trace show {loop1} --step 30
  your own model, served      automem run courier/small -S courier-v1 -m openai:MODEL --base-url http://HOST:8000/v1
  a harder game               automem run crafter -S crafter-v5 -m openai:MODEL --base-url … --seeds 42-51
  a scaffold of your own      automem scaffold new mine --from courier-v1
  a whole table on a cluster  automem launch main-table --on slurm --cluster slurm/clusters/example.yaml --dry-run\
"""


@dataclass(frozen=True)
class Seeds:
    """What each loop decides on, and what neither of them sees. Loop 2 learns from the games loop 1 decided on."""

    loop1: str
    loop2: str
    report: str


FULL = Seeds(loop1="0-15", loop2="40-59", report="100-139")
FAST = Seeds(loop1="0-7", loop2="40-47", report="100-109")


def quickstart(
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder of the runs. [runs/quickstart, or runs/quickstart-fast]")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Fewer seeds, wider intervals.")] = False,
    train_seed: Annotated[int, typer.Option(help="Seed of the training.")] = 42,
    redo: Annotated[bool, typer.Option("--redo", help="Throw the earlier runs away.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Improve a tiny model's memory by both loops: no key, no GPU, no download."""
    seeds = FAST if fast else FULL
    out = out or Path("runs/quickstart-fast" if fast else "runs/quickstart")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _prepare(out, redo)
    baselines = _Lane(
        [_run("window", seeds, out, "-s", f"budget.history={_WINDOW}"), _run(_START, seeds, out)], out / "baselines.log"
    )
    try:
        baselines.start()
        _do(_loop1(seeds, out))
        _do(_loop2(seeds, out, train_seed))
        _say("baselines, in the background since the start")
        baselines.join()
    except KeyboardInterrupt:
        _say("interrupted; the same command goes on")
        raise typer.Exit(130) from None
    finally:
        baselines.stop()
    _report(out, as_json)


def _prepare(out: Path, redo: bool) -> None:
    from automem.errors import UsageError
    from automem.models.place import Place

    Place.read(_MODEL.partition(":")[2])
    if out.is_file():
        raise UsageError(f"-o {out}: there is a file of that name")
    if redo:
        shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)


def _run(scaffold: str, seeds: Seeds, out: Path, *options: str) -> list[str]:
    played = ["--seeds", seeds.report, "-j", _JOBS, "-o", str(out / scaffold)]
    return ["run", _GAME, "-S", scaffold, "-m", _MODEL, *options, *played]


def _loop1(seeds: Seeds, out: Path) -> list[str]:
    decided = ["--gate-seeds", seeds.loop1, "--revisions", "1", "-j", _JOBS, "-o", str(out / "loop1")]
    return ["evolve", _GAME, "--from", _START, "-m", _MODEL, *decided]


def _loop2(seeds: Seeds, out: Path, train_seed: int) -> list[str]:
    from automem.evolve.loop import best_gate_run

    decided = ["--gate-seeds", seeds.loop2, "--report-seeds", seeds.report, "-s", f"lora.seed={train_seed}"]
    learnt_from = best_gate_run(out / "loop1").path
    return ["train", str(learnt_from), "--recipe", "pocket", *decided, "-j", _JOBS, "-o", str(out / "loop2")]


class _Lane:
    """Commands that run one after another beside the others, their output in a file."""

    def __init__(self, commands: Sequence[list[str]], log: Path) -> None:
        self._commands, self._log = commands, log
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._failed: tuple[list[str], int] | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self) -> None:
        """Wait for all of them.

        Raises:
            RunError: one failed.
        """
        self._thread.join()
        if self._failed:
            _refuse(*self._failed, f"{self._log} tells why; the same command goes on")

    def stop(self) -> None:
        """Stop what still runs; it goes on the next time."""
        self._stopped = True
        process = self._process
        if process is not None:
            _stop(process)

    def _work(self) -> None:
        with self._log.open("ab") as log:
            for command in self._commands:
                if self._stopped:
                    return
                self._process = _started(command, log, log)
                if code := self._process.wait():
                    self._failed = (command, code)
                    return


def _do(command: list[str]) -> None:
    """Run a command in the foreground; its output is seen.

    Raises:
        RunError: it failed.
    """
    _say(f"$ automem {shlex.join(command)}")
    process = _started(command, sys.stderr, None)
    try:
        code = process.wait()
    finally:
        _stop(process)
    if code == 130:
        raise KeyboardInterrupt
    if code:
        _refuse(command, code, "its message is above; the same command goes on")


def _started(command: list[str], out: IO[Any], err: IO[Any] | None) -> subprocess.Popen[bytes]:
    """The command as a process. So small a model is fastest on one core, and two commands run at a time."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    words = [sys.executable, "-m", "automem", *command]
    return subprocess.Popen(words, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=environment)


def _stop(process: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    if process.poll() is None:
        process.kill()


def _refuse(command: list[str], code: int, hint: str) -> None:
    from automem.errors import RunError

    raise RunError(f"`automem {shlex.join(command)}` ended with exit code {code}", hint)


def _report(out: Path, as_json: bool) -> None:
    import json

    from automem.evolve.loop import best_gate_run
    from automem.results.ladder import ladder, to_markdown

    rungs = ladder(_runs(out))
    print(json.dumps([rung.data() for rung in rungs], indent=2) if as_json else f"\n{to_markdown(rungs)}")
    _say(_NEXT.format(loop1=best_gate_run(out / "loop1").path))


def _runs(out: Path) -> list[tuple[str, RunFolder]]:
    """The steps from no memory to a specialist, all on the report seeds."""
    from automem.play.folder import RunFolder
    from automem.train.ledger import Ledger

    last = Ledger(out / "loop2").rows[-1]
    plays = out / "loop2" / "plays"
    return [
        ("window", RunFolder.read(out / "window")),
        ("memory v0", RunFolder.read(out / _START)),
        ("+ scaffold, loop 1", RunFolder.read(plays / "report-base")),
        (f"+ specialist, loop 2 ({last.verdict})", RunFolder.read(plays / f"report-{last.adapter}")),
    ]


def _say(text: str) -> None:
    print(f"\n{text}", file=sys.stderr, flush=True)
