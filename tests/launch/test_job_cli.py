"""`automem job` and `automem launch`, from the command line, on this machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from made import cluster, job, served

from automem.launch import folder as folders
from automem.launch.folder import LOCK
from automem.launch.plan import plan
from automem.play.folder import locked

AUTOMEM = [sys.executable, "-c", "from automem.cli.main import main; main()"]


@pytest.fixture
def launch(automem, tmp_path):
    """A launch on this machine, not yet run: two elements, a job after them, a table."""
    jobs = [
        job("play", [("echo", "played 0"), ("bash", "-c", "echo $0 played 1; test -e mended", "x")]),
        job("more", [("echo", "more")], needs=("play",)),
        job("table", [("echo", "a table")], "aggregate", needs=("play", "more")),
    ]
    site = cluster()
    folders.make(tmp_path / "runs/made", "made", None, "made", site, plan(jobs, site, sys.maxsize), "local")
    return tmp_path / "runs/made"


def rows(automem):
    code, out, _ = automem("job", "list", "runs/made", "--json")
    assert code == 0
    ((_, jobs),) = [(launch["run"], launch["jobs"]) for launch in json.loads(out)]
    return {row["job"]: [element["state"] for element in row["elements"]] for row in jobs}


def test_from_launch_to_mended(automem, launch):
    assert rows(automem) == {"play": ["unstarted", "unstarted"], "more": ["unstarted"], "table": ["unstarted"]}
    assert automem("job", "list")[1].splitlines()[0] == "runs/made"
    code, out, err = automem("job", "resubmit", "runs/made", "--dry-run")
    assert (code, out.splitlines()[0]) == (0, "would submit play: 0, 1")
    code, out, err = automem("job", "resubmit", "runs/made")
    assert (code, err.splitlines()[0]) == (1, "play: 1 of 2")
    assert "error: 1 of 3 jobs failed and 1 passed over; the first, play: " in err
    assert rows(automem) == {"play": ["completed", "failed"], "more": ["unstarted"], "table": ["completed"]}
    code, _, err = automem("job", "logs", "runs/made")
    assert code == 0
    code, out, _ = automem("job", "logs", "runs/made", "play/0", "--follow")
    assert (code, out.splitlines()[-1]) == (0, "played 0")
    code, out, _ = automem("job", "resubmit", "runs/made", "--failed", "--dry-run")
    assert out.splitlines() == ["would submit play: 1", "would submit more: 0", "would submit table: 0"]
    Path("mended").touch()
    code, _, err = automem("job", "resubmit", "runs/made", "--failed")
    assert (code, err.splitlines()[-1]) == (0, "all 3 jobs are completed")
    assert rows(automem) == {"play": ["completed", "completed"], "more": ["completed"], "table": ["completed"]}
    assert automem("job", "watch", "runs/made", "--exit-when-done")[0] == 0


def test_a_job_alone_does_not_make_the_others_completed(automem, launch):
    Path("mended").touch()
    code, _, err = automem("job", "resubmit", "runs/made", "play")
    assert code == 0
    assert err.splitlines()[-1].startswith("2 of 3 jobs are completed, more not; `automem job resubmit runs/made --fai")
    assert rows(automem) == {"play": ["completed", "completed"], "more": ["unstarted"], "table": ["completed"]}


def test_watching_ends_where_nobody_starts_what_is_left(automem, launch):
    automem("job", "resubmit", "runs/made", "play")
    code, _, err = automem("job", "watch", "runs/made", "--exit-when-done")
    assert code == 1
    *_, failed, unstarted, error, hint = err.splitlines()
    assert failed == "play/1 failed: task 1 ended with exit code 1"
    assert unstarted == "not started, and nobody is left who would: more"
    assert error == "error: 2 of 4 elements did not succeed"
    assert hint.endswith("; `automem job resubmit runs/made --failed` goes on")


def test_watching_goes_on_while_somebody_is_there(automem, launch):
    with locked(launch / LOCK):
        assert rows(automem)["table"] == ["pending"]
        watching = subprocess.Popen([*AUTOMEM, "job", "watch", "runs/made", "--exit-when-done"])
        with pytest.raises(subprocess.TimeoutExpired):
            watching.wait(8)
    assert watching.wait(60) == 1


def test_what_failed_is_shown_first(automem, launch):
    automem("job", "resubmit", "runs/made")
    _, out, _ = automem("job", "logs", "runs/made")
    assert "==> " in out and "/jobs/play/logs/1/attempt_1/task-1.log\nx played 1\n" in out


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["list", "nowhere"], "no launch at 'nowhere'", "automem launch"),
        (["logs", "runs/made", "plya"], "there is no job 'plya'", "did you mean 'play'?"),
        (["logs", "runs/made", "play/7"], "job 'play' has no element '7'", "it has 0 to 1"),
        (["cancel", "runs/made", "mor"], "there is no job 'mor'", "did you mean 'more'?"),
    ],
)
def test_a_wrong_name(automem, launch, arguments, message, hint):
    code, out, err = automem("job", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert hint in err


def test_a_damaged_launch_is_named(automem, launch):
    (launch / "launch.json").write_text("{}")
    code, _, err = automem("job", "list", "runs/made")
    assert code == 2
    assert "error: runs/made/launch.json is damaged: " in err


def test_nothing_to_cancel(automem, launch):
    assert automem("job", "cancel", "runs/made")[2] == "nothing waits or runs\n"


def test_the_main_table_as_the_documents_say(automem):
    code, out, err = automem("launch", "main-table", "--on", "slurm", "--cluster", "example", "--dry-run")
    assert (code, err) == (0, "")
    assert "#SBATCH --gres=gpu:a100:4\n" in out
    assert "# served by: automem serve Qwen/Qwen2.5-32B-Instruct " in out
    assert "automem run crafter --scaffold crafter-v5 --model openai:Qwen/Qwen2.5-32B-Instruct " in out
    assert "sbatch --parsable --dependency=afterany:" in out
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smoke", "--on", "slurm"], "--cluster is missing"),
        (["smoek", "--on", "local"], "unknown experiment 'smoek'"),
        (["zzz", "--on", "local"], "hint: known: ablations, behaviour, "),
        (["smoke", "--on", "slurm", "--cluster", "nowhere.yaml"], "no cluster file 'nowhere.yaml'"),
        (["smoke", "--on", "local", "-s", "nothing=1"], "unknown key 'nothing'"),
    ],
)
def test_a_wrong_launch(automem, arguments, message):
    code, out, err = automem("launch", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert not Path("runs").exists()


def test_no_slurm_is_told_before_anything_is_written(automem, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = automem("launch", "smoke", "--on", "slurm", "--cluster", "ci")
    assert (code, err.splitlines()[0]) == (2, "error: there is no sbatch here")
    assert not Path("runs").exists()


def test_prefetch_names_what_it_would_fetch(automem):
    code, out, _ = automem("prefetch", "main-table", "--cluster", "example", "--dry-run")
    assert (code, out) == (0, "would fetch Qwen/Qwen2.5-32B-Instruct into /scratch/my-group/huggingface/hub\n")
    assert automem("prefetch", "smoke", "--cluster", "ci")[2] == "nothing to fetch: no model of the hub is served\n"


def test_prefetch_without_a_network(automem, tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    from automem.errors import RunError
    from automem.launch import prefetch

    # Nothing listens there, as on a compute node.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    site = cluster(hub={"home": str(tmp_path / "hf")})
    with pytest.raises(RunError, match="cannot fetch Qwen/none") as caught:
        prefetch.fetch("Qwen/none", site)
    assert "a node with network" in caught.value.hint
    wanted = [served("Qwen/none"), served("scripted:courier"), served(str(tmp_path)), served("Qwen/none")]
    assert prefetch.missing(wanted, site) == ["Qwen/none"]
    (tmp_path / "hf/hub/models--Qwen--none/snapshots/abc").mkdir(parents=True)
    assert prefetch.missing(wanted, site) == []
