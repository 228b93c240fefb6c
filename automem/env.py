"""The contract of an environment: a gymnasium env of strings that tells progress and parsed facts.

An environment is a folder `envs/<name>/` whose `__init__.py` exposes `TASKS` (task names, the first is
the default) and `make(task, **options) -> Env`.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium
from gymnasium import spaces

from automem import plugins
from automem.errors import AutoMemError, EnvFailure, NotInstalled, UsageError, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")

#: Types of options, as they are called in errors.
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
#: Longest observation, in characters, that an environment may give.
MAX_OBSERVATION = 16_384


class ActionSpace(spaces.Space[str]):
    """The space of an environment's action names."""

    def __init__(self, names: Sequence[str], seed: int | None = None) -> None:
        self.names = tuple(names)
        super().__init__(shape=(), dtype=None, seed=seed)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A random action name; masks are not supported."""
        return self.names[int(self.np_random.integers(len(self.names)))]

    def contains(self, x: Any) -> bool:
        """Whether `x` is an action name."""
        return x in self.names


class TextSpace(spaces.Space[str]):
    """The space of observations: any text of at most `MAX_OBSERVATION` characters."""

    def __init__(self) -> None:
        super().__init__(shape=(), dtype=None)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """The empty text; observations are not sampled."""
        return ""

    def contains(self, x: Any) -> bool:
        """Whether `x` is a text that is not too long."""
        return isinstance(x, str) and len(x) <= MAX_OBSERVATION


class Env(gymnasium.Env[str, str]):
    """A text game.

    `reset(seed=…)` and `step(action)` return what gymnasium asks for, and in `info`:

    - `progress`: float in [0, 1], never falling within an episode;
    - `state`: facts parsed from the game, JSON values only. `position` (a list of ints), where there is
      one, is what the history helpers count visits by.

    The same seed and actions give the same episode in any process, under any hash seed, on any date.
    """

    #: What the game is, its rules and its goal, for the system prompt. Static for one env object.
    instructions: str
    #: The names that `step` accepts.
    actions: tuple[str, ...]
    #: Whether `actions` are forms of commands with arguments, of which `step` accepts many more.
    takes_arguments: bool = False
    #: Executed when the model has produced no valid action.
    default_action: str
    #: The environment's own limit on steps; the episode is truncated there.
    max_steps: int

    def close(self) -> None:
        """Give back what the game holds; most hold nothing."""

    def find_action(self, text: str) -> str | None:
        """The action that `text` names, or None. Case, spaces and underscores do not matter."""
        wanted = _fold(text)
        return next((name for name in self.actions if _fold(name) == wanted), None)


def _fold(text: str) -> str:
    return " ".join(text.casefold().replace("_", " ").split())


def tasks(name: str) -> tuple[str, ...]:
    """The tasks of environment `name`, default first."""
    return tuple(_module(name).TASKS)


def split_game(game: str) -> tuple[str, str | None]:
    """The environment and the task (None: not named) of ENV or ENV/TASK; ENV may be the path of a folder.

    A path comes back absolute, so that it means the same wherever a run is gone on with.

    Raises:
        UsageError: there is a slash and no task after it, or a path and no environment there.
    """
    folder, slash, last = game.rpartition("/")
    if plugins.is_folder(plugins.ENV, game):
        return str(plugins.find(plugins.ENV, game)), None
    if plugins.is_folder(plugins.ENV, f"{folder}/") and last:
        return str(plugins.find(plugins.ENV, f"{folder}/")), last
    env, _, task = game.partition("/")
    if env in ("", ".", ".."):
        raise UsageError(f"no environment at '{game}'", f"an environment is a folder with a file {plugins.ENV.marker}")
    if slash and not task:
        raise UsageError(f"'{game}' names no task", f"write {env}/TASK, or {env} for all tasks")
    return env, task or None


def make(name: str, task: str | None = None, **options: Any) -> Env:
    """Make environment `name` for `task` (None: its default task).

    Raises:
        UsageError: unknown environment, task or option.
    """
    if task:
        check_task(name, task)
    module = _module(name)
    env: Env = module.make(task or module.TASKS[0], **options)
    return env


def check_task(name: str, task: str) -> None:
    """Raise what `make` would raise about these names; no game is made.

    Raises:
        NotInstalled: the environment needs a package that is not here.
        UsageError: unknown environment or task.
    """
    known = tasks(name)
    if task not in known:
        raise UsageError(f"environment '{name}' has no task '{task}'", did_you_mean(task, known))


def with_options(env: str, base: Options, given: Mapping[str, Any]) -> Options:
    """The options `base` of an environment, a dataclass, with those `given` in place of its own.

    A value must have the type of what it replaces; one that replaces None is for the dataclass itself to check.

    Raises:
        UsageError: an option that does not exist, of the wrong type, or (from the dataclass) out of range.
    """
    known = {field.name: getattr(base, field.name) for field in fields(base)}
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"environment '{env}' has no option '{name}'", did_you_mean(name, known))
        wanted = type(known[name])
        if wanted in _KINDS and type(value) is not wanted and not (wanted is float and type(value) is int):
            raise UsageError(f"{env}: {name} must be {_KINDS[wanted]}, not {value!r}")
    return replace(base, **given)


def _module(name: str) -> Any:
    folder = plugins.find(plugins.ENV, name)
    try:
        module = plugins.load_module(folder)
    except ModuleNotFoundError as missing:
        if missing.name and not missing.name.startswith(plugins.PRIVATE):
            hint = "pip install 'automem[envs]'"
            raise NotInstalled(f"environment '{name}' needs the package '{missing.name}'", hint) from missing
        raise _cannot_load(folder, missing) from missing
    except (ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError) as error:
        raise _cannot_load(folder, error) from error
    for wanted in ("TASKS", "make"):
        if not getattr(module, wanted, None):
            raise UsageError(f"{folder / '__init__.py'} defines no {wanted}", "an environment has TASKS and make(task)")
    return module


def _cannot_load(folder: Path, error: Exception) -> UsageError:
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
    else:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(str(folder))]
        place = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else str(folder)
    return UsageError(f"environment '{folder.name}' cannot be loaded: {place}: {type(error).__name__}: {error}")


@contextmanager
def boundary(where: str) -> Iterator[None]:
    """Whatever the environment's own code raises is a failure of this episode, and of no other."""
    try:
        yield
    except AutoMemError:
        raise
    except Exception as error:  # games bring exception classes of their own
        raise EnvFailure(f"{type(error).__name__} in {where}: {error}") from error


def random_actions(env: Env, seed: int, count: int) -> list[str]:
    """`count` action names drawn with `seed`: what the checks play."""
    draw = random.Random(seed)
    return [draw.choice(env.actions) for _ in range(count)]
