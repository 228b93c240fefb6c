"""`Job`: one entry of the scheduler's queue, made by an experiment, rendered for Slurm or run on this machine."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Command = tuple[str, ...]
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("it is made of small letters, digits, '.', '_' and '-', and begins with a letter or digit")
    return value


Name = Annotated[str, AfterValidator(_name)]


class Server(BaseModel):
    """What is served inside a job while its commands run: one server, base and adapters on one copy of the weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    adapters: dict[str, str] = {}


class Job(BaseModel):
    """What the scheduler is asked for.

    `tasks` are command lines; with more than one the job is an array. Each task writes to a run folder of its
    own, since a run folder has one writer. `needs` names jobs that must have succeeded before (for stage
    `aggregate`: have ended). Commands find the server at $AUTOMEM_RUN_BASE_URL, $AUTOMEM_EVOLVE_BASE_URL and
    $AUTOMEM_TRAIN_BASE_URL.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    stage: Literal["evaluate", "loop1", "loop2", "aggregate"]
    tasks: Annotated[tuple[Command, ...], Field(min_length=1)]
    needs: tuple[str, ...] = ()
    server: Server | None = None
    resources: str = "cpu"
