"""From jobs to what the scheduler gets: their order, array elements, and the scripts of arrays that are too long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import ceil

from automem.errors import UsageError, did_you_mean
from automem.launch.cluster import Cluster, Endpoint, Resources
from automem.launch.job import Job

#: Slurm's own default of MaxArraySize.
MAX_ARRAY_SIZE = 1001


@dataclass(frozen=True)
class Part:
    """One script of a job: its elements `first` to `first + count - 1`."""

    number: int
    first: int
    count: int

    @property
    def script(self) -> str:
        """The name of the script in the job's folder."""
        return "job.sh" if self.number == 1 else f"job-{self.number}.sh"


@dataclass(frozen=True)
class Planned:
    """A job with its place in the queue. Element e has the tasks from e * per on."""

    job: Job
    resources: Resources
    per: int
    parts: tuple[Part, ...]
    parallel: int | None

    @property
    def elements(self) -> int:
        """How many elements the array has; 1 where it is none."""
        return ceil(len(self.job.tasks) / self.per)

    @property
    def array(self) -> bool:
        """Whether the job is an array."""
        return self.elements > 1

    def tasks_of(self, element: int) -> range:
        """The numbers of an element's tasks."""
        return range(element * self.per, min(len(self.job.tasks), (element + 1) * self.per))


def plan(jobs: Iterable[Job], cluster: Cluster, max_array_size: int = MAX_ARRAY_SIZE) -> tuple[Planned, ...]:
    """The jobs in an order in which each comes after those that it needs.

    Raises:
        UsageError: a job needs one that is not there or itself, two have one name, the cluster lacks the resources
            of one, or there are more jobs than may be submitted.
    """
    ordered = in_order(tuple(jobs))
    per = _tasks_per_element(ordered, cluster.submit_limit)
    return tuple(_planned(job, cluster, per, cluster.max_array_size or max_array_size) for job in ordered)


def in_order(jobs: Sequence[Job]) -> list[Job]:
    """The jobs, needed ones first; otherwise in the order given.

    Raises:
        UsageError: as `plan`.
    """
    by_name = {job.name: job for job in jobs}
    if len(by_name) < len(jobs):
        twice = next(job.name for n, job in enumerate(jobs) if job.name in {other.name for other in jobs[:n]})
        raise UsageError(f"two jobs are called '{twice}'")
    for job in jobs:
        for need in job.needs:
            if need not in by_name:
                raise UsageError(f"job '{job.name}' needs '{need}', which is not there", did_you_mean(need, by_name))
    try:
        TopologicalSorter({job.name: job.needs for job in jobs}).prepare()
    except CycleError as error:
        raise UsageError(f"jobs need each other in a circle: {' -> '.join(error.args[1])}") from error
    ordered: dict[str, Job] = {}
    for job in jobs:
        _add(job, by_name, ordered)
    return list(ordered.values())


def _add(job: Job, by_name: Mapping[str, Job], ordered: dict[str, Job]) -> None:
    for need in job.needs:
        _add(by_name[need], by_name, ordered)
    ordered.setdefault(job.name, job)


def _tasks_per_element(jobs: Sequence[Job], limit: int | None) -> int:
    """The fewest tasks in an array element with which all jobs stay within the submit limit."""
    if limit is None:
        return 1
    if len(jobs) > limit:
        raise UsageError(
            f"{len(jobs)} jobs are more than the submit_limit of {limit}", "launch parts of the experiment"
        )
    longest = max(len(job.tasks) for job in jobs)
    return next(per for per in range(1, longest + 1) if sum(ceil(len(j.tasks) / per) for j in jobs) <= limit)


def _planned(job: Job, cluster: Cluster, per: int, max_array_size: int) -> Planned:
    parts = tuple(_parts(ceil(len(job.tasks) / per), max_array_size))
    parallel = None if cluster.parallel is None else max(1, cluster.parallel // len(parts))
    return Planned(job, cluster.ask(resources_of(job, cluster)), per, parts, parallel)


def _parts(elements: int, size: int) -> Iterator[Part]:
    # Indices of an array are below MaxArraySize; each part counts from 0.
    for number, first in enumerate(range(0, elements, size), 1):
        yield Part(number, first, min(size, elements - first))


def endpoint_of(job: Job, cluster: Cluster) -> Endpoint | None:
    """The server that the commands of a job ask, where it is there already; adapters are served by the job itself."""
    return cluster.endpoint if job.server and not job.server.adapters else None


def resources_of(job: Job, cluster: Cluster) -> str:
    """The class of resources of a job; a model that the cluster knows may want another than the experiment says."""
    if job.server is None:
        return job.resources
    # Loop 2 trains in the job itself, wherever the base is asked.
    if job.stage != "loop2" and (endpoint := endpoint_of(job, cluster)):
        return endpoint.resources
    named = cluster.models.get(job.server.model)
    return (named.resources if named else None) or job.resources
