"""`experiment.yaml`: what an experiment is made of.

    games   what is played: environment, tasks, seeds
    agents  who plays it: scaffold, model, perhaps another for memory
    stages  evaluate, loop1, loop2: each lists games and agents, which multiply out into cells

Fields: `docs/experiments.md`.
"""

from __future__ import annotations

import random
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from automem.config import parse_seeds
from automem.episode import Limits
from automem.errors import UsageError
from automem.launch.job import Name

#: Stands for the folder that the experiment writes to.
OUT = "{out}"


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _flat(value: Any) -> Any:
    """Nested keys as dotted ones, so that `-s agents.v1.set.budget.history=8` adds to the others of that agent."""
    if not isinstance(value, dict):
        return value
    found = {}
    for key, one in value.items():
        inner = _flat(one)
        deep = isinstance(inner, dict) and inner
        found.update({f"{key}.{name}": last for name, last in inner.items()} if deep else {key: one})
    return found


#: Dotted keys and their values, as `-s` takes them.
Keys = Annotated[dict[str, Any], BeforeValidator(_flat)]

#: Seeds as text; YAML reads a single one as a number.
SeedText = Annotated[str, Field(coerce_numbers_to_str=True)]


class Draw(_Strict):
    """Seeds drawn at random without repetition: `random.Random(rng).sample` of those in `within`, `without` some."""

    draw: int = Field(ge=1, description="How many.")
    rng: int = Field(description="Seed of the draw.")
    within: SeedText = Field(description="Where they come from, e.g. 1000-99999.")
    without: SeedText | None = Field(None, description="Seeds that are left out.")


Seeds = SeedText | Draw


class Game(_Strict):
    """What is played."""

    play: str = Field(description="ENV or ENV/TASK; without a task, all tasks of the environment.")
    seeds: Seeds = Field(description="Such as 42-51, or a draw.")
    limits: Limits = Field(Limits(), description="Hard stops of an episode.")
    options: dict[str, Any] = Field({}, description="Keyword arguments of the environment.")

    @property
    def env(self) -> str:
        """The name of the environment."""
        return self.play.partition("/")[0]


class ModelChoice(_Strict):
    """A model; one of kind `openai` is served in the job, or elsewhere where the cluster says so."""

    name: str = Field(description="scripted:NAME, local:PATH or openai:MODEL.")
    settings: dict[str, Any] = Field({}, description="How it is asked: temperature, max_tokens, timeout, retries, …")


class Adapter(_Strict):
    """A memory specialist: a LoRA adapter that is served on an agent's model."""

    path: str = Field(description="Its folder; {out} is the folder of this experiment.")
    made_by: str = Field(description="The command that makes it.")


ByEnv = str | dict[str, str]
SeedsByEnv = SeedText | dict[str, SeedText]


class AgentChoice(_Strict):
    """Who plays. What is a mapping here is by environment."""

    scaffold: ByEnv = Field(description="By name or path.")
    model: str = Field("base", description="One of `models`.")
    memory: ByEnv | None = Field(None, description="One of `models` or `adapters`, for the memory role.")
    set: Keys = Field({}, description="Keys of scaffold.yaml that are set otherwise; nested ones add to what is there.")


class Stage(_Strict):
    """What all stages have."""

    games: list[str] = Field(min_length=1, description="Some of `games`.")
    agents: list[str] = Field(min_length=1, description="Some of `agents`; loop1 starts from each, loop2 trains each.")
    jobs: int = Field(8, ge=1, description="Episodes in flight.")
    needs: list[Name] = Field([], description="Stages that must have succeeded before.")
    resources: str | None = Field(
        None, description="A class of resources of the cluster. [cpu; with a server serve, for loop2 train]"
    )


class Evaluate(Stage):
    """Play every game with every agent."""

    do: Literal["evaluate"]
    split: int = Field(1, ge=1, description="Run folders that the seeds of a cell are dealt to; each is a task.")


class Loop1(Stage):
    """Rewrite the agents' scaffolds."""

    do: Literal["loop1"]
    gate_seeds: SeedsByEnv
    report_seeds: SeedsByEnv
    proposer: Literal["rules", "openai", "command", "recorded"] = "rules"
    proposer_model: str | None = None
    gate: Literal["paired", "mean"] = "paired"
    allow: list[str] | None = Field(None, description="Kinds of change that may occur. [all]")
    control: bool = Field(False, description="Play the start twice to see the noise.")
    revisions: int = Field(5, ge=1)
    set: Keys = Field({}, description="Further keys: loop.*, gate.*, proposer.*.")


class Loop2(Stage):
    """Train a memory specialist on the run folders that stage `runs` has for the same games and agents."""

    do: Literal["loop2"]
    runs: Name
    recipe: ByEnv
    report_seeds: SeedsByEnv
    gate_seeds: SeedsByEnv | None = None
    iterations: int = Field(1, ge=1)
    select: Literal["rules", "judge", "all"] | None = None
    judge: str | None = None
    engine: str = "rules"
    set: Keys = Field({}, description="Further keys: selection.*, lora.*, gate.*.")


AnyStage = Annotated[Evaluate | Loop1 | Loop2, Field(discriminator="do")]


class ExperimentSpec(_Strict):
    """`experiment.yaml`."""

    about: str = Field(description="One line.")
    models: dict[Name, str | ModelChoice] = Field(min_length=1)
    adapters: dict[Name, Adapter] = {}
    games: dict[Name, Game] = Field(min_length=1)
    agents: dict[Name, AgentChoice] = Field(min_length=1)
    stages: dict[Name, AnyStage] = Field(min_length=1)
    variants: dict[Name, dict[str, Any]] = Field({}, description="Named changes, by dotted key: NAME@VARIANT.")

    def model(self, name: str) -> ModelChoice:
        """One of `models`."""
        found = self.models[name]
        return ModelChoice(name=found) if isinstance(found, str) else found


def seeds_of(seeds: Seeds, key: str) -> list[int]:
    """The seeds that are meant; errors name `key`.

    Raises:
        UsageError: not of that form, or more are drawn than there are.
    """
    if isinstance(seeds, str):
        return parse_seeds(seeds, key)
    out = set(parse_seeds(seeds.without, f"{key}.without")) if seeds.without else set()
    pool = [seed for seed in parse_seeds(seeds.within, f"{key}.within") if seed not in out]
    if seeds.draw > len(pool):
        raise UsageError(f"{key}.draw: {seeds.draw} seeds of {len(pool)}", "draw fewer, or from more")
    return random.Random(seeds.rng).sample(pool, seeds.draw)


def by_env(choice: ByEnv, env: str) -> str | None:
    """What is chosen for `env`; None where a mapping has nothing for it."""
    return choice if isinstance(choice, str) else choice.get(env)


def stage_needs(stage: Evaluate | Loop1 | Loop2) -> tuple[str, ...]:
    """The stages that must have succeeded before; loop2 needs that with its runs."""
    own = [stage.runs] if isinstance(stage, Loop2) else []
    return tuple(dict.fromkeys([*own, *stage.needs]))
