"""Going on with an unfinished episode: replay its recorded actions, without any model call.

The env is rebuilt from its seed, each observation checked against its recorded digest; memory is rebuilt
from the recorded splices. A mismatch is an error that names the step, never a silent restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from automem.agent.agent import Agent
from automem.env import Env, boundary
from automem.episode import text_digest
from automem.errors import EnvFailure
from automem.trace import Step, TraceReader


def replay(
    path: Path, env: Env, agent: Agent, observation: str, state: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any], Step]]:
    """Bring a freshly reset `env` and a fresh `agent` to where the trace at `path` ends.

    Yields for each recorded step the observation and state that follow it, and the step.

    Raises:
        EnvFailure: the env does not come back as recorded; names the step.
    """
    for step in TraceReader(path).steps():
        _compare(path, step.t, text_digest(observation), text_digest(step.observation))
        agent.memory.replay(step.memory)
        for call in step.calls:
            agent.spent.add(call)
        with boundary(f"replay of step {step.t} of {path}"):
            observation, _, _, _, info = env.step(step.action)
        _compare(path, step.t, text_digest(observation), step.next_digest)
        agent.record(step, state, observation, info["state"])
        state = info["state"]
        yield observation, state, step


def _compare(path: Path, t: int, now: str, recorded: str) -> None:
    if now != recorded:
        raise EnvFailure(
            f"{path}: at step {t} the environment shows something else than was recorded",
            "the environment or its packages have changed; --redo plays the run afresh",
        )
