"""Models of the hub that jobs need: which, and whether they are in the cache that compute nodes see."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from automem.errors import RunError, UsageError
from automem.launch.cluster import Cluster
from automem.launch.job import Job
from automem.launch.plan import endpoint_of
from automem.launch.render import SERVED_HERE


def hub_models(jobs: Iterable[Job], cluster: Cluster) -> list[str]:
    """The names on the hub of what the jobs serve or train, each once."""
    found = []
    for job in jobs:
        if job.server is None or (job.stage != "loop2" and endpoint_of(job, cluster)):
            continue
        name = job.server.model
        path = cluster.model(name).path
        if name.partition(":")[0] not in SERVED_HERE and path is None and not Path(name).is_dir() and name != "pocket":
            found.append(name)
    return list(dict.fromkeys(found))


def cache(cluster: Cluster) -> Path:
    """The folder of the hub's cache."""
    home = cluster.hub.home or os.environ.get("HF_HOME") or "~/.cache/huggingface"
    return Path(home).expanduser() / "hub"


def missing(jobs: Iterable[Job], cluster: Cluster) -> list[str]:
    """Models that jobs without network would not find."""
    if not (cluster.hub.home and cluster.hub.offline):
        return []
    return [name for name in hub_models(jobs, cluster) if not _snapshots(name, cluster)]


def _snapshots(name: str, cluster: Cluster) -> list[Path]:
    return sorted((cache(cluster) / f"models--{name.replace('/', '--')}" / "snapshots").glob("*"))


def fetch(name: str, cluster: Cluster) -> str:
    """Download the model `name` of the hub; returns where it is.

    Raises:
        UsageError: huggingface_hub is not installed, or there is no such model.
        RunError: the hub cannot be reached.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise UsageError("huggingface_hub is not installed", "pip install huggingface_hub") from error
    try:
        return str(snapshot_download(name, cache_dir=cache(cluster)))
    except (HfHubHTTPError, HFValidationError) as error:
        raise UsageError(
            f"the hub has no model '{name}' for you: {_first_line(error)}", "is the name right, and do you have access?"
        ) from error
    except (LocalEntryNotFoundError, OSError) as error:
        raise RunError(
            f"cannot fetch {name}: {_first_line(error)}",
            "run this on a node with network, or put the folder of the weights under models.<name>.path",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
