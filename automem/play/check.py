"""`automem scaffold check`: does a scaffold work, before anything is paid for it?

It loads; its prompts render on real observations; its logic runs in the sandbox within its limits; and each
phase's prompt opens under the heading by which scripted policies and trace readers know it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from automem import env as envs
from automem.agent.agent import Agent
from automem.episode import EpisodeSpec, ModelSpec, text_digest
from automem.errors import ScaffoldFailure
from automem.messages import Message
from automem.models import scripted
from automem.models.base import Completion, Model, Request
from automem.scaffold.spec import Scaffold
from automem.trace import Call, Step

T = TypeVar("T")

#: Where a scaffold for any environment is tried.
_ANY = "courier"
_STEPS = 12


def check_scaffold(scaffold: Scaffold, game: str | None = None) -> str:
    """Play a few steps with scripted models, sound and broken ones; returns one line about what was seen.

    It is played in `game`, else in the environment it is for.

    Raises:
        ScaffoldFailure: a prompt or the logic failed; names file, line and step.
        UsageError: the environment that the scaffold is for is not there.
    """
    env = game or scaffold.spec.env or _ANY
    task = envs.tasks(env)[0]
    sizes: list[int] = []
    for policy in ("null", "random", "malformed"):
        calls = asyncio.run(_play(scaffold, env, task, _Checked(scaffold, scripted.make(policy))))
        sizes += [sum(len(message["content"]) for message in call.messages) for call in calls]
    phases = "log and plan" if scaffold.spec.operations.log else "plan"
    return f"{phases} on {env}/{task}, prompts of {min(sizes)} to {max(sizes)} characters"


async def _play(scaffold: Scaffold, env_name: str, task: str, model: Model) -> list[Call]:
    """The calls of a short episode, played without a run folder."""
    spec = EpisodeSpec(
        env=env_name,
        task=task,
        seed=0,
        scaffold=scaffold.name,
        scaffold_digest=scaffold.digest,
        models={"gameplay": ModelSpec(name=model.name)},
    )
    env = envs.make(env_name, task)
    agent = Agent(spec, scaffold, env, {"gameplay": model}, _inline)
    observation, info = env.reset(seed=0)
    agent.history.start(info["state"])
    calls: list[Call] = []
    for t in range(_STEPS):
        decision = await agent.act(observation, info["state"])
        calls += decision.calls
        state = info["state"]
        after, reward, terminated, truncated, info = env.step(decision.action)
        step = Step(
            t=t,
            observation=observation,
            calls=decision.calls,
            proposed=decision.proposed,
            action=decision.action,
            fallback=decision.fallback,
            reward=float(reward),
            progress=info["progress"],
            next_digest=text_digest(after),
        )
        agent.record(step, state, after, info["state"])
        observation = after
        if terminated or truncated:
            break
    env.close()
    return calls


async def _inline(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    return function(*args, **kwargs)


class _Checked:
    """A model that is asked only what opens under its phase's heading."""

    def __init__(self, scaffold: Scaffold, model: Model) -> None:
        self.name = model.name
        self._scaffold = scaffold
        self._model = model

    async def generate(self, messages: Sequence[Message], request: Request) -> Completion:
        heading = f"# {request.phase.upper()}"
        lines = (line for m in messages if m["role"] == "user" for line in m["content"].splitlines())
        if not any(line.startswith(heading) for line in lines):
            raise ScaffoldFailure(
                f"scaffold '{self._scaffold.name}': prompts/{request.phase}.j2 has no line '{heading}'",
                "scripted policies and trace readers find the phase by it",
            )
        return await self._model.generate(messages, request)

    async def close(self) -> None:
        await self._model.close()
