"""Preemption, time limits and cancellation in the middle of an episode: nothing is lost, nothing is played twice."""

import subprocess
from collections import Counter

import pytest
from launching import cluster, element, job, log, play, queue, run_here, states, steps, submitted, traces, until, wait

from automem.launch import resubmit, submit
from automem.launch.status import look

#: Long enough to be met in the middle.
STEPS = 6000
ALL_CPUS = {"cpu": {"cpus": 8, "memory": "512M"}}


@pytest.fixture(scope="module")
def whole(slurm, tmp_path_factory):
    """The traces of an episode that nothing disturbed."""
    place = tmp_path_factory.mktemp("whole")
    run_here(place / "a", [job("play", long(place / "run"))])
    return traces(place / "run")


def long(out):
    return play(out, task="huge", steps=STEPS)


def started(place, **site):
    """A launch of one job, and its episode some way on."""
    launch = submitted(place / "a", [job("play", long(place / "run"))], cluster(**site))
    until(lambda: 30 < steps(place / "run") < STEPS)
    return launch


def check(place, whole, launch, attempts=2):
    """The episode was played in so many attempts, and is that of an undisturbed run."""
    assert wait(launch) == {"play": ["completed"]}
    own = element(launch, "play").own
    assert own.attempt == attempts
    assert f"going on at step {0 if attempts == 1 else ''}" in log(launch, "play", attempt=attempts, file="task-0.log")
    (trace,) = traces(place / "run").values()
    numbers = Counter(line.split(b'"t":')[1].split(b",")[0] for line in trace.splitlines() if b'"kind":"step"' in line)
    assert numbers == {str(t).encode(): 1 for t in range(STEPS)}
    assert traces(place / "run") == whole


def block():
    """A job that takes all nodes for itself, of a partition that goes before."""
    command = ["sbatch", "--parsable", "-p", "main", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 4"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.strip()


def test_preempted_and_put_back_into_the_queue(place, whole):
    launch = started(place, partition="preempt", resources=ALL_CPUS)
    block()
    until(lambda: states(launch) == {"play": ["pending"]})
    check(place, whole, launch)
    assert element(launch, "play").own.restart == 1


def test_preempted_and_cancelled_then_resubmitted(place, whole):
    launch = started(place, partition="evict", resources=ALL_CPUS)
    block()
    assert wait(launch) == {"play": ["interrupted"]}
    owed = resubmit.owed(look(launch), failed=True)
    assert owed == {"play": [0]}
    submit.submit_all(launch, lambda text: None, owed)
    check(place, whole, launch)


def signal(launch):
    """What Slurm sends some time before the limit."""
    name = element(launch, "play").slurm_id
    subprocess.run(["scancel", "--signal=USR2", "--batch", name], check=True, timeout=30)


def test_the_time_limit_comes(place, whole):
    launch = started(place)
    signal(launch)
    until(lambda: "back to the queue, restart 1 of 3" in log(launch, "play"))
    check(place, whole, launch)
    assert element(launch, "play").own.restart == 1


def test_no_more_restarts_is_a_failure_that_can_be_resubmitted(place, whole):
    launch = started(place, restarts=0)
    signal(launch)
    assert wait(launch) == {"play": ["interrupted"]}
    assert "after 0 restarts" in element(launch, "play").own.reason
    submit.submit_all(launch, lambda text: None, resubmit.owed(look(launch), failed=True))
    check(place, whole, launch)


def test_cancelled(place, whole):
    launch = started(place)
    resubmit.stop(launch, look(launch))
    assert wait(launch) == {"play": ["cancelled"]}
    until(lambda: queue() == [])
    submit.submit_all(launch, lambda text: None, resubmit.owed(look(launch)))
    check(place, whole, launch)
