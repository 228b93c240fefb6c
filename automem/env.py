"""The contract of an environment: a gymnasium env of strings that tells progress and parsed facts.

An environment is a folder `envs/<name>/` whose `__init__.py` exposes `TASKS` (task names, the first is
the default) and `make(task, **options) -> Env`.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
#: What is often taken for an option of an environment, and where it belongs.
_ELSEWHERE = {
    "seed": "seeds are no option of an environment; a run has them from --seeds",
    "seeds": "seeds are no option of an environment; a run has them from --seeds",
    "task": "the task is part of the game's name: ENV/TASK",
    "max_steps": "a run has its limit of steps from --max-steps",
}
_FORM = 'an environment has TASKS, such as ("default",), and make(task)'
#: Characters of a wrong value that an error shows.
_SHOWN = 60
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

    def check_seeds(self, seeds: Iterable[int]) -> None:
        """Raise UsageError if the game of one of `seeds` cannot be played; called before a run, no game begins."""

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


def make(name: str, task: str | None = None, /, **options: Any) -> Env:
    """Make environment `name` for `task` (None: its default task).

    Raises:
        UsageError: unknown environment, task or option.
        EnvFailure: the environment's own code raised something else, or made none.
    """
    if task:
        check_task(name, task)
    module = _module(name)
    if "task" in options:
        raise _no_option(name, "task", ())
    task = task or str(module.TASKS[0])
    with boundary(f"making {name}/{task}"):
        env: Env = module.make(task, **options)
    if not isinstance(env, Env):
        raise EnvFailure(f"environment '{name}': make('{task}') gave {shown(env)}", "it must give an automem.env.Env")
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
            raise _no_option(env, name, known)
        wanted = type(known[name])
        if wanted in _KINDS and type(value) is not wanted and not (wanted is float and type(value) is int):
            message = f"{env}: {name} must be {_KINDS[wanted]}, not {shown(value)}"
            raise UsageError(message, _how_to_write(name, known[name], value))
    return replace(base, **given)


def _no_option(env: str, name: str, known: Iterable[str]) -> UsageError:
    return UsageError(f"environment '{env}' has no option '{name}'", _ELSEWHERE.get(name) or did_you_mean(name, known))


def for_example(name: str, default: Any) -> str:
    """A hint for a wrong value of option `name`."""
    return f"for example {name}={str(default).lower() if isinstance(default, bool) else default}"


def shown(value: Any) -> str:
    """A wrong value as an error shows it: as it was written, not as Python has it."""
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _how_to_write(name: str, default: Any, value: Any) -> str:
    if isinstance(default, str) and not isinstance(value, bool | list | dict | None):
        return f"in quotes it is a text: {name}='\"{value}\"'"
    return for_example(name, default) if default != "" else f"leave {name} out, or give it a text"


def _module(name: str) -> Any:
    folder = plugins.find(plugins.ENV, name)
    try:
        module = plugins.load_module(folder)
    except ModuleNotFoundError as missing:
        if missing.name and not missing.name.startswith(plugins.PRIVATE):
            hint = "pip install 'automem[envs]'"
            raise NotInstalled(f"environment '{name}' needs the package '{missing.name}'", hint) from missing
        raise _cannot_load(folder, missing) from missing
    except AutoMemError:
        raise
    except Exception as error:  # its own code may raise anything
        raise _cannot_load(folder, error) from error
    for wanted in ("TASKS", "make"):
        if not getattr(module, wanted, None):
            raise UsageError(f"{folder / '__init__.py'} defines no {wanted}", _FORM)
    if not _are_names(module.TASKS):
        raise UsageError(f"{folder / '__init__.py'}: TASKS is {shown(module.TASKS)}, no tuple of names", _FORM)
    return module


def _are_names(tasks: object) -> bool:
    """Whether these can be written as the TASK of ENV/TASK."""
    return isinstance(tasks, tuple | list) and all(isinstance(task, str) and task and "/" not in task for task in tasks)


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
