"""What is launched into a folder that has a launch: the same goes on, anything else is refused; and lost readers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from automem.launch.folder import LaunchFolder
from automem.launch.status import look

AUTOMEM = [sys.executable, "-c", "from automem.cli.main import main; main()"]
EXPERIMENT = {
    "about": "two short games",
    "models": {"base": "scripted:courier"},
    "games": {"courier": {"play": "courier/small", "seeds": "0-1", "limits": {"max_steps": 3}}},
    "agents": {"v0": {"scaffold": "courier-v0"}},
    "stages": {
        "play": {"do": "evaluate", "games": ["courier"], "agents": ["v0"]},
        "more": {"do": "evaluate", "games": ["courier"], "agents": ["v0"], "needs": ["play"]},
    },
}
CLUSTER = {"resources": {"cpu": {}}, "restarts": 2}
HERE = ("launch", "mine", "--on", "local", "-o", "out")
THERE = ("launch", "mine", "--on", "slurm", "--cluster", "site.yaml", "-o", "out")


@pytest.fixture
def folder(automem, programs, tmp_path):
    """The working directory: experiments `mine` and `other`, a cluster, and stand-ins for Slurm's programs."""
    programs(
        sbatch=f'[ "$1" = --test-only ] || echo "$@" >> {tmp_path}/calls\necho 10',
        scontrol="exit 1",
        sacct="exit 1",
        scancel=f"echo cancel >> {tmp_path}/calls",
    )
    for name in ("mine", "other"):
        (tmp_path / "experiments" / name).mkdir(parents=True)
        (tmp_path / "experiments" / name / "experiment.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(CLUSTER))
    return tmp_path


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("first", [HERE, THERE])
@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_other_settings_are_refused(automem, folder, first, dry_run):
    assert automem(*first)[0] == 0
    before = everything(folder / "out")
    other = (*first[:1], "other", *first[2:])
    elsewhere = THERE if first is HERE else HERE
    for words, difference in (
        (other, "experiment: mine there, other here"),
        ((*first, "-s", "games.courier.seeds=0-2"), "games.courier.seeds: 0-1 there, 0-2 here"),
        ((*first, "-s", "agents.v0.set.budget.history=3"), "agents.v0.set.budget.history: none there, "),
        (elsewhere, f"on: {first[3]} there, {elsewhere[3]} here"),
    ):
        code, out, err = automem(*words, *dry_run)
        assert (code, out) == (2, "")
        assert err.startswith(f"error: out was made with other settings: {difference}")
        assert err.splitlines()[1].startswith("hint: choose another -o; `automem job resubmit out --failed` goes on")
    assert everything(folder / "out") == before


def test_another_cluster_is_refused(automem, folder):
    assert automem(*HERE)[0] == 0
    (folder / "site.yaml").write_text(yaml.safe_dump({**CLUSTER, "scratch": "/var/tmp"}))
    code, _, err = automem(*HERE, "--cluster", "site.yaml")
    assert code == 2
    assert "cluster restarts: 0 there, 2 here; cluster scratch: /tmp there, /var/tmp here" in err


def test_the_same_goes_on(automem, folder):
    assert automem(*HERE, "-s", "games.courier.seeds=0-2")[0] == 0
    changed = {**EXPERIMENT, "about": "told otherwise", "variants": {"long": {"games.courier.seeds": "0-9"}}}
    (folder / "experiments/mine/experiment.yaml").write_text(yaml.safe_dump(changed))
    code, _, err = automem(*HERE, "-s", "games.courier.seeds=0-2")
    assert (code, err) == (0, "all 3 jobs are completed\n")
    changed["games"]["courier"]["limits"] = {"max_steps": 4}
    (folder / "experiments/mine/experiment.yaml").write_text(yaml.safe_dump(changed))
    code, _, err = automem(*HERE, "-s", "games.courier.seeds=0-2")
    assert code == 2
    assert "games.courier.limits.max_steps: 3 there, 4 here" in err


def test_submitted_again_is_told_apart_from_something_else(automem, folder):
    assert automem(*THERE)[0] == 0
    assert automem(*THERE)[2].startswith("error: out was launched before\nhint: ")


def deaf(*words):
    """A command whose stderr nobody reads, as after `2>&1 | head -1`; its exit code."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run([*AUTOMEM, *words], stdout=writing, stderr=writing, timeout=300, check=False).returncode
    finally:
        os.close(writing)


def test_jobs_go_on_when_nobody_reads_how(folder):
    assert deaf(*HERE) == 0
    states = {job.name: [element.state for element in job.elements] for job in look(LaunchFolder.read(folder / "out"))}
    assert states == {"play": ["completed"], "more": ["completed"], "table": ["completed"]}


def test_all_is_submitted_when_nobody_reads_it(folder):
    assert deaf(*THERE) == 0
    assert [submission.job for submission in LaunchFolder.read(folder / "out").record.submissions] == [
        *("play", "more", "table")
    ]
    assert "cancel" not in (folder / "calls").read_text()


def test_who_only_watches_ends_with_his_reader(folder):
    assert deaf(*THERE) == 0
    assert deaf("job", "watch", "out") == 1


def test_an_error_that_nobody_reads_keeps_its_exit_code(folder):
    assert deaf("launch", "mien", "--on", "local") == 2
    assert Path("out").exists() is False
