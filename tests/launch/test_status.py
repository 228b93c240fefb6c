"""What is made of a scheduler that lags; fakes say what real ones said."""

import pytest
from made import cluster, job

from automem.launch import folder as folders
from automem.launch import submit
from automem.launch.plan import plan
from automem.launch.status import look


@pytest.fixture
def states(programs, tmp_path, monkeypatch):
    """Submits an array of three; gives the states for answers of sacct and scontrol."""
    monkeypatch.chdir(tmp_path)
    programs(sbatch="echo 10", scontrol="exit 1")
    site = cluster()
    jobs = plan([job("play", [("true",)] * 3)], site)
    made = folders.make(tmp_path / "out", "made", None, "made", site, jobs, "slurm")
    submit.submit_all(made, lambda text: None)

    def asked(sacct, scontrol):
        programs(sacct="\n".join(f"echo '{line}'" for line in sacct.split()), scontrol=scontrol)
        (found,) = look(made)
        return [element.state for element in found.elements]

    return asked


QUEUED = "echo 'JobId=10 ArrayJobId=10 ArrayTaskId=0-2 JobState=PENDING Reason=BeginTime ExitCode=0:0'"
FORGOTTEN = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"


def test_what_went_back_into_the_queue_is_not_over(states):
    preempted = "10_0|PREEMPTED|0:0 10_1|COMPLETED|0:0 10_2|PENDING|0:0"
    assert states(preempted, QUEUED) == ["pending"] * 3
    assert states(preempted, FORGOTTEN) == ["interrupted", "lost", "pending"]


def test_the_bare_number_of_an_array_is_not_the_end_of_all_its_elements(states):
    assert states("10|COMPLETED|0:0 10_1|RUNNING|0:0", FORGOTTEN) == ["pending", "running", "pending"]


def test_forgotten_by_all(states):
    assert states("", FORGOTTEN) == ["lost"] * 3
