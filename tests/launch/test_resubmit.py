"""Which elements are started again, and what they wait for; the scheduler is a fake that says what real ones said."""

import pytest
from made import cluster, job

from automem.launch import folder as folders
from automem.launch import resubmit, submit
from automem.launch.plan import plan
from automem.launch.status import look


@pytest.fixture
def launch(programs, tmp_path, monkeypatch):
    """Five jobs in the queue: `play` half failed, `more` cancelled, `slow` running, `last` after both, the table."""
    monkeypatch.chdir(tmp_path)
    programs(
        sbatch='n=$(cat n 2>/dev/null || echo 10); echo $((n + 1)) > n; echo "$@" >> calls; echo $n',
        scancel='echo "cancel $*" >> calls',
        scontrol="exit 1",
        sacct="printf '%s\\n' '10_0|COMPLETED|0:0' '10_1|FAILED|1:0' '11|CANCELLED by 0|0:0' '12|RUNNING|0:0' "
        "'13|CANCELLED by 0|0:0' '14|COMPLETED|0:0'",
    )
    jobs = [
        job("play", [("true",), ("false",)]),
        job("more", needs=("play",)),
        job("slow"),
        job("last", needs=("more", "slow")),
        job("table", stage="aggregate", needs=("play", "more", "last")),
    ]
    site = cluster()
    made = folders.make(tmp_path / "out", "made", None, "made", site, plan(jobs, site), "slurm")
    submit.submit_all(made, lambda text: None)
    for name, element, slurm_id in (("play", 0, "10_0"), ("table", 0, "14")):
        status(made, name, element, slurm_id)
    return made


def status(made, name, element, slurm_id):
    """What a script writes when all is well."""
    text = (
        f'{{"state": "completed", "element": {element}, "attempt": 1, "task": 1, "slurm_id": "{slurm_id}", '
        '"restart": 0, "host": "n1", "pid": 7, "started": 1, "ended": 2, "exit_code": 0, "reason": ""}'
    )
    (made.job(name) / f"status/{element}.json").write_text(text)


def calls(tmp_path):
    out = f"{tmp_path}/out/jobs/"
    return (tmp_path / "calls").read_text().replace(out, "").splitlines()


def test_jobs_wait_for_their_needs(launch, tmp_path):
    names = ["play", "more", "slow", "last", "table"]
    assert [s.job for s in launch.record.submissions] == names
    assert [s.slurm_id for s in launch.record.submissions] == ["10", "11", "12", "13", "14"]
    assert calls(tmp_path) == [
        "--parsable play/job.sh",
        "--parsable --dependency=afterok:10 --kill-on-invalid-dep=yes more/job.sh",
        "--parsable slow/job.sh",
        "--parsable --dependency=afterok:11:12 --kill-on-invalid-dep=yes last/job.sh",
        "--parsable --dependency=afterany:10:11:13 --kill-on-invalid-dep=yes table/job.sh",
    ]


def test_states_are_those_of_own_files_then_of_the_scheduler(launch):
    states = {job.name: [element.state for element in job.elements] for job in look(launch)}
    assert states == {
        "play": ["completed", "failed"],
        "more": ["cancelled"],
        "slow": ["running"],
        "last": ["cancelled"],
        "table": ["completed"],
    }


@pytest.mark.parametrize(
    ("names", "failed", "owed"),
    [
        ((), True, {"play": [1], "more": [0], "last": [0], "table": [0]}),
        ((), False, {"play": [0, 1], "more": [0], "last": [0], "table": [0]}),
        (("more",), True, {"more": [0], "table": [0]}),
        (("slow",), False, {}),
    ],
)
def test_what_is_owed(launch, names, failed, owed):
    assert resubmit.owed(look(launch), names, failed) == owed


def test_what_is_submitted_again_waits_for_what_still_runs(launch, tmp_path):
    looked = look(launch)
    (tmp_path / "calls").unlink()
    submit.submit_all(launch, lambda text: None, resubmit.owed(looked, (), True), resubmit.active(launch, looked))
    assert calls(tmp_path) == [
        "--parsable --array=1 play/job.sh",
        "--parsable --dependency=afterok:15 --kill-on-invalid-dep=yes more/job.sh",
        "--parsable --dependency=afterok:12:16 --kill-on-invalid-dep=yes last/job.sh",
        "--parsable --dependency=afterany:15:16:17 --kill-on-invalid-dep=yes table/job.sh",
    ]
    assert folders.LaunchFolder.read(launch.path).record.submissions[-1].slurm_id == "18"


def test_only_what_waits_or_runs_is_cancelled(launch, tmp_path):
    (tmp_path / "calls").unlink()
    assert resubmit.stop(launch, look(launch)) == ["12"]
    assert calls(tmp_path) == ["cancel 12"]
