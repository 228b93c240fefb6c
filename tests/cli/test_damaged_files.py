"""What commands say about files that are damaged: one error with file and line, one hint, exit code 2."""

import json
from pathlib import Path

import pytest
from asking import fault

RUN = ("run", "courier/small", "-S", "courier-v1", "-m", "scripted:courier", "--max-steps", "3", "-o", "a")
FRESH = "hint: delete this file and run again: its episode is played afresh"


@pytest.fixture
def trace(automem):
    """The trace of the first of two episodes of a finished run in the folder `a`."""
    assert automem(*RUN, "--seeds", "0-1")[0] == 0
    return sorted(Path("a/traces/courier/small").iterdir())[0]


def without_step(trace):
    lines = trace.read_bytes().splitlines(keepends=True)
    trace.write_bytes(b"".join(lines[:2] + lines[3:]))
    return f"error: {trace}, line 3: damaged: step 2 stands where step 1 is due"


@pytest.mark.parametrize(
    "command",
    [
        ("run", *RUN[1:], "--seeds", "0-1"),
        ("run", *RUN[1:], "--seeds", "0-1", "-n"),
        ("table", "a"),
        ("diagnose", "a"),
        ("trace", "export", "a", "-o", "rows.jsonl"),
    ],
)
def test_a_line_of_a_finished_trace_is_missing(automem, trace, command):
    said = without_step(trace)
    assert fault(automem(*command)) == (said, FRESH)
    assert not Path("rows.jsonl").exists()


def test_a_damaged_trace_is_listed_as_such(automem, trace):
    said = without_step(trace)
    code, out, err = automem("trace", "list", "a")
    assert (code, err.splitlines()) == (2, [said, FRESH])
    assert [line.split()[2] for line in out.splitlines()] == ["damaged", "truncated"]
    code, out, err = automem("trace", "list", "a", "--json")
    assert (code, err.splitlines()) == (2, [said, FRESH])
    assert [row["end"] for row in json.loads(out)] == ["damaged", "truncated"]


def test_the_hint_is_a_way_out(automem, trace):
    without_step(trace)
    trace.unlink()
    assert automem(*RUN, "--seeds", "0-1")[0] == 0
    assert automem("trace", "list", "a")[0] == 0


@pytest.mark.parametrize(
    "command", [("table", "a"), ("table", "."), ("trace", "list", "a"), ("trace", "show", "a"), RUN]
)
def test_run_json_is_gone(automem, trace, command):
    Path("a/run.json").unlink()
    error, hint = fault(automem(*command))
    assert error == "error: a/run.json is missing, but there are traces of a run in a/traces"
    assert "bring it back from a copy" in hint


def test_what_is_no_trace(automem):
    Path("page.md").write_text("# Page\n\nText.\n")
    assert fault(automem("trace", "show", "page.md")) == (
        "error: page.md, line 1: not JSON",
        "hint: traces are the files traces/ENV/TASK/EPISODE.jsonl of a run folder",
    )


def test_a_launch_without_its_record_still_has_a_table(automem, trace):
    Path("launch").mkdir()
    Path("a").rename("launch/a")
    Path("launch/launch.json").write_text("{")
    code, out, _ = automem("table", "launch")
    assert code == 0
    assert "| launch/a |" in out
    assert fault(automem("table", "launch", "--paper")) == (
        "error: launch/launch.json is damaged: it breaks off in the middle",
        "hint: put it right or bring it back from a copy; without it `automem table` still reads the runs",
    )
