"""`CommandProposer`: any program that can edit files, such as a coding agent, as a proposer.

It works in a folder of its own that holds copies of all it may read, and what it leaves in `output/` is the
candidate. Everything else there, and the originals, must be as before when it ends.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from automem.errors import ProposerFailure, UsageError, did_you_mean
from automem.evolve.base import Assignment, Proposal
from automem.evolve.proposers import briefing, candidate
from automem.evolve.proposers.failure import SessionFailure
from automem.results.plays import Cost

PLACEHOLDERS = ("workspace", "prompt", "output")
#: What the command may print before it is stopped, and how much of it an error message quotes.
MAX_PRINTED = 64 * 2**20
_TAIL = 600
_ANALYSIS = "ANALYSIS.md"
_POLL_SECONDS = 0.1
_MARK = re.compile(r"\{([a-z_]+)\}")

_WORK = """\
# How you work
You are in a folder made for this task:
- `task.md`: this text; `diagnosis.md` and `diagnosis.json`: the report on how the current scaffold played;
- `scaffold/`: the current scaffold;
- `run/`: how it played: `run/traces/**/*.jsonl` (a header, one line for each step, a result; `automem trace show \
FILE` prints one for reading), `run/memory/` (the memory files at the end of each episode);
- `output/`: where the candidate goes, as whole files: start by copying `scaffold/` there. Put your analysis into \
`output/ANALYSIS.md`: what you saw, with episodes and steps, and why your change answers it.
Write to `output/` and nowhere else: if any other file here differs at the end, nothing of yours is taken. If \
there is nothing worth changing, leave `output/` empty."""


class CommandSettings(BaseModel):
    """How the command is run."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seconds: float = Field(3600.0, gt=0, description="Time until it is stopped.")


class CommandProposer:
    """The proposer `command`: runs a command line in a workspace and takes what it wrote to `output/`."""

    def __init__(self, template: str, settings: CommandSettings | None = None) -> None:
        """`template` is split as a shell would, but no shell runs it; {workspace}, {prompt} (the path of the
        task) and {output} are filled in.

        Raises:
            UsageError: the template is empty, has open quotes or an unknown placeholder.
        """
        self._command = _split(template)
        self._settings = settings or CommandSettings()
        self.name = f"command:{Path(self._command[0]).name}"

    def propose(self, assignment: Assignment) -> Proposal:
        """Run the command once; what it printed is kept in `command_<n>` of the assignment's log folder.

        Raises:
            SessionFailure: it could not be run, ended with an error, took too long, touched what is not its
                own, or wrote something else than small regular files; the output is then empty.
        """
        started = time.monotonic()
        log = _log_folder(assignment.log)
        try:
            with candidate.emptied_on_failure(assignment.output), _workspace(assignment, log) as workspace:
                before = _guarded(assignment, workspace)
                failure = self._run(workspace, log)
                _compare(before, _guarded(assignment, workspace), workspace)
                if failure:
                    raise ProposerFailure(f"{self.name} {failure}", f"see {log}")
                candidate.empty(assignment.output)
                candidate.copy_files(workspace / "output", assignment.output)
                analysis = _take_analysis(assignment.output)
        except ProposerFailure as error:
            raise SessionFailure(error.message, _cost(started), error.hint) from error
        return Proposal(analysis or _tail(log / "stdout.txt"), _cost(started))

    def close(self) -> None:
        """Nothing is held."""

    def _run(self, workspace: Path, log: Path) -> str | None:
        """Run the command to its end; what went wrong, or None."""
        values = {"workspace": workspace, "prompt": workspace / "task.md", "output": workspace / "output"}
        command = [_MARK.sub(lambda mark: str(values[mark[1]]), part) for part in self._command]
        printed = (log / "stdout.txt", log / "stderr.txt")
        with printed[0].open("wb") as out, printed[1].open("wb") as err:
            try:
                process = subprocess.Popen(
                    command, cwd=workspace, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
                )
            except OSError as error:
                return f"cannot be run: {error.strerror}"
            try:
                failure = self._wait(process, printed)
            finally:
                _kill_group(process)
        if failure is None and process.returncode:
            said = _tail(printed[1]) or _tail(printed[0])
            failure = f"ended with exit code {process.returncode}: {said or 'it printed nothing'}"
        return failure

    def _wait(self, process: subprocess.Popen[bytes], printed: tuple[Path, ...]) -> str | None:
        deadline = time.monotonic() + self._settings.seconds
        while True:
            left = deadline - time.monotonic()
            try:
                process.wait(max(0.0, min(left, _POLL_SECONDS)))
            except subprocess.TimeoutExpired:
                if left <= 0:
                    return f"was stopped after {self._settings.seconds:g} seconds"
                if sum(path.stat().st_size for path in printed) > MAX_PRINTED:
                    return f"was stopped: it printed more than {MAX_PRINTED // 2**20} MiB"
            else:
                return None


def _split(template: str) -> list[str]:
    try:
        parts = shlex.split(template)
    except ValueError as error:
        raise UsageError(f"command '{template}': {error}") from error
    if not parts:
        raise UsageError("the command is empty", "for example: my-agent --task {prompt} --write-to {output}")
    for mark in _MARK.findall(template):
        if mark not in PLACEHOLDERS:
            raise UsageError(f"command '{template}': unknown placeholder {{{mark}}}", did_you_mean(mark, PLACEHOLDERS))
    return parts


def _log_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"command_{1 + sum(1 for _ in folder.glob('command_*'))}"
    log.mkdir()
    return log


@contextmanager
def _workspace(assignment: Assignment, log: Path) -> Iterator[Path]:
    """A folder with copies of everything that the command may read, away from any checkout."""
    # A command may leave folders that cannot be removed; that must not hide how it ended.
    with tempfile.TemporaryDirectory(prefix="automem-", ignore_cleanup_errors=True) as temporary:
        workspace = Path(temporary).resolve()
        (workspace / "output").mkdir()
        assignment.scaffold.save(workspace / "scaffold")
        _copy_run(assignment.run.path, workspace / "run")
        (workspace / "diagnosis.md").write_text(assignment.diagnosis.text(), encoding="utf-8")
        (workspace / "diagnosis.json").write_text(assignment.diagnosis.model_dump_json(indent=2), encoding="utf-8")
        failed = assignment.failed
        if failed:
            candidate.copy_files(failed.folder, workspace / "failed" / "scaffold")
            if failed.run:
                _copy_run(failed.run.path, workspace / "failed" / "run")
        if assignment.errors:
            candidate.copy_files(assignment.output, workspace / "output")
        (workspace / "task.md").write_text(_task(assignment), encoding="utf-8")
        shutil.copy(workspace / "task.md", log)
        yield workspace


def _task(assignment: Assignment) -> str:
    failed = "Its files are in `failed/scaffold/`, how it played (if it did) in `failed/run/`."
    case = briefing.situation(assignment, failed, "It stands in `output/`.")
    return "\n\n".join([briefing.contract(assignment.allowed), _WORK, case]) + "\n"


def _copy_run(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    shutil.copy(source / "run.json", target)
    for part in ("traces", "memory"):
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, symlinks=True)


def _guarded(assignment: Assignment, workspace: Path) -> dict[Path, str]:
    """Every path that the command must leave alone, with a digest of what is there."""
    roots = [workspace, assignment.scaffold.folder, assignment.run.path]
    if assignment.failed:
        roots.append(assignment.failed.folder)
        roots += [assignment.failed.run.path] if assignment.failed.run else []
    # A link in the place of the workspace's own output is not followed: it is found when the output is taken.
    spared = [workspace / "output", assignment.output.resolve(), assignment.log.resolve()]
    found: dict[Path, str] = {}
    for root in roots:
        _add_tree(root.resolve(), spared, found)
    return found


def _add_tree(folder: Path, spared: list[Path], found: dict[Path, str]) -> None:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        found[folder] = "unreadable"
        return
    for entry in entries:
        path = Path(entry.path)
        if path in spared:
            continue
        if entry.is_symlink():
            found[path] = f"link to {path.readlink()}"
        elif entry.is_dir():
            found[path] = "folder"
            _add_tree(path, spared, found)
        else:
            found[path] = _digest(path) if entry.is_file() else "special"


def _digest(path: Path) -> str:
    hasher = blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while chunk := file.read(2**20):
                hasher.update(chunk)
    except OSError:
        return "unreadable"
    return hasher.hexdigest()


def _compare(before: dict[Path, str], after: dict[Path, str], workspace: Path) -> None:
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if not changed:
        return
    first = changed[0]
    did = "added" if first not in before else "removed" if first not in after else "changed"
    name = first.relative_to(workspace) if first.is_relative_to(workspace) else first
    others = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    raise ProposerFailure(f"the command {did} {name}{others}: it may write to output/ only")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the command and whatever it has left running in its process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _take_analysis(output: Path) -> str:
    path = output / _ANALYSIS
    if not path.is_file():
        return ""
    text = path.read_text(encoding="utf-8", errors="replace").strip()
    path.unlink()
    return text


def _tail(path: Path) -> str:
    """The end of what a command printed."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        return file.read().decode(errors="replace").strip()


def _cost(started: float) -> Cost:
    return Cost(seconds=round(time.monotonic() - started, 3))
