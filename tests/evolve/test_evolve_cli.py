"""`automem evolve` and `automem table --lineage` as commands: exit codes, going on after kills, what is printed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from loops import best, forgetful, revised, rows, verdicts

from automem.scaffold.spec import load

GAME = (
    "evolve",
    "courier/small",
    "--from",
    "courier-v0",
    "-m",
    "scripted:courier",
    "--max-steps",
    "45",
    "--gate",
    "mean",
)
SEEDS = ("--gate-seeds", "7", "--report-seeds", "6")
COMMAND = [sys.executable, "-c", "from automem.cli.main import main; main()"]


@pytest.fixture
def shelf(tmp_path):
    """A folder of proposals, in this order."""

    def fill(*writers):
        for number, write in enumerate(writers):
            write(SimpleNamespace(output=tmp_path / "shelf" / f"p{number}"))
        return "--proposer", "recorded", "--proposals", "shelf"

    return fill


def start(*arguments, cwd):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_from_a_command_to_a_table(automem, shelf, tmp_path):
    proposals = shelf(forgetful(), revised())
    code, out, err = automem(*GAME, *SEEDS, *proposals, "--revisions", "1", "-o", "e")
    assert code == 0, err
    assert out.startswith("stopped: all revisions were made\n\nOn the report seeds:\n\n|")
    assert "best against start: 0." in out
    assert "The best scaffold is in e/best" in out
    assert "revision 1, attempt 1: recorded" in err and "accepted: mean gate: 0.100 -> 0.150" in err
    assert best(tmp_path / "e").digest == rows(tmp_path / "e")[-1]["digest"]

    code, table, _ = automem("table", "e", "--lineage")
    assert code == 0
    assert [line.split(" | ")[5] for line in table.splitlines()[2:]] == ["rejected", "accepted"]
    code, data, _ = automem("table", "e", "--lineage", "--json")
    assert [row["verdict"] for row in json.loads(data)["rows"]] == ["rejected", "accepted"]
    code, out, err = automem("table", "e", "--lineage", "-f", "csv")
    assert (code, out) == (2, "")
    assert "--lineage cannot be printed as csv" in err

    again, told, _ = automem(*GAME, *SEEDS, *proposals, "--revisions", "1", "-o", "e")
    assert (again, told.splitlines()[0]) == (0, "stopped: all revisions were made")


def test_a_dry_run_shows_the_settings_and_writes_nothing(automem, tmp_path):
    code, out, err = automem(*GAME, *SEEDS, "--allow", "task-advice,memory-structure", "-n", "-o", "e")
    assert (code, err) == (0, "")
    asked = json.loads(out)
    assert (asked["gate_seeds"], asked["report_seeds"], asked["gate"]) == ([7], [6], "mean")
    assert asked["allowed"] == ["memory-structure", "task-advice"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--gate-seeds", "0-9", "--report-seeds", "5-12"), "seeds 5, 6, 7, 8, 9 are gate seeds and report seeds"),
        ((*SEEDS, "--allow", "memory-magic"), "--allow: unknown kind of change 'memory-magic'"),
        ((*SEEDS, "-s", "loop.max_call=3"), "unknown key 'max_call'"),
        ((*SEEDS, "-s", "loop.max_usd=3"), "max_usd needs the prices"),
        ((*SEEDS, "-s", "gate.confidence=0.9"), "the mean gate has no settings"),
        ((*SEEDS, "--from", "crafter-v0"), "scaffold 'crafter-v0' is for crafter"),
        ((*SEEDS, "--from", "courier-v9"), "unknown scaffold 'courier-v9'"),
        ((*SEEDS, "-o", "file"), "-o file: there is a file of that name"),
        ((*SEEDS, "-o", "other"), "-o other: the folder holds something else"),
    ],
)
def test_bad_input(automem, tmp_path, arguments, error):
    (tmp_path / "file").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").touch()
    code, out, err = automem(*GAME, *arguments)
    assert (code, out) == (2, "")
    assert error in err
    assert {path.name for path in tmp_path.iterdir()} <= {"file", "other"}


def test_other_settings_for_a_folder_are_refused_and_named(automem, shelf):
    proposals = shelf(forgetful())
    assert automem(*GAME, *SEEDS, *proposals, "-o", "e")[0] == 0
    code, out, err = automem(*GAME, "--gate-seeds", "7,8", "--report-seeds", "6", *proposals, "-o", "e")
    assert (code, out) == (2, "")
    assert "error: e was made with other settings: gate_seeds: [7] there, [7, 8] here" in err


def test_too_few_episodes_for_the_confidence_are_told(automem):
    paired = [argument for argument in GAME if argument not in ("--gate", "mean")]
    code, _, err = automem(*paired, *SEEDS, "-n")
    assert code == 0
    assert "warning: 1 gate episodes cannot reach 95% confidence" in err and "use at least 5" in err


def test_an_endpoint_that_is_down_is_exit_code_1_and_owed_again(automem, shelf, tmp_path):
    down = ("--proposer", "openai", "--proposer-model", "any", "--proposer-base-url", "http://127.0.0.1:9/v1")
    arguments = (*GAME, *SEEDS, *down, "-s", "proposer.retries=0", "-o", "e")
    code, out, err = automem(*arguments)
    assert (code, out) == (1, "")
    assert "error: the proposer could not be asked" in err and "hint: the same command tries it again" in err
    assert verdicts(tmp_path / "e") == ["1.1: outage"]
    assert automem(*arguments)[0] == 1
    assert verdicts(tmp_path / "e") == ["1.1: outage", "1.1: outage"]
    assert best(tmp_path / "e").digest == load("courier-v0").digest


def test_budgets_are_named(automem, tmp_path):
    code, out, _ = automem(*GAME, *SEEDS, "-s", "loop.max_calls=50", "-o", "e")
    assert code == 0
    assert out.startswith("stopped: the budget is used up: max_calls 50\n")
    assert (tmp_path / "e" / "best" / "scaffold.yaml").is_file()


def test_a_second_process_is_refused(automem, tmp_path):
    with start(*GAME, *SEEDS, "--gate-seeds", "10-39", "-o", "e", cwd=tmp_path) as first:
        try:
            wait_for(tmp_path / "e" / "plays")
            code, out, err = automem(*GAME, *SEEDS, "--gate-seeds", "10-39", "-o", "e")
            assert (code, out) == (2, "")
            assert f"error: e is being written by pid {first.pid} on " in err
        finally:
            first.kill()


def wait_for(path):
    limit = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < limit
        time.sleep(0.02)


LONG = (
    *GAME,
    "--gate-seeds",
    "6,7",
    "--report-seeds",
    "5",
    "--revisions",
    "2",
    "-s",
    "loop.attempts=2",
    "--aa",
    "-o",
    "e",
)


def timeless(folder):
    """The rows of the lineage without their seconds."""
    found = rows(folder)
    for row in found:
        for cost in ("proposal_cost", "play_cost"):
            del row[cost]["seconds"]
    return found


def undisturbed(shelf, folder):
    """What the long command prints, and how long it takes, when nobody kills it."""
    proposals = shelf(forgetful(), revised(env="crafter"), revised(), forgetful(2), forgetful(3), forgetful(4))
    began = time.monotonic()
    with start(*LONG, *proposals, cwd=folder) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return proposals, out, time.monotonic() - began


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_anywhere_it_ends_as_if_undisturbed(shelf, tmp_path, seed):
    proposals, told, seconds = undisturbed(shelf, tmp_path)
    (tmp_path / "e").rename(tmp_path / "whole")
    chance = random.Random(seed)
    for _ in range(8):
        with start(*LONG, *proposals, cwd=tmp_path) as process:
            time.sleep(chance.uniform(0.4, max(0.5, seconds / 2)))
            process.send_signal(signal.SIGKILL)
    with start(*LONG, *proposals, cwd=tmp_path) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out == told
    assert timeless(tmp_path / "e") == timeless(tmp_path / "whole")
    assert best(tmp_path / "e").digest == best(tmp_path / "whole").digest
    assert sorted(p.name for p in (tmp_path / "e" / "plays").iterdir()) == sorted(
        p.name for p in (tmp_path / "whole" / "plays").iterdir()
    )


def test_interrupted_it_says_how_to_go_on(tmp_path):
    arguments = (*GAME, *SEEDS, "--gate-seeds", "10-39", "-o", "e")
    with start(*arguments, cwd=tmp_path) as process:
        wait_for(tmp_path / "e" / "plays")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "interrupted; the same command goes on with e" in err
    assert "Traceback" not in err
