"""`launch.json` and the status files, spoilt: one error that names file and key, one hint, exit code 2."""

import json
import sys
from pathlib import Path

import pytest
from made import cluster, job

from automem.launch import folder as folders
from automem.launch.plan import plan

LAUNCH = Path("runs/made/launch.json")
STATUS = Path("runs/made/jobs/play/status/0.json")
MEND_LAUNCH = "put it right or bring it back from a copy; without it `automem table` still reads the runs"
MEND_STATUS = "delete it: a job that runs writes it anew, and `automem job resubmit` goes on with one that has ended"


@pytest.fixture
def launch(automem, tmp_path):
    """A launch on this machine of one job, completed."""
    site = cluster()
    jobs = plan([job("play", [("echo", "played")])], site, sys.maxsize)
    folders.make(tmp_path / "runs/made", "made", None, "made", site, jobs, "local")
    assert automem("job", "resubmit", "runs/made")[0] == 0


def edited(*path, **changes):
    """A change of the mapping at `path`; None takes a key away."""

    def change(text):
        data = json.loads(text)
        here = data
        for part in path:
            here = here[part]
        here.update(changes)
        for key in [key for key, value in changes.items() if value is None]:
            del here[key]
        return json.dumps(data)

    return change


ANY = {
    "empty": (lambda text: "", "it is empty"),
    "cut": (lambda text: text[:40], "it breaks off in the middle"),
    "no JSON": (lambda text: "x" + text, "line 1 is not JSON"),
    "a list": (lambda text: "[]", "expected keys and values, here is a list"),
}
IN_LAUNCH = {
    **ANY,
    "nothing": (lambda text: "{}", "experiment: this key is missing"),
    "a key is missing": (edited("jobs", 0, "job", tasks=None), "jobs.0.job.tasks: this key is missing"),
    "a key too many": (edited("jobs", 0, per_=1), "jobs.0.per_: unknown key 'per_'"),
    "a wrong value": (edited(on="cloud"), "on: input should be 'slurm' or 'local'"),
    "no elements": (edited("jobs", 0, per=0), "jobs.0.per: input should be greater than or equal to 1"),
    "no parts": (edited("jobs", 0, parts=[]), "jobs.0.parts: it needs at least 1"),
    "a name": (
        edited("jobs", 0, "job", name="Play!"),
        "jobs.0.job.name: it is made of small letters, digits, '.', '_' and '-', and begins with a letter or digit",
    ),
    "a submission of nothing": (
        edited(submissions=[{"job": "play", "part": 7, "slurm_id": "1", "elements": [0], "at": 0.0}]),
        "part 7 of 'play' was submitted, and there is none",
    ),
}
IN_STATUS = {
    **ANY,
    "a key is missing": (edited(pid=None), "pid: this key is missing"),
    "a key too many": (edited(stat="x"), "stat: unknown key 'stat'"),
    "a wrong value": (edited(started="soon"), "started: input should be a valid integer"),
    "a wrong state": (edited(state="complete"), "state: input should be 'running', 'completed', "),
}
DAMAGE = [(LAUNCH, name) for name in IN_LAUNCH] + [(STATUS, name) for name in IN_STATUS]


@pytest.mark.parametrize(("file", "damage"), DAMAGE)
def test_damage_is_named(automem, launch, file, damage):
    change, said = (IN_LAUNCH if file is LAUNCH else IN_STATUS)[damage]
    text = change(file.read_text())
    file.write_text(text)
    for command in ("list", "watch", "logs", "cancel", "resubmit"):
        code, out, err = automem("job", command, "runs/made")
        assert (code, out) == (2, "")
        error, hint = err.splitlines()
        assert error.startswith(
            f"error: {file} is damaged: {said}".replace("runs/made/jobs", f"{Path.cwd()}/runs/made/jobs")
        )
        assert hint.endswith(MEND_LAUNCH if file is LAUNCH else MEND_STATUS)
    assert file.read_text() == text


@pytest.mark.parametrize(("file", "hint"), [(LAUNCH, MEND_LAUNCH), (STATUS, MEND_STATUS)])
def test_what_is_no_text_and_what_is_no_file(automem, launch, file, hint):
    file.write_bytes(b"\xff\xfe{}")
    assert "is damaged: it is not text" in automem("job", "list", "runs/made")[2]
    file.unlink()
    file.mkdir()
    code, out, err = automem("job", "list", "runs/made")
    assert (code, out) == (2, "")
    assert "Is a directory" in err or "there is no runs/made/launch.json" in err


def test_a_near_name_is_told_beside_what_to_do(automem, launch):
    STATUS.write_text(edited(state="complete")(STATUS.read_text()))
    assert f"hint: did you mean 'completed'? Otherwise: {MEND_STATUS}\n" in automem("job", "list", "runs/made")[2]


def test_the_hint_for_a_status_file_is_a_way_out(automem, launch):
    STATUS.unlink()
    assert automem("job", "resubmit", "runs/made")[0] == 0
    assert json.loads(STATUS.read_text())["state"] == "completed"
