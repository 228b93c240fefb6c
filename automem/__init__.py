"""AutoMem: agents that play long games with a directory of text files as memory.

The nouns of the project, on one page:

- `EpisodeSpec`: what to play; `Trace`, `Step`, `Call`, `Result`: what happened;
- `Memory`: a directory of text files and the operations on it;
- `Scaffold`: file schema, upsert logic, prompts and budgets, as a folder;
- `Agent`: LOG, PLAN, GAMEPLAY; `Model`: messages in, completion out; `Env`: a text game;
- `RunFolder`: many episodes on disk; `Table`: their grouped results.

Names are imported on first use, so that `import automem` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from automem.agent.agent import Agent
    from automem.env import Env
    from automem.episode import EpisodeSpec, Limits, ModelSpec
    from automem.memory.files import Memory
    from automem.models.base import Completion, Model, Request
    from automem.play.folder import RunConfig, RunFolder
    from automem.play.rollout import Rollout, rollout_all, rollout_one
    from automem.results.table import Table
    from automem.scaffold.spec import Scaffold
    from automem.trace import Call, Result, Step, Trace, read_trace

_HOMES = {
    "agent.agent": ("Agent",),
    "env": ("Env",),
    "episode": ("EpisodeSpec", "Limits", "ModelSpec"),
    "memory.files": ("Memory",),
    "models.base": ("Completion", "Model", "Request"),
    "play.folder": ("RunConfig", "RunFolder"),
    "play.rollout": ("Rollout", "rollout_all", "rollout_one"),
    "results.table": ("Table",),
    "scaffold.spec": ("Scaffold",),
    "trace": ("Call", "Result", "Step", "Trace", "read_trace"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "Call",
    "Completion",
    "Env",
    "EpisodeSpec",
    "Limits",
    "Memory",
    "Model",
    "ModelSpec",
    "Request",
    "Result",
    "Rollout",
    "RunConfig",
    "RunFolder",
    "Scaffold",
    "Step",
    "Table",
    "Trace",
    "read_trace",
    "rollout_all",
    "rollout_one",
]


def __getattr__(name: str) -> Any:
    """Import a noun when it is first asked for."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'automem' has no attribute '{name}'")
    return getattr(import_module(f"automem.{_HOME_OF[name]}"), name)
