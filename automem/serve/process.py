"""A server in a process group of its own: its output in a log, ended whole, and never outliving this process."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from automem.errors import RunError, ServerDied

#: Seconds that the processes have to end by themselves, and to be gone once they were killed.
_GRACE, _KILLED = 20.0, 10.0
_TAIL = 15
_PR_SET_PDEATHSIG = 1
_ERROR = re.compile(r"(?:^|\s)(\w*(?:Error|Exception): .+)")
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class ServerProcess:
    """A process and all that it starts."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start it; its output is added to `log`.

        Raises:
            RunError: it cannot be started, or the log cannot be written.
        """
        self.log = log
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as out:
                self._since = out.tell()
                self._popen = _start(command, environment, out)
        except OSError as error:
            raise RunError(f"cannot start {command[0]} with its log in {log}: {error.strerror}") from error

    @property
    def pid(self) -> int:
        """Of the first process, which is the number of the group, too."""
        return self._popen.pid

    def ended(self) -> int | None:
        """Its exit code, once it has ended; minus the signal that ended it."""
        return self._popen.poll()

    def check_alive(self) -> None:
        """Raise ServerDied, with the end of the log, if the process has ended."""
        if (code := self.ended()) is not None:
            raise self.death(f"the server ended with code {code}")

    def death(self, what: str) -> ServerDied:
        """The error that tells `what` has happened and how the log ends."""
        lines = self._lines()
        causes = [found[1] for line in lines if (found := _ERROR.search(line))]
        causes = [cause for cause in causes if "root cause" not in cause]
        tail = "\n".join(lines[-_TAIL:]) or "(its log is empty)"
        return ServerDied(f"{what}{f': {causes[-1].strip()}' if causes else ''}\n{tail}", f"{self.log} has all of it")

    def wait(self, seconds: float) -> int | None:
        """Wait for its end; its exit code, or None where it still runs."""
        with suppress(subprocess.TimeoutExpired):
            return self._popen.wait(seconds)
        return None

    def stop(self) -> None:
        """End all of the group, by force if need be; returns when nothing is left of it.

        Raises:
            RunError: something cannot be ended.
        """
        try:
            if self.ended() is None:
                self._signal(signal.SIGTERM)
                self.wait(_GRACE)
        finally:
            self._signal(signal.SIGKILL)
            self._popen.wait()
        end = time.monotonic() + _KILLED
        while (left := members(self.pid)) and time.monotonic() < end:
            time.sleep(0.05)
        if left:
            raise RunError(f"the server's processes {', '.join(map(str, left))} do not end", "end them by hand")

    def _signal(self, number: int) -> None:
        """To the whole group, and to those who left it but not the session."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        for pid in members(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _lines(self) -> list[str]:
        """What this process has said; the log may hold more from before."""
        with self.log.open("rb") as file:
            file.seek(self._since)
            return file.read().decode("utf-8", errors="replace").splitlines()


def members(session: int) -> list[int]:
    """The processes of a session that still run, by /proc; empty where there is none."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # Behind the name in parentheses: state, parent, group, session.
        if fields[0] not in "ZX" and int(fields[3]) == session:
            found.append(int(stat.parent.name))
    return found


def _start(command: Sequence[str], environment: Mapping[str, str], out: BinaryIO) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,
        preexec_fn=_die_with_parent if _LIBC else None,
    )


def _die_with_parent() -> None:
    # One call into a library that is loaded already: safe between fork and exec.
    assert _LIBC is not None
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
