from __future__ import annotations

import pytest
from handmade import call, ended, failed, op, play, run, spec, splice, write

from automem.messages import Usage
from automem.results.diff import Difference, diff_runs, diff_traces

DONE = (ended(0.5), ended(0.5))


def steps(**changes):
    base = {
        "calls": [
            [call("log", op("APPEND", "log", "x"), reply="<|APPEND|>log|x<|END|>")],
            [call("plan", op("ACTION", "east"), reply="<|ACTION|>east<|END|>")],
        ],
        "action": ["wait", "east"],
        "memory": [[splice("log", 0, 0, "x")], []],
    }
    return play("abc", **base | changes)


def found(tmp_path, one, other, results=DONE):
    a = write(tmp_path / "a" / "t.jsonl", one, results[0])
    b = write(tmp_path / "b" / "t.jsonl", other, results[1])
    return diff_traces(a, b)


def test_times_retries_cache_and_the_header_are_not_compared(tmp_path):
    one, other = steps(), steps()
    other[0].seconds = {"env": 1.5}
    other[0].calls[0].seconds = 9.0
    other[0].calls[0].retries = 3
    other[0].calls[0].usage = Usage(100, 10, cached=96)
    models = {"gameplay": {"name": "replay:runs/a"}}
    a = write(tmp_path / "a.jsonl", one, ended(0.5))
    b = write(tmp_path / "b.jsonl", other, ended(0.5), spec(models=models))
    assert diff_traces(a, b) is None


CHANGES = {
    "calls[0].reply": lambda s: setattr(s[1].calls[0], "reply", "<|ACTION|>west<|END|>"),
    "calls[0].messages[1].content": lambda s: s[1].calls[0].messages[1].update(content="other"),
    "calls[0].operations[0].ok": lambda s: setattr(s[1].calls[0].operations[0], "ok", False),
    "calls[0].usage.prompt": lambda s: setattr(s[1].calls[0], "usage", Usage(101, 10)),
    "calls[1]": lambda s: s[1].calls.append(call("plan")),
    "action": lambda s: setattr(s[1], "action", "west"),
    "memory[0]": lambda s: s[1].memory.append(splice("log", 1, 0, "y")),
    "reward": lambda s: setattr(s[1], "reward", 1.0),
    "observation": lambda s: setattr(s[1], "observation", "B"),
}


@pytest.mark.parametrize("field", CHANGES)
def test_the_first_change_is_named(tmp_path, field):
    other = steps()
    CHANGES[field](other)
    difference = found(tmp_path, steps(), other)
    assert (difference.step, difference.field) == (1, field)
    assert difference.a != difference.b


def test_the_earliest_of_several_changes_is_the_one(tmp_path):
    other = steps(action=["east", "west"], memory=[[splice("log", 0, 0, "z")], []])
    difference = found(tmp_path, steps(), other)
    assert difference == Difference("courier/short, seed 0", 0, "action", '"wait"', '"east"')
    assert str(difference) == 'courier/short, seed 0, step 0, action:\n  a: "wait"\n  b: "east"'


def test_changed_memory_is_shown(tmp_path):
    difference = found(tmp_path, steps(), steps(memory=[[splice("log", 0, 0, "z")], []]))
    assert (difference.field, difference.a, difference.b) == ("memory[0].inserted[0]", '"x"', '"z"')


def test_long_values_are_shown_around_the_place_where_they_part(tmp_path):
    one, other = steps(), steps()
    one[0].calls[0].reply = "same " * 500 + "left" + " same" * 500
    other[0].calls[0].reply = "same " * 500 + "right" + " same" * 500
    difference = found(tmp_path, one, other)
    assert "left" in difference.a
    assert "right" in difference.b
    assert len(difference.a) < 80


def test_a_shorter_trace_another_result_and_an_unfinished_one_differ(tmp_path):
    short = found(tmp_path / "1", steps(), steps()[:1], (ended(0.5), ended(0.5, steps=1)))
    assert (short.step, short.field, short.a, short.b) == (1, "step", "played: east", "not played")
    scored = found(tmp_path / "2", steps(), steps(), (ended(0.5), ended(1.0)))
    assert (scored.step, scored.field, scored.a, scored.b) == (None, "result.progress", "0.5", "1.0")
    broken = found(tmp_path / "3", steps(), steps(), (ended(0.5), None))
    assert (broken.step, broken.field, broken.b) == (None, "result", '"not finished"')


def test_runs_are_paired_by_place(tmp_path):
    a = run(tmp_path / "a", {0: ended(0.5), 1: ended(0.5), 2: failed()})
    b = run(tmp_path / "b", {0: ended(0.5), 1: ended(0.75), 3: ended(0.5)}, scaffold_digest="d2")
    b.trace_path(b.config.specs()[2]).rename(tmp_path / "elsewhere")
    difference = diff_runs(a, b.path)
    result, only = difference.differences
    assert result == Difference("courier/short, seed 1", None, "result.progress", "0.5", "0.75")
    assert only == Difference("courier/short, seed 2", None, "episode", "played", "not played")
    assert str(only) == "courier/short, seed 2, episode:\n  a: played\n  b: not played"
    assert str(difference) == f"{result}\n{only}"
    assert [(d.a, d.b) for d in diff_runs(b, a).differences] == [("0.75", "0.5"), ("not played", "played")]
    assert diff_runs(a.path, a) is None
