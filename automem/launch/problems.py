"""What is wrong with an experiment that its schema alone cannot see: names of nothing, seeds with two uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import combinations

from automem import plugins
from automem.config import parse_seeds
from automem.errors import UsageError, did_you_mean
from automem.launch.schema import (
    OUT,
    AgentChoice,
    AnyStage,
    ByEnv,
    Evaluate,
    ExperimentSpec,
    Loop1,
    Loop2,
    by_env,
    seeds_of,
    stage_needs,
)

#: The stage that every experiment ends with.
TABLE = "table"
#: Names that stages cannot have: the last stage, and what else stands in the folder of a launch.
_RESERVED = (TABLE, "jobs", "snapshot")
#: What is wrong, and what to do about it.
Problem = tuple[str, str | None]


def first_problem(spec: ExperimentSpec) -> Problem | None:
    """What is wrong with `spec`, of several things the first; None if nothing is."""
    try:
        return next(_problems(spec), None)
    except UsageError as error:
        return error.message, error.hint


def _problems(spec: ExperimentSpec) -> Iterator[Problem]:
    """Causes come before what follows from them."""
    for name, game in spec.games.items():
        yield from _unknown(f"games.{name}.play", [game.env], plugins.available(plugins.ENV))
        seeds_of(game.seeds, f"games.{name}.seeds")
    for name, agent in spec.agents.items():
        yield from _of_agent(spec, f"agents.{name}", agent)
    for name, stage in spec.stages.items():
        if name in _RESERVED:
            yield f"stages: '{name}' is a name of the launcher's own", "choose another"
        yield from _of_stage(spec, f"stages.{name}", stage)
    if circle := _circle(spec):
        yield f"stages need each other: {' -> '.join(circle)}", None


def _of_agent(spec: ExperimentSpec, where: str, agent: AgentChoice) -> Iterator[Problem]:
    yield from _unknown(f"{where}.model", [agent.model], spec.models)
    envs = {game.env for game in spec.games.values()}
    yield from _unknown(f"{where}.scaffold", agent.scaffold if isinstance(agent.scaffold, dict) else (), envs)
    yield from _unknown(f"{where}.memory", agent.memory if isinstance(agent.memory, dict) else (), envs)
    yield from _unknown(f"{where}.memory", _choices(agent.memory), [*spec.models, *spec.adapters])
    for scaffold in _choices(agent.scaffold):
        if scaffold.startswith(OUT):
            continue
        try:
            plugins.find(plugins.SCAFFOLD, scaffold)
        except UsageError as error:
            yield f"{where}.scaffold: {error.message}", error.hint


def _of_stage(spec: ExperimentSpec, where: str, stage: AnyStage) -> Iterator[Problem]:
    yield from _unknown(f"{where}.games", stage.games, spec.games)
    yield from _unknown(f"{where}.agents", stage.agents, spec.agents)
    yield from _unknown(f"{where}.needs", stage.needs, spec.stages)
    yield from _pairs(spec, where, stage)
    yield from _served(spec, where, stage)
    if isinstance(stage, Loop2):
        yield from _of_source(spec, where, stage)
    if isinstance(stage, Loop1 | Loop2):
        for game in stage.games:
            yield from _of_seeds(spec, where, stage, game)


def _pairs(spec: ExperimentSpec, where: str, stage: AnyStage) -> Iterator[Problem]:
    """Every agent of a stage must be able to play every game of it."""
    for agent in stage.agents:
        choice = spec.agents[agent]
        if isinstance(stage, Loop1) and choice.memory:
            yield f"{where}.agents: '{agent}' has a memory model, and loop1 plays with one model", "take another agent"
        for env in dict.fromkeys(spec.games[game].env for game in stage.games):
            for field in ("scaffold", "memory"):
                value: ByEnv | None = getattr(choice, field)
                if value is not None and by_env(value, env) is None:
                    yield f"{where}: agent '{agent}' has no {field} for {env}", f"add it to agents.{agent}.{field}"


def _served(spec: ExperimentSpec, where: str, stage: AnyStage) -> Iterator[Problem]:
    """A job has one server, and that one model."""
    agents = [spec.agents[agent] for agent in stage.agents]
    names = {agent.model for agent in agents}
    names |= {name for agent in agents for name in _choices(agent.memory) if name in spec.models}
    models = {spec.model(name).name for name in names}
    served = sorted(model for model in models if model.startswith("openai:"))
    if len(served) > 1:
        yield f"{where}: its agents have the models {', '.join(served)}, but a job serves one", "make two stages"


def _of_source(spec: ExperimentSpec, where: str, stage: Loop2) -> Iterator[Problem]:
    """Loop 2 learns from runs of the same games and agents."""
    yield from _unknown(f"{where}.runs", [stage.runs], spec.stages)
    source = spec.stages[stage.runs]
    if not isinstance(source, Evaluate):
        yield f"{where}.runs: '{stage.runs}' does not evaluate", "name a stage with `do: evaluate`"
    for field in ("games", "agents"):
        for name in getattr(stage, field):
            if name not in getattr(source, field):
                yield f"{where}.{field}: '{name}' is not in stage '{stage.runs}'", f"add it to stages.{stage.runs}"


def _of_seeds(spec: ExperimentSpec, where: str, stage: Loop1 | Loop2, game: str) -> Iterator[Problem]:
    """Seeds that are trained on, decided on and reported on must differ."""
    env, uses = spec.games[game].env, dict[str, list[int]]()
    needed = {"report seeds": stage.report_seeds, "gate seeds": stage.gate_seeds}
    for use, choice in needed.items():
        if choice is None:
            continue
        key = f"{where}.{use.replace(' ', '_')}"
        if (found := by_env(choice, env)) is None:
            yield f"{key}: nothing for {env}", None
        else:
            uses[use] = parse_seeds(found, key)
    if isinstance(stage, Loop2):
        uses["training seeds"] = seeds_of(spec.games[game].seeds, f"games.{game}.seeds")
        if by_env(stage.recipe, env) is None:
            yield f"{where}.recipe: nothing for {env}", None
    for one, other in combinations(uses, 2):
        if both := sorted(set(uses[one]) & set(uses[other])):
            shown = ", ".join(map(str, both[:5])) + (", …" if len(both) > 5 else "")
            yield f"{where}: of {game}, seeds {shown} are {one} and {other}", "the two must not overlap"


def _choices(choice: ByEnv | None) -> list[str]:
    """All that may be chosen."""
    if choice is None:
        return []
    return [choice] if isinstance(choice, str) else list(choice.values())


def _unknown(where: str, names: Iterable[str], known: Collection[str]) -> Iterator[Problem]:
    for name in names:
        if name not in known:
            yield f"{where}: there is no '{name}'", did_you_mean(name, known)


def _circle(spec: ExperimentSpec) -> list[str] | None:
    """Stages that wait for each other, or None."""

    def walk(name: str, path: list[str]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        found = (walk(other, [*path, name]) for other in stage_needs(spec.stages[name]))
        return next((circle for circle in found if circle), None)

    return next((circle for circle in (walk(name, []) for name in spec.stages) if circle), None)
