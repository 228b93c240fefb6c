"""`DeskEnv`: the world of Desk as an environment of AutoMem. Its actions are commands with arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from automem.env import ActionSpace, Env, TextSpace

from . import text
from .tasks import WORKS, DeskTask
from .world import World

_REFUSED = "error: the token is not valid for {service}"


class CommandSpace(ActionSpace):
    """The space of commands: `contains` takes any arguments, `sample` gives the forms, arguments by their names."""

    def __init__(self, env: DeskEnv) -> None:
        self._env = env
        super().__init__(env.actions)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a command with as many arguments as it takes."""
        return isinstance(x, str) and self._env.find_action(x) is not None


class DeskEnv(Env):
    """Serve requests with commands; `progress` is requests served / requests.

    `actions` are the forms of the commands (`login SERVICE PASSWORD`); `find_action` and `step` take any command
    of such a form. The reward is 1 for each request served. The episode terminates when all are, and is
    truncated at `max_steps`. `world` is the game's inside, for tests; an agent sees the text alone.
    """

    default_action = "wait"
    takes_arguments = True

    def __init__(self, task: DeskTask) -> None:
        self.task = task
        works = list(WORKS)[: task.works]
        forms = {
            "wait": "",
            "letter": "",
            "login": "SERVICE PASSWORD",
            "open": "TOKEN FIRSTNAME LASTNAME",
            "find": "TOKEN FIRSTNAME LASTNAME",
            "cases": "TOKEN PAGE",
            **dict.fromkeys(works, "TOKEN CASE FOLDER"),
            "attach": "TOKEN CASE FOLDER DOCUMENT",
        }
        self.actions = tuple(f"{name} {arguments}".rstrip() for name, arguments in forms.items())
        self.instructions = text.instructions(task, works)
        self.max_steps = task.horizon
        self.action_space = CommandSpace(self)
        self.observation_space = TextSpace()
        self.world: World | None = None
        self._arguments = {name: len(arguments.split()) for name, arguments in forms.items()}
        self._seed = 0
        self._steps = 0

    def find_action(self, text: str) -> str | None:
        """The command that `text` is, in its plain form, or None: unknown, or too few or too many arguments."""
        name, *arguments = text.strip().strip("`").split() or [""]
        name = name.casefold()
        return " ".join([name, *arguments]) if self._arguments.get(name) == len(arguments) else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin the game of `seed`; without one, of a number drawn from `np_random`."""
        super().reset(seed=seed)
        self._seed = seed if seed is not None else int(self.np_random.integers(2**31))
        self.world = World(self.task, self._seed)
        self._steps = 0
        return text.observation(self.world, text.letter(self.world)), _info(self.world)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do `action`, a command.

        Raises:
            ValueError: no such command.
        """
        command = self.find_action(action)
        if command is None:
            raise ValueError(f"desk has no command {action!r}; commands: {', '.join(self.actions)}")
        assert self.world is not None, "reset() comes before step()"
        world, before = self.world, self.world.served
        draw = Random(f"desk/{self._seed}/noise/{self._steps}")
        name, *arguments = command.split()
        answer = f"> {name}\n{self._answer(world, name, arguments, draw)}\n{text.noise(self.task, draw)}".rstrip()
        self._steps += 1
        terminated = world.request is None
        truncated = not terminated and self._steps >= self.max_steps
        return text.observation(world, answer), float(world.served - before), terminated, truncated, _info(world)

    def _answer(self, world: World, name: str, arguments: Sequence[str], draw: Random) -> str:
        if name == "wait":
            return "Nothing happens."
        if name == "letter":
            return text.letter(world)
        if name == "login":
            token = world.login(*arguments)
            return f"Token for {arguments[0]}: {token}." if token else "error: no such service, or a wrong password"
        token, *rest = arguments
        service = self.task.service({"find": "attach"}.get(name, name)) if name not in ("open", "cases") else "desk"
        if not world.valid(service, token):
            return _REFUSED.format(service=service)
        asked: dict[str, Callable[[], str]] = {
            "open": lambda: _open(world, " ".join(rest)),
            "find": lambda: text.listing(world, " ".join(rest), draw),
            "cases": lambda: _cases(world, rest[0]),
        }
        return asked[name]() if name in asked else _work(world, name, rest)


def _open(world: World, name: str) -> str:
    case = world.open(name)
    return text.issued(case) if case else f"error: no case is to be opened for {name} now"


def _cases(world: World, page: str) -> str:
    if not (page.isascii() and page.isdigit() and 1 <= int(page) <= world.pages):
        return f"error: the register has pages 1 to {world.pages}"
    return text.register_page(world, int(page))


def _work(world: World, work: str, arguments: Sequence[str]) -> str:
    case = world.work(work, *arguments)
    return f"{work}: done." if case else f"error: {work}: case, folder or document are not those of the request"


def _info(world: World) -> dict[str, Any]:
    """`progress` and `state`; `state` says what the text says, and whether every case is as it should be."""
    request = world.request
    state = {
        "request": {"work": request.work, "name": request.name, "document": request.document} if request else None,
        "served": world.served,
        "requests": len(world.requests),
        "services": sorted(world.tokens),
        "solved": world.solved,
    }
    return {"progress": world.served / len(world.requests), "state": state}
