"""The order of jobs, and what becomes of arrays that are too long for a site."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import cluster, job, served

from automem.errors import UsageError
from automem.launch.plan import plan, resources_of
from automem.launch.prefetch import hub_models


def test_needed_jobs_come_first():
    jobs = [job("table", needs=("b", "a")), job("b", needs=("a",)), job("a"), job("c")]
    names = [planned.job.name for planned in plan(jobs, cluster())]
    assert names == ["a", "b", "table", "c"]


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([job("a", needs=("b",)), job("b", needs=("a",))], "jobs need each other in a circle: "),
        ([job("a", needs=("plya",)), job("play")], "job 'a' needs 'plya', which is not there"),
        ([job("a"), job("a")], "two jobs are called 'a'"),
        ([job("a", resources="gpu")], "the cluster has no resources 'gpu'"),
    ],
)
def test_a_wrong_experiment_is_refused(jobs, message):
    with pytest.raises(UsageError, match=message):
        plan(jobs, cluster())


@given(tasks=st.integers(1, 200), size=st.integers(2, 40), limit=st.integers(2, 60), parallel=st.integers(1, 50))
def test_every_task_is_in_one_element_and_limits_hold(tasks, size, limit, parallel):
    jobs = [job("a", [("run", str(n)) for n in range(tasks)]), job("b")]
    a, b = plan(jobs, cluster(submit_limit=limit, parallel=parallel), size)
    assert [n for e in range(a.elements) for n in a.tasks_of(e)] == list(range(tasks))
    assert a.elements + b.elements <= limit
    assert a.per == 1 or sum(-(-len(j.tasks) // (a.per - 1)) for j in jobs) > limit
    assert all(part.count <= size for part in a.parts)
    assert [e for part in a.parts for e in range(part.first, part.first + part.count)] == list(range(a.elements))
    assert a.parallel == max(1, parallel // len(a.parts))
    assert (a.array, b.array) == (a.elements > 1, False)


def test_more_jobs_than_may_be_submitted():
    with pytest.raises(UsageError, match="3 jobs are more than the submit_limit of 2"):
        plan([job(name) for name in "abc"], cluster(submit_limit=2))


def test_the_cluster_may_want_other_resources_for_a_model():
    classes = {"cpu": {}, "serve": {}, "large": {}}
    site = cluster(resources=classes, models={"big": {"resources": "large"}})
    assert resources_of(served("big", resources="serve"), site) == "large"
    assert resources_of(served("small", resources="serve"), site) == "serve"
    there = cluster(resources=classes, endpoint={"url": "http://node7:8000/v1"})
    assert resources_of(served("big", resources="serve"), there) == "cpu"
    assert resources_of(served("big", {"memory": "best"}, resources="serve"), there) == "serve"


def test_loop_2_trains_in_its_own_job_although_an_endpoint_plays():
    classes = {"cpu": {}, "train": {}}
    there = cluster(resources=classes, endpoint={"url": "http://node7:8000/v1"})
    trains = served("Some/Model", stage="loop2", name="train", resources="train")
    assert resources_of(trains, there) == "train"
    assert hub_models([served("Some/Other"), trains], there) == ["Some/Model"]
