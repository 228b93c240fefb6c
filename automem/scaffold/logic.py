"""`logic.py` of a scaffold, run in pydantic-monty: no files, network, processes, clock or chance.

Every call gets a fresh session with the source and its arguments, so nothing can leak from one call, step
or episode into another whatever the code tries. Limits hold per call; a fault is a `ScaffoldFailure` that
names line and step.
"""

from __future__ import annotations

import ast
import atexit
import datetime
import os
from functools import cache
from typing import Any

import pydantic_monty as monty

from automem.errors import ScaffoldFailure

#: The functions a `logic.py` may define, with their arguments.
FUNCTIONS = {
    "observe": ("state", "history"),
    "upsert": ("file", "rows", "entry"),
    "auto_files": ("state", "history", "files"),
    "guard": ("action", "state", "history"),
    "repair": ("action",),
}
_LIMITS: monty.ResourceLimits = {
    "max_feed_duration_secs": 1.0,
    "max_memory": 64 * 2**20,
    "max_recursion_depth": 200,
    "max_suspensions": 100,
}
_POLICY: monty.OSPolicy = {
    "datetime": datetime.datetime(2000, 1, 1),
    "sleep": "zero",
    "process_time": "zero",
    "random_start": {"seed": 0},
}
_PRINTED_BYTES = 65_536
#: Characters of what a function returns: a reason or an action, and all texts of a dict together. They go into
#: prompts, memory and traces.
_SAID = 2_000
_TEXTS = 500_000
#: Actions whose repair is remembered. Models name few different ones; where they do not, remembering starts afresh.
_REMEMBERED = 1_000


class Logic:
    """The functions of one `logic.py`."""

    def __init__(self, scaffold: str, source: str | None) -> None:
        """Raises ScaffoldFailure when the source is not Python or a function takes other arguments."""
        self._scaffold = scaffold
        self._source = source or ""
        self.functions = self._declared()
        #: What `repair` made of an action. In the sandbox the same action is always repaired the same way.
        self.repaired: dict[str, str] = {}

    def call(self, function: str, *args: Any, step: int) -> Any:
        """The value of `function(*args)`, computed in a fresh sandbox session.

        Raises:
            ScaffoldFailure: the code raised, ran over a limit, or returned what cannot leave the sandbox.
        """
        code = f"{self._source}\n{function}(*_arguments)"
        try:
            with _pool().checkout(script_name="logic.py", limits=_LIMITS, os_policy=_POLICY) as session:
                printed = monty.CollectString(_PRINTED_BYTES)
                return session.feed_run(code, inputs={"_arguments": list(args)}, print_callback=printed)
        except monty.MontyError as error:
            raise self._failure(f"in {function}, step {step}: {error}", _line(error)) from error

    def observe(self, state: Any, history: Any, step: int) -> dict[str, str]:
        """Computed blocks of text for the prompts."""
        return self._texts("observe", state, history, step=step)

    def auto_files(self, state: Any, history: Any, files: dict[str, str], step: int) -> dict[str, str]:
        """New contents of `auto` files."""
        return self._texts("auto_files", state, history, files, step=step)

    def guard(self, action: str, state: Any, history: Any, step: int) -> str | None:
        """Why `action` should not be taken now, or None."""
        reason = self.call("guard", action, state, history, step=step)
        if reason is not None and not isinstance(reason, str):
            raise self._wrong("guard", reason, "a text or None", step)
        self._check_size("guard", len(reason or ""), _SAID, step)
        return reason

    def repair(self, action: str, step: int) -> str:
        """The action that was meant; kept in `repaired`."""
        repaired = self.call("repair", action, step=step)
        if not isinstance(repaired, str):
            raise self._wrong("repair", repaired, "a text", step)
        self._check_size("repair", len(repaired), _SAID, step)
        if len(self.repaired) == _REMEMBERED:
            self.repaired.clear()
        self.repaired[action] = repaired
        return repaired

    def _texts(self, function: str, *args: Any, step: int) -> dict[str, str]:
        value = self.call(function, *args, step=step)
        if not isinstance(value, dict) or not all(isinstance(x, str) for pair in value.items() for x in pair):
            raise self._wrong(function, value, "a dict of texts", step)
        self._check_size(function, sum(len(x) for pair in value.items() for x in pair), _TEXTS, step)
        return value

    def _check_size(self, function: str, size: int, most: int, step: int) -> None:
        if size > most:
            raise self._failure(f"in {function}, step {step}: returned {size} characters, at most {most} are allowed")

    def _wrong(self, function: str, value: Any, expected: str, step: int) -> ScaffoldFailure:
        return self._failure(f"in {function}, step {step}: returned {type(value).__name__}, expected {expected}")

    def _declared(self) -> frozenset[str]:
        try:
            tree = ast.parse(self._source)
        except SyntaxError as error:
            raise self._failure(f"{error.msg}", error.lineno) from error
        except (MemoryError, RecursionError) as error:
            raise self._failure("nested too deep") from error
        found = set()
        for node in tree.body:
            if name := _bound_otherwise(node):
                raise self._failure(f"{name} must be defined by `def {name}(…)`", node.lineno)
            if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS:
                names = tuple(arg.arg for arg in node.args.args)
                if names != FUNCTIONS[node.name]:
                    expected = ", ".join(FUNCTIONS[node.name])
                    raise self._failure(f"{node.name} takes ({expected}), not ({', '.join(names)})", node.lineno)
                found.add(node.name)
        return frozenset(found)

    def _failure(self, what: str, line: int | None = None) -> ScaffoldFailure:
        place = f"logic.py, line {line}, " if line else "logic.py, "
        return ScaffoldFailure(f"scaffold '{self._scaffold}': {place}{what}")


def _bound_otherwise(node: ast.stmt) -> str | None:
    """A name of `FUNCTIONS` that `node` binds to something else than a plain function."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    if isinstance(node, (ast.AsyncFunctionDef, ast.ClassDef)):
        names.append(node.name)
    return next((name for name in names if name in FUNCTIONS), None)


@cache
def _pool() -> monty.Monty:
    """One pool of sandbox workers per process, started at the first call."""
    pool = monty.Monty(max_processes=os.cpu_count())
    pool.__enter__()
    atexit.register(pool.__exit__, None, None, None)
    return pool


def _line(error: monty.MontyError) -> int | None:
    frames = error.traceback() if isinstance(error, (monty.MontyRuntimeError, monty.MontySyntaxError)) else []
    return frames[-1].line if frames else None
