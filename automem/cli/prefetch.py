"""`automem prefetch`: the models of an experiment into the hub's cache, from a node with network."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def prefetch(
    experiment: Annotated[str, typer.Argument(help="Experiment by name or path.")],
    cluster: Annotated[str, typer.Option(help="Cluster file, for where its cache is and which models it has.")],
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Show what would be fetched.")] = False,
) -> None:
    """Fetch the models that an experiment's jobs serve, so that the jobs need no network."""
    from pathlib import Path

    from automem.launch import prefetch as fetching
    from automem.launch.cluster import load_cluster
    from automem.launch.experiment import load_experiment

    site = load_cluster(cluster)
    wanted = fetching.hub_models(load_experiment(experiment).jobs(Path("runs")), site)
    if not wanted:
        print("nothing to fetch: no model of the hub is served", file=sys.stderr)
    for name in wanted:
        if dry_run:
            print(f"would fetch {name} into {fetching.cache(site)}")
        else:
            print(f"{name}: {fetching.fetch(name, site)}")
