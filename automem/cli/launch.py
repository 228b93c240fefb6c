"""`automem launch`: a whole experiment on a cluster, or on this machine."""

from __future__ import annotations

import shlex
import shutil
import sys
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from automem.cli.telling import tell

if TYPE_CHECKING:
    from automem.launch.cluster import Cluster
    from automem.launch.experiment import Experiment
    from automem.launch.plan import Planned


class On(StrEnum):
    """Where jobs run."""

    SLURM = "slurm"
    LOCAL = "local"


def launch(
    experiment: Annotated[str, typer.Argument(help="Experiment by name or path.")],
    on: Annotated[On, typer.Option(help="Where: slurm, or this machine.")],
    cluster: Annotated[str | None, typer.Option(help="Cluster file, or the name of a shipped one.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Launch folder. [runs/EXPERIMENT]")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("-s", "--set", metavar="KEY=VALUE", help="Set a key of the experiment.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Show directives and commands.")] = False,
    test_only: Annotated[bool, typer.Option("--test-only", help="Ask the scheduler, submit nothing.")] = False,
) -> None:
    """Submit an experiment's jobs in the order of their needs, or run them here."""
    from automem.cli.knowing import check_names
    from automem.config import parse_overrides
    from automem.launch import plan
    from automem.launch.cluster import load_cluster
    from automem.launch.experiment import load_experiment

    asked = load_experiment(experiment, parse_overrides(overrides or []))
    name = cluster or _usual_cluster(on)
    site = load_cluster(name)
    folder = out or Path("runs") / asked.name
    check_names(asked, site, folder)
    _check_folder(asked, site, folder, on)
    jobs = plan.plan(asked.jobs(folder), site, _array_size(on, site, dry_run))
    if dry_run:
        _show(asked, jobs, site, name, folder, on)
    elif on is On.SLURM:
        _submit(asked, jobs, site, name, folder, test_only)
    else:
        _run_here(asked, jobs, site, name, folder)


def _usual_cluster(on: On) -> str:
    from automem.errors import UsageError

    if on is On.LOCAL:
        return "local"
    raise UsageError("--cluster is missing", "copy slurm/clusters/example.yaml; slurm/README.md tells how to change it")


def _check_folder(asked: Experiment, site: Cluster, out: Path, on: On) -> None:
    """Raise UsageError when something else was launched into `out`."""
    from automem.launch import folder as folders

    if (out / folders.FILE).is_file():
        folders.LaunchFolder.read(out).check_same(asked.name, asked.spec, site, on.value)


def _array_size(on: On, site: Cluster, dry_run: bool) -> int:
    from automem.launch import plan, slurm

    if on is On.LOCAL:
        return sys.maxsize
    if site.max_array_size or dry_run:
        return site.max_array_size or plan.MAX_ARRAY_SIZE
    slurm.require()
    return slurm.max_array_size() or plan.MAX_ARRAY_SIZE


def _show(asked: Experiment, jobs: tuple[Planned, ...], site: Cluster, cluster: str, out: Path, on: On) -> None:
    """What would be submitted, exactly: directives, commands, and the calls of sbatch."""
    from automem.launch.render import Place, directives, server_command
    from automem.launch.submit import commands

    place = Place(out.resolve(), out.resolve() / "snapshot", Path.cwd())
    print(f"# {asked.name}: {len(jobs)} jobs, {sum(len(each.job.tasks) for each in jobs)} commands, into {out}")
    for each in jobs:
        needs = f", after {', '.join(each.job.needs)}" if each.job.needs else ""
        print(f"\n# {each.job.name}: {each.job.stage}, {each.elements} element(s){needs}")
        if on is On.SLURM:
            for part in each.parts:
                print("\n".join(f"#SBATCH {line}" for line in directives(each, part, site, place)))
        if (server := server_command(each.job, site, each.resources)) is not None:
            print(f"# served by: {shlex.join(server.words)}")
        for command in each.job.tasks:
            print(shlex.join(command))
    if on is On.SLURM:
        print("\n# submitted by")
        print("\n".join(commands(jobs, out)))


def _submit(
    asked: Experiment, jobs: tuple[Planned, ...], site: Cluster, cluster: str, out: Path, test_only: bool
) -> None:
    from automem.launch import folder as folders
    from automem.launch import slurm, submit

    slurm.require()
    if test_only:
        _test(asked, jobs, site, cluster)
        return
    _check_needs(asked, jobs, site, out)
    with ExitStack() as undo:
        # The folder is new, so that all in it is ours: a launch that does not come about leaves nothing.
        made = folders.make(out, asked.name, asked.folder / "experiment.yaml", cluster, site, jobs, "slurm", asked.spec)
        undo.callback(shutil.rmtree, made.path)
        submit.check(made, lambda text: None)
        submit.submit_all(made, tell)
        undo.pop_all()
    tell(f"`automem job watch {out}` shows how it goes")


def _check_needs(asked: Experiment, jobs: tuple[Planned, ...], site: Cluster, out: Path) -> None:
    """Refuse what is bound to fail hours later, warn of what may.

    Raises:
        UsageError: an adapter that is served is not there.
    """
    from automem.errors import UsageError
    from automem.launch import prefetch

    for stage, path, made_by in asked.missing(out):
        raise UsageError(f"stage {stage} serves an adapter that is not there: {path}", f"`{made_by}` makes it")
    for name in prefetch.missing([each.job for each in jobs], site):
        tell(f"warning: {name} is not in {prefetch.cache(site)}; `automem prefetch` fetches it")


def _test(asked: Experiment, jobs: tuple[Planned, ...], site: Cluster, cluster: str) -> None:
    """Ask the scheduler about scripts in a folder that is thrown away."""
    from tempfile import TemporaryDirectory

    from automem.launch import folder as folders
    from automem.launch import submit

    with TemporaryDirectory() as place:
        made = folders.make(Path(place) / asked.name, asked.name, None, cluster, site, jobs, "slurm")
        submit.check(made, tell)


def _run_here(asked: Experiment, jobs: tuple[Planned, ...], site: Cluster, cluster: str, out: Path) -> None:
    from automem.launch import folder as folders
    from automem.launch import local

    if (out / folders.FILE).is_file():
        made = folders.LaunchFolder.read(out)
    else:
        _check_needs(asked, jobs, site, out)
        made = folders.make(out, asked.name, asked.folder / "experiment.yaml", cluster, site, jobs, "local", asked.spec)
    try:
        local.run_all(made, tell)
    except KeyboardInterrupt:
        tell(f"interrupted; the same command goes on with {out}")
        raise typer.Exit(130) from None
