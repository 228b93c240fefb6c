"""`automem run`: play episodes."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from automem.messages import Role
    from automem.models.base import Model
    from automem.play.folder import RunConfig
    from automem.play.run import Played
    from automem.scaffold.spec import Scaffold

#: First part of an `-s` key -> what it sets; any other key is one of scaffold.yaml.
GROUPS = ("env", "model", "memory_model", "limits")


def run(
    game: Annotated[str, typer.Argument(metavar="ENV[/TASK]", help="What to play, e.g. courier/small.")],
    scaffold: Annotated[str, typer.Option("-S", "--scaffold", help="Scaffold by name or path.")],
    model: Annotated[
        str, typer.Option("-m", "--model", help="scripted:NAME, replay:PATH, local:PATH or openai:MODEL.")
    ],
    memory_model: Annotated[
        str | None, typer.Option("--memory-model", help="Another model for the memory role.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, e.g. 0-9 or 42,43.")] = "0",
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Episodes in flight.")] = 1,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Run folder. [runs/<what was asked>]")] = None,
    base_url: Annotated[str | None, typer.Option(help="Where an openai: model is served.")] = None,
    memory_base_url: Annotated[str | None, typer.Option(help="The same for the memory model.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Steps per episode at most.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("-s", "--set", metavar="KEY=VALUE", help="Set env.*, model.*, limits.* or a scaffold key."),
    ] = None,
    redo: Annotated[bool, typer.Option("--redo", help="Throw an earlier run in this folder away.")] = False,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Show what would be played.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Play episodes; the same command again resumes them."""
    from automem.config import parse_seeds
    from automem.models import make_model
    from automem.scaffold import spec as scaffolds

    groups = grouped(overrides or [])
    if max_steps is not None:
        groups["limits"]["max_steps"] = max_steps
    loaded = scaffolds.load(scaffold, groups["scaffold"])
    names: dict[Role, str] = {"gameplay": model}
    settings: dict[Role, dict[str, Any]] = {"gameplay": settings_of(groups["model"], base_url)}
    if memory_model:
        names["memory"] = memory_model
        settings["memory"] = settings_of(groups["memory_model"], memory_base_url or base_url)
    else:
        _refuse_memory_settings(groups["memory_model"], memory_base_url)
    config = run_config(game, parse_seeds(seeds), loaded, names, settings, groups["env"], groups["limits"])
    folder = out or _default_folder(config)
    models: Any = {role: make_model(name, settings[role]) for role, name in names.items()}
    if dry_run:
        _show(config, folder, redo)
        return
    report([play(folder, config, loaded, models, jobs, redo)], as_json)


def _refuse_memory_settings(settings: dict[str, Any], base_url: str | None) -> None:
    from automem.errors import UsageError

    given = [f"-s memory_model.{key}" for key in settings] + ["--memory-base-url"] * (base_url is not None)
    if given:
        raise UsageError(
            f"{given[0]} needs --memory-model", "without it one model has both roles: set it by -s model.*"
        )


def play(
    folder: Path, config: RunConfig, scaffold: Scaffold, models: Mapping[Role, Model], jobs: int, redo: bool
) -> Played:
    """`play_run`; ^C says how to go on and exits 130."""
    from automem.play.run import play_run

    try:
        return play_run(folder, config, scaffold, models, jobs, redo)
    except KeyboardInterrupt:
        print(f"interrupted; the same command goes on with {folder}", file=sys.stderr)
        raise typer.Exit(130) from None


def report(runs: Sequence[Played], as_json: bool) -> None:
    """Print one table of all `runs`.

    Raises:
        RunError: an episode failed.
    """
    from automem.errors import RunError
    from automem.results.table import build_table, to_json, to_markdown

    table = build_table([played.folder for played in runs])
    print(to_json(table) if as_json else to_markdown(table))
    failures = [(played.folder.path, failure) for played in runs for failure in played.failures]
    if failures:
        folder, first = failures[0]
        episodes = sum(len(played.results) for played in runs)
        raise RunError(
            f"{len(failures)} of {episodes} episodes failed; the first: {first.message}",
            "; ".join(filter(None, (first.hint, f"the same command tries them again; {folder}/logs has all messages"))),
        )


def grouped(overrides: list[str], names: Sequence[str] = GROUPS) -> dict[str, dict[str, Any]]:
    """The `-s` overrides by what they set, as `by_group`."""
    from automem.config import parse_overrides

    return by_group(parse_overrides(overrides), names)


def by_group(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Dotted keys by what they set: `env.x` and the like by their group, the rest for the scaffold."""
    groups: dict[str, dict[str, Any]] = {group: {} for group in (*names, "scaffold")}
    for key, value in given.items():
        first, dot, rest = key.partition(".")
        if dot and first in names:
            groups[first][rest] = value
        else:
            groups["scaffold"][key] = value
    return groups


def settings_of(given: dict[str, Any], base_url: str | None) -> dict[str, Any]:
    """A model's settings, with its address where one is given."""
    return given if base_url is None else {**given, "base_url": base_url}


def run_config(
    game: str,
    seeds: list[int],
    scaffold: Scaffold,
    names: Mapping[Role, str],
    settings: Mapping[Role, Mapping[str, Any]],
    options: Mapping[str, Any],
    limits: Mapping[str, Any],
    later: Sequence[int] = (),
) -> RunConfig:
    """The config that plays `game` (ENV or ENV/TASK) with models `names`, and `options` for the environment.

    The seeds `later` are no part of it, but must be such that they can be played, too.

    Raises:
        UsageError: something in it is unknown, or the scaffold is for another environment.
    """
    from automem import env as envs
    from automem.config import validate
    from automem.episode import Limits
    from automem.models import model_spec
    from automem.play.folder import RunConfig

    env, task = envs.split_game(game)
    tasks = [task] if task else list(envs.tasks(env))
    for name in tasks:
        with closing(envs.make(env, name, **options)) as made:
            made.check_seeds([*seeds, *later])
    check_fits(scaffold, env)
    return RunConfig(
        env=env,
        tasks=tasks,
        options=dict(options),
        seeds=seeds,
        scaffold=scaffold.name,
        scaffold_digest=scaffold.digest,
        models={role: model_spec(name, settings.get(role, {})) for role, name in names.items()},
        limits=validate(Limits, limits, "-s limits"),
    )


def check_fits(scaffold: Scaffold, env: str) -> None:
    """Raise UsageError when the scaffold is for another environment than `env`."""
    from automem.errors import UsageError
    from automem.plugins import plain_name

    if scaffold.spec.env not in (None, plain_name(env)):
        raise UsageError(f"scaffold '{scaffold.name}' is for {scaffold.spec.env}, not for {plain_name(env)}")


def _default_folder(config: RunConfig) -> Path:
    """A folder named after what is asked, so that the same command finds its run again."""
    from automem.episode import digest
    from automem.plugins import plain_name

    task = f"-{config.tasks[0]}" if len(config.tasks) == 1 else ""
    settings = config.model_dump(mode="json", exclude={"seeds", "tasks"})
    model = config.models["gameplay"].name.replace(":", "-").replace("/", "-")
    return Path("runs") / f"{plain_name(config.env)}{task}-{config.scaffold}-{model}-{digest(settings)[:6]}"


def _show(config: RunConfig, folder: Path, redo: bool) -> None:
    from automem.play.folder import check_run

    if redo and (folder / "run.json").is_file():
        print(f"would throw the earlier run in {folder} away")
    else:
        check_run(folder, config)
    print(f"would play {len(config.specs())} episodes into {folder}:")
    for spec in config.specs():
        print(f"  {spec.env}/{spec.task} seed {spec.seed}  {spec.id}")
