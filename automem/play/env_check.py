"""`automem env check`: does an environment keep the contract of `automem.env.Env`?

Determinism is checked across processes: a child with another hash seed, and one on another date, must see
the same observations.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b

from gymnasium.utils.env_checker import check_env as gymnasium_check

from automem import env as envs
from automem.env import Env, boundary, random_actions
from automem.errors import EnvFailure, UsageError

_SEED = 42
_DATES = ("2027-08-13 23:30:00", "2031-01-07 12:00:00")


@dataclass(frozen=True)
class Report:
    """One finding; `ok` is None for what could not be checked here."""

    what: str
    ok: bool | None


def check_env(name: str, steps: int) -> list[Report]:
    """Check every task of environment `name` over `steps` random steps.

    Raises:
        UsageError: there is no such environment, or a package is missing.
    """
    return [report for task in envs.tasks(name) for report in _check_task(name, task, steps)]


def play_digest(name: str, task: str, seed: int, steps: int) -> str:
    """Digest of everything an episode of random actions shows; what the child processes print."""
    env = envs.make(name, task)
    digest = _play(env, seed, random_actions(env, seed, steps))
    env.close()
    return digest


def _check_task(name: str, task: str, steps: int) -> Iterator[Report]:
    where = f"{name}/{task}"
    try:
        env = envs.make(name, task)
    except UsageError as missing:
        yield Report(f"{where}: not checked: {'; '.join(filter(None, (missing.message, missing.hint)))}", None)
        return
    except EnvFailure as failure:
        yield Report(f"{where}: can be made: {'; '.join(filter(None, (failure.message, failure.hint)))}", False)
        return
    with closing(env):
        try:
            with boundary(where):
                yield from _findings(where, name, task, steps, env)
        except EnvFailure as failure:
            yield Report(f"{where}: plays without an error: {failure}", False)


def _findings(where: str, name: str, task: str, steps: int, env: Env) -> Iterator[Report]:
    yield _conforms(where, env)
    yield _facts(where, env, steps)
    actions = random_actions(env, _SEED, steps)
    first = _play(env, _SEED, actions)
    again = _play(env, _SEED, actions)
    yield Report(f"{where}: the same seed gives the same episode after a second reset", first == again)
    yield Report(f"{where}: another seed gives another episode", first != _play(env, _SEED + 1, actions))
    children = [_child(name, task, steps, hash_seed) for hash_seed in ("0", "12345")]
    yield Report(f"{where}: the same episode in another process, under other hash seeds", set(children) == {first})
    yield _dates(where, name, task, steps, first)


def _conforms(where: str, env: Env) -> Report:
    what = f"{where}: conforms to gymnasium"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A reward of any size and an env made without gymnasium.make are fine here.
        warnings.filterwarnings("ignore", message=".*(env.unwrapped|render).*")
        try:
            gymnasium_check(env, skip_render_check=True, skip_close_check=True)
        except (AssertionError, Warning, TypeError, ValueError) as error:
            return Report(f"{what}: {error}", False)
    return Report(what, True)


def _facts(where: str, env: Env, steps: int) -> Report:
    """Progress in [0, 1] and never falling; state of JSON values; default action known."""
    what = f"{where}: progress and state as agreed"
    if env.default_action not in env.actions:
        return Report(f"{what}: default action '{env.default_action}' is not an action", False)
    _, info = env.reset(seed=_SEED)
    progress = 0.0
    for t, action in enumerate(random_actions(env, _SEED, steps)):
        _, _, terminated, truncated, info = env.step(action)
        if not progress <= info["progress"] <= 1:
            return Report(f"{what}: progress went from {progress} to {info['progress']} at step {t}", False)
        if not _is_json(info["state"]):
            return Report(f"{what}: the state at step {t} is not made of JSON values", False)
        progress = info["progress"]
        if terminated or truncated:
            break
    return Report(what, True)


def _is_json(state: object) -> bool:
    try:
        return bool(json.loads(json.dumps(state)) == state)
    except (TypeError, ValueError):
        return False


def _play(env: Env, seed: int, actions: list[str]) -> str:
    observation, info = env.reset(seed=seed)
    hasher = blake2b(digest_size=16)
    for action in actions:
        hasher.update(json.dumps([observation, info["progress"], info["state"]], sort_keys=True).encode())
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            break
    hasher.update(observation.encode())
    return hasher.hexdigest()


def _child(name: str, task: str, steps: int, hash_seed: str, prefix: tuple[str, ...] = ()) -> str:
    code = f"from automem.play.env_check import play_digest; print(play_digest({name!r}, {task!r}, {_SEED}, {steps}))"
    environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [*prefix, sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr[-300:]}"


def _dates(where: str, name: str, task: str, steps: int, expected: str) -> Report:
    what = f"{where}: the same episode on other dates"
    faketime = shutil.which("faketime")
    if faketime is None:
        return Report(f"{what} (needs the command faketime: apt install faketime)", None)
    seen = {_child(name, task, steps, "0", (faketime, date)) for date in _DATES}
    return Report(what, seen == {expected})
