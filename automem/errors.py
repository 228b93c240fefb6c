"""Every error that AutoMem raises on purpose, in one place.

Two families. A `UsageError` is the user's to mend: the command stops with `error:` and `hint:` and
exit code 2. An `EpisodeFailure` is data: the episode is recorded as failed, left out of means, counted
beside n, and owed again on resume. Everything else is a bug and raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal

FailureKind = Literal["model", "env", "scaffold", "limit", "interrupt"]

#: From this ratio of `difflib` on a name is like another; below it a guess is worse than the list of all names. A
#: short name, of at most so many letters, is less alike after one slip.
_ALIKE, _ALIKE_SHORT, _SHORT = 0.6, 0.5, 4


class AutoMemError(Exception):
    """Base of all errors raised on purpose; `hint` says what to do about it, `exit_code` how the command ends."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(AutoMemError):
    """Bad input: names the file, key or argument. Exit code 2."""

    exit_code = 2


class NotInstalled(UsageError):
    """A package is missing on this machine, so that nothing can be said about what needs it."""


class RunError(AutoMemError):
    """The command could not do its work (disk full, port taken, episodes failed). Exit code 1."""


class ServerDied(RunError):
    """A server that was started here has ended by itself; the message has the end of its log. Exit code 3."""

    exit_code = 3


class ProposerFailure(AutoMemError):
    """A proposer of loop 1 could not do its work; the lineage says so and the best stays the best."""


class EpisodeFailure(AutoMemError):
    """The episode cannot go on; `kind` says on whose side."""

    kind: FailureKind


class ModelFailure(EpisodeFailure):
    """The model could not be asked: endpoint down, time-outs after retries, prompt too long."""

    kind: FailureKind = "model"


class EnvFailure(EpisodeFailure):
    """The environment raised, or did not come back as recorded on resume."""

    kind: FailureKind = "env"


class ScaffoldFailure(EpisodeFailure):
    """A prompt or `logic.py` of the scaffold failed; the message names file, line and step."""

    kind: FailureKind = "scaffold"


class LimitFailure(EpisodeFailure):
    """A budget of the run (calls, tokens, seconds) is used up before the game is over."""

    kind: FailureKind = "limit"


def nearest(wrong: str, names: Iterable[str]) -> str | None:
    """The name most like `wrong`, or None where none is much like it."""
    by_folded = {name.casefold(): name for name in names}
    found = get_close_matches(wrong.casefold(), by_folded, n=1, cutoff=_ALIKE_SHORT if len(wrong) <= _SHORT else _ALIKE)
    return by_folded[found[0]] if found else None


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """A hint for a wrong name: the nearest one, else all of them."""
    known = sorted(names)
    close = nearest(wrong, known)
    if close:
        return f"did you mean '{close}'?"
    return f"known: {', '.join(known)}" if known else "there are none"
