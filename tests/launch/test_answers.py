"""What Slurm's programs answer, as it was seen on real ones; a fake stands for them."""

import pytest

from automem.errors import RunError
from automem.launch import slurm
from automem.launch.slurm import Seen


def test_sacct_comes_first_and_scontrol_where_it_is_silent(programs):
    programs(
        sacct="echo '7|COMPLETED|0:0'; echo '8_1|CANCELLED by 0|0:15'; echo '8_[2-4,6%2]|PENDING|0:0'",
        scontrol='[ "$4" = 9 ] && echo "JobId=9 JobName=x JobState=RUNNING Reason=None ExitCode=0:0"',
    )
    assert slurm.look(["7", "8", "9"]) == {
        "7": Seen("7", "COMPLETED", 0),
        "8_1": Seen("8_1", "CANCELLED", 143),
        **{f"8_{n}": Seen(f"8_{n}", "PENDING", 0) for n in (2, 3, 4, 6)},
        "9": Seen("9", "RUNNING", 0, "None"),
    }


def test_arrays_in_scontrol(programs):
    programs(
        sacct="exit 1",
        scontrol="echo 'JobId=5 ArrayJobId=4 ArrayTaskId=2 JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0'\n"
        "echo 'JobId=4 ArrayJobId=4 ArrayTaskId=3-4%1 JobState=PENDING Reason=Priority ExitCode=0:0'",
    )
    assert slurm.look(["4"]) == {
        "4_2": Seen("4_2", "FAILED", 3, "NonZeroExitCode"),
        "4_3": Seen("4_3", "PENDING", 0, "Priority"),
        "4_4": Seen("4_4", "PENDING", 0, "Priority"),
    }


def test_a_job_that_nobody_knows_any_more_is_gone(programs):
    programs(sacct="true", scontrol="echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert slurm.look(["4"]) == {"4": Seen("4", slurm.GONE)}
    programs(scontrol="echo 'Unable to contact slurm controller' >&2; exit 1")
    assert slurm.look(["4"]) == {}


def test_no_slurm_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert slurm.look(["4"]) == {}
    assert slurm.max_array_size() is None
    with pytest.raises(RunError, match="there is no sbatch here") as caught:
        slurm.submit(tmp_path / "job.sh")
    assert "--on local" in caught.value.hint


def test_a_program_that_hangs_is_given_up(programs, monkeypatch):
    programs(sacct="sleep 60", scontrol="sleep 60", sbatch="sleep 60")
    monkeypatch.setattr(slurm, "QUICK", 0.2)
    monkeypatch.setattr(slurm, "PATIENT", 0.2)
    assert slurm.look(["4"]) == {}
    with pytest.raises(RunError, match="sbatch does not answer within"):
        slurm.test(__file__)


@pytest.mark.parametrize(
    ("after", "kind", "elements", "words"),
    [
        ([], "afterok", (), []),
        (["1", "2"], "afterok", (), ["--dependency=afterok:1:2", "--kill-on-invalid-dep=yes"]),
        (["1"], "afterany", (3, 5), ["--dependency=afterany:1", "--kill-on-invalid-dep=yes", "--array=3,5"]),
    ],
)
def test_what_is_not_in_the_script(after, kind, elements, words):
    assert slurm.options(after, kind, elements) == words


def test_the_name_of_a_cluster_is_no_part_of_the_id(programs, tmp_path):
    programs(sbatch="echo '4711;site'")
    assert slurm.submit(tmp_path / "job.sh") == "4711"
