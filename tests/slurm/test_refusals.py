"""What the scheduler refuses is told in its own words, and nothing stays in the queue; sites without sacct."""

import os
import subprocess
import sys

import pytest
import yaml
from launching import CI, cluster, element, job, made, queue, states, submitted, until, wait

from automem.launch import slurm as client
from automem.launch import submit

EXPERIMENT = {
    "about": "two stages",
    "models": {"scripted": "scripted:courier"},
    "games": {"courier": {"play": "courier/small", "seeds": "0-3", "limits": {"max_steps": 3}}},
    "agents": {"v1": {"scaffold": "courier-v1", "model": "scripted"}},
    "stages": {
        "play": {"do": "evaluate", "games": ["courier"], "agents": ["v1"], "split": 2},
        "more": {"do": "evaluate", "games": ["courier"], "agents": ["v1"], "needs": ["play"]},
    },
}
AUTOMEM = [sys.executable, "-c", "from automem.cli.main import main; main()"]


@pytest.fixture
def automem(place):
    """The command line, beside an experiment `mine`."""
    (place / "experiments/mine").mkdir(parents=True)
    (place / "experiments/mine/experiment.yaml").write_text(yaml.safe_dump(EXPERIMENT))

    def call(*words, **site):
        (place / "site.yaml").write_text(yaml.safe_dump({**CI, **site}))
        return subprocess.run([*AUTOMEM, *words], capture_output=True, text=True, timeout=300, check=False)

    return call


LAUNCH = ("launch", "mine", "--on", "slurm", "--cluster", "site.yaml", "-o", "runs/mine")


@pytest.mark.parametrize(
    ("site", "words", "hint"),
    [
        ({"partition": "mian"}, "invalid partition", "key partition in the cluster file; did you mean 'main'?"),
        ({"account": "labs"}, "Invalid account", "key account in the cluster file; did you mean 'lab'?"),
        ({"qos": "tyni"}, "Invalid qos", "key qos in the cluster file; did you mean 'tiny'?"),
        ({"resources": {"cpu": {"cpus": 900}}}, "Requested node configuration is not available", "no node has so many"),
        ({"resources": {"cpu": {"gpus": 1, "gpu_type": "a100"}}}, "", "hint: "),
    ],
)
@pytest.mark.parametrize("option", [[], ["--test-only"]])
def test_a_refusal_is_told_and_nothing_is_submitted(automem, place, site, words, hint, option):
    done = automem(*LAUNCH, *option, **site)
    assert done.returncode == 1
    assert "error: the scheduler refuses play: " in done.stderr
    assert words.lower() in done.stderr.lower()
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
    assert (queue(), list(place.glob("runs/*"))) == ([], [])


def test_a_refusal_in_the_middle_takes_back_what_was_taken(automem, place):
    """The quality of service lets three elements in: the first two jobs are taken, the third is not."""
    done = automem(*LAUNCH, qos="tiny", extra_directives=["--begin=now+1hour"])
    assert done.returncode == 1
    assert "submitted play as " in done.stderr
    assert "cancelling 2 jobs that were submitted before" in done.stderr
    assert "error: the scheduler refuses table: " in done.stderr
    assert "set submit_limit in the cluster file" in done.stderr
    until(lambda: queue() == [], 60)
    assert list(place.glob("runs/*")) == []


def test_asking_only(automem, place):
    done = automem(*LAUNCH, "--test-only")
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["play", "more", "table"]
    assert (queue(), list(place.glob("runs/*"))) == ([], [])


def test_launch_watch_table(automem, place):
    done = automem(*LAUNCH)
    assert done.returncode == 0, done.stderr
    assert automem(*LAUNCH).stderr.startswith("error: runs/mine was launched before\nhint: ")
    done = automem("job", "watch", "runs/mine", "--exit-when-done")
    assert done.returncode == 0, done.stderr
    assert "play   2 completed; episodes 4 of 4" in done.stderr.splitlines()
    # What was dealt out to two elements is one row again.
    assert automem("table", "runs/mine").stdout.count("| courier | small | courier-v1 | ") == 2
    assert "nothing to submit" in automem("job", "resubmit", "runs/mine", "--failed").stderr


def test_a_site_without_sacct(place, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sacct").write_text("#!/bin/sh\necho 'Slurm accounting storage is disabled' >&2\nexit 1\n")
    (tmp_path / "bin/sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    launch = submitted(
        place / "a",
        [
            job("good", ("sleep", "8")),
            job("bad", ("false",)),
            job("after", ("true",), needs=("good",)),
            job("never", ("true",), needs=("bad",)),
            job("array", ("true",), ("false",), needs=("good",)),
        ],
    )
    assert states(launch)["after"] == ["pending"]
    assert wait(launch) == {
        "good": ["completed"],
        "bad": ["failed"],
        "after": ["completed"],
        "never": ["cancelled"],
        "array": ["completed", "failed"],
    }


def test_a_job_that_never_came_to_its_script_has_failed(place):
    """Nothing writes its status: the scheduler's word counts."""
    launch = made(place / "a", [job("play", ("true",))], cluster())
    (launch.job("play") / "job.sh").write_text("#!/bin/bash\nexit 3\n")
    submit.submit_all(launch, lambda text: None)
    assert wait(launch) == {"play": ["failed"]}
    assert element(launch, "play").reason.startswith("FAILED")


def test_the_size_of_arrays_is_asked_for(slurm):
    assert client.max_array_size() == 31
