from __future__ import annotations

import json
import sys

import pytest
from handmade import call, ended, failed, play, run, spec, write

from automem.errors import RunError, UsageError
from automem.results.export import export_rows, rows, write_parquet

REPLY = "  Look <|SEARCH|>map|ключ<|END|>\n\n\n\ttail \u2028 \U0001f5fa  "


@pytest.fixture
def trace(tmp_path):
    first = call("log", reply="<|DONE|><|END|>")
    talk = [
        *first.messages,
        {"role": "assistant", "content": REPLY},
        {"role": "user", "content": "long " * 99},
    ]
    second = call("plan", reply=REPLY)
    third = call("plan", reply="<|ACTION|>east<|END|>", messages=talk)
    return write(tmp_path / "t.jsonl", play("abc", calls=[[first, second, third], [second]]), ended(1.0), spec(7))


@pytest.fixture
def native(tmp_path):
    used = [{"id": "c1", "name": "SEARCH", "arguments": '{"file":  "map"}'}]
    messages = [
        {"role": "user", "content": "plan"},
        {"role": "assistant", "content": "", "tool_calls": used},
        {"role": "tool", "content": "1 hit", "tool_call_id": "c1"},
    ]
    calls = [[call("plan", messages=messages, reply="", tool_calls=used)]]
    return write(tmp_path / "native.jsonl", play("ab", calls=calls))


def test_one_row_for_each_call_word_for_word(trace):
    found = list(rows([trace]))
    assert [(r["step"], r["call"], r["phase"], r["role"]) for r in found] == [
        (0, 0, "log", "memory"),
        (0, 1, "plan", "gameplay"),
        (0, 2, "plan", "gameplay"),
        (1, 0, "plan", "gameplay"),
    ]
    assert found[1]["completion"] == [{"role": "assistant", "content": REPLY}]
    assert found[2]["prompt"][2:] == [
        {"role": "assistant", "content": REPLY},
        {"role": "user", "content": "long " * 99},
    ]
    assert {key: found[0][key] for key in ("episode", "env", "task", "seed")} == {
        "episode": spec(7).id,
        "env": "courier",
        "task": "short",
        "seed": 7,
    }


def test_rows_of_one_role_or_phase(trace):
    assert [r["call"] for r in rows([trace], role="memory")] == [0]
    assert [r["step"] for r in rows([trace, trace], phase="plan")] == [0, 0, 1, 0, 0, 1]
    assert list(rows([trace], role="memory", phase="plan")) == []


def test_tool_calls_take_the_form_of_the_wire(native):
    (row,) = rows([native])
    wired = [{"id": "c1", "type": "function", "function": {"name": "SEARCH", "arguments": '{"file":  "map"}'}}]
    assert row["prompt"][1]["tool_calls"] == wired
    assert row["prompt"][2]["tool_call_id"] == "c1"
    assert row["completion"] == [{"role": "assistant", "content": "", "tool_calls": wired}]


def read(path):
    return [json.loads(line) for line in path.read_text().removesuffix("\n").split("\n")]


def test_jsonl_is_one_row_a_line(trace, tmp_path):
    out = tmp_path / "new" / "rows.jsonl"
    assert export_rows(trace, out) == 4
    assert read(out) == list(rows([trace]))
    assert export_rows(trace, out, role="memory") == 1
    assert read(out) == list(rows([trace], role="memory"))
    assert list(out.parent.iterdir()) == [out]


def test_a_run_gives_the_rows_of_all_its_traces(tmp_path):
    folder = run(tmp_path / "r", {0: ended(1.0), 1: failed(), 2: None})
    for one in folder.config.specs()[:2]:
        folder.trace_path(one).unlink()
        write(folder.trace_path(one), play("ab", calls=[[call("plan")]]), ended(1.0, steps=1), one)
    folder.trace_path(folder.config.specs()[2]).unlink()
    assert export_rows(folder.path, tmp_path / "rows.jsonl") == 2
    assert [row["seed"] for row in read(tmp_path / "rows.jsonl")] == [0, 1]


def test_parquet_holds_the_same_rows(trace, native, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    assert write_parquet(rows([trace, native]), path) == 5

    def bare(value):
        if isinstance(value, dict):
            return {key: bare(inner) for key, inner in value.items() if inner is not None}
        return [bare(inner) for inner in value] if isinstance(value, list) else value

    assert [bare(row) for row in parquet.read_table(path).to_pylist()] == list(rows([trace, native]))


def test_parquet_without_pyarrow_says_what_to_install(trace, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError) as caught:
        export_rows(trace, tmp_path / "rows.parquet")
    assert caught.value.hint == "pip install 'automem[parquet]'"


@pytest.mark.parametrize(
    ("name", "filters", "message"),
    [
        ("rows.csv", {}, "cannot tell the format"),
        ("rows.jsonl", {"role": "meta"}, "unknown role 'meta'"),
        ("rows.jsonl", {"phase": "LOG"}, "unknown phase 'LOG'"),
    ],
)
def test_wrong_wishes_are_refused(trace, tmp_path, name, filters, message):
    with pytest.raises(UsageError, match=message):
        export_rows(trace, tmp_path / name, **filters)


def test_a_damaged_trace_leaves_no_half_of_a_file(trace, tmp_path):
    lines = trace.read_text().split("\n")
    trace.write_text("\n".join([*lines[:2], "{", *lines[2:]]))
    with pytest.raises(UsageError, match="line 3"):
        export_rows(trace, tmp_path / "out" / "rows.jsonl")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_unwritable_place_is_a_run_error(trace):
    with pytest.raises(RunError, match="cannot write"):
        export_rows(trace, trace / "rows.jsonl")
