from __future__ import annotations

import csv
import io
import json

import pytest
from handmade import call, ended, failed, play, run, write

from automem.episode import ModelSpec
from automem.messages import Usage
from automem.results.table import build_table, to_cells, to_csv, to_json, to_latex, to_markdown


@pytest.fixture
def mixed(tmp_path):
    """Four episodes finished, one failed, one unfinished, one without a trace."""
    outcomes = {
        **{seed: ended(progress) for seed, progress in enumerate([0.25, 0.5, 0.5, 0.75])},
        4: failed("model"),
        5: None,
        6: None,
    }
    folder = run(tmp_path / "mixed", outcomes)
    folder.trace_path(folder.config.specs()[6]).unlink()
    return folder


def row(table):
    (only,) = table.rows
    return only


def test_failed_and_unfinished_episodes_stand_beside_the_mean(mixed):
    found = row(build_table([mixed]))
    assert (found.mean, found.n, found.failed) == (0.5, 4, 3)
    assert found.failures == {"model": 1, "unfinished": 2}
    assert found.se == pytest.approx(0.125**0.5 / 2 / 2)


def test_the_standard_error_of_a_sample_is_larger(mixed):
    assert row(build_table([mixed], sample_se=True)).se == pytest.approx((0.125 / 3) ** 0.5 / 2)


def test_no_finished_episode_has_no_mean(tmp_path):
    table = build_table([run(tmp_path / "r", {0: failed("env"), 1: None})])
    data = json.loads(to_json(table))["rows"][0]
    assert data["mean"] is None
    assert data["se"] is None
    assert data["steps"] is None
    assert (data["n"], data["failed"], data["failures"]) == (0, 2, {"env": 1, "unfinished": 1})
    titles, (cells,) = to_cells(table)
    assert cells[titles.index("progress %")] == "–"


def test_a_torn_result_line_is_an_unfinished_episode(mixed):
    path = mixed.trace_path(mixed.config.specs()[0])
    path.write_bytes(path.read_bytes()[:-5])
    found = row(build_table([mixed]))
    assert (found.n, found.failures["unfinished"]) == (3, 3)
    assert found.mean == pytest.approx(1.75 / 3)


def test_what_an_episode_cost_is_a_mean_over_finished_episodes(tmp_path):
    folder = run(tmp_path / "r", {0: ended(1.0), 1: failed()})
    one, other = folder.config.specs()
    calls = [[call("log", usage=Usage(500, 30)), call("plan", usage=Usage(700, 40))], []]
    for spec, result in ((one, ended(1.0)), (other, failed())):
        folder.trace_path(spec).unlink()
        write(folder.trace_path(spec), play("abc", calls=calls), result, spec)
    data = json.loads(to_json(build_table([folder])))["rows"][0]
    assert {key: data[key] for key in ("steps", "tokens_in", "tokens_out", "calls")} == {
        "steps": 2,
        "tokens_in": 1200,
        "tokens_out": 70,
        "calls": 2,
    }


def test_rows_by_task_and_seed(tmp_path):
    folder = run(tmp_path / "r", {0: ended(0.0), 1: ended(1.0)}, tasks=["short", "long"])
    assert [(r.task, r.n, r.mean) for r in build_table([folder]).rows] == [("all", 4, 0.5)]
    by_task = build_table([folder], by=["task"])
    assert [(r.task, r.n, r.mean) for r in by_task.rows] == [("short", 2, 0.5), ("long", 2, 0.5)]
    by_both = build_table([folder], by=["task", "seed"])
    assert [(r.task, r.seeds, r.mean) for r in by_both.rows] == [
        ("short", (0,), 0.0),
        ("short", (1,), 1.0),
        ("long", (0,), 0.0),
        ("long", (1,), 1.0),
    ]
    titles, cells = to_cells(by_both)
    assert [line[titles.index("seed")] for line in cells] == ["0", "1", "0", "1"]
    assert cells[1][titles.index("progress %")] == "100.0"


def test_runs_on_other_seeds_are_flagged_and_runs_on_the_same_are_not(tmp_path):
    first = run(tmp_path / "a", {0: ended(1.0), 1: ended(1.0), 2: ended(1.0), 9: ended(1.0)})
    second = run(tmp_path / "b", {0: ended(1.0), 1: ended(1.0)})
    third = run(tmp_path / "c", {0: ended(1.0)}, env="crafter")
    (note,) = [note for note in build_table([first, second, third]).notes if "differ" in note]
    assert note == f"courier: seeds differ between runs ({first.name}: 0-2,9; {second.name}: 0-1)."
    assert not any("differ" in note for note in build_table([first, third]).notes)


def test_failures_and_estimated_tokens_are_noted(mixed):
    spec = mixed.config.specs()[0]
    left_out = f"{mixed.name}, courier, short: 3 of 7 episodes are not in the mean (model 1, unfinished 2)."
    assert build_table([mixed]).notes[1:] == (left_out,)
    mixed.trace_path(spec).unlink()
    calls = [[call("plan", usage=Usage(1, 1, estimated=True))]] * 2
    write(mixed.trace_path(spec), play("abc", calls=calls), ended(0.25), spec)
    estimated = "Tokens are estimated from the length of the texts."
    assert build_table([mixed]).notes[1:] == (left_out, estimated)


def test_json_and_csv_have_plain_numbers(mixed):
    table = build_table([mixed], behaviour=True)
    (data,) = json.loads(to_json(table))["rows"]
    assert (data["run"], data["env"], data["task"], data["scaffold"]) == (
        mixed.name,
        "courier",
        "short",
        "courier-v0",
    )
    assert data["models"] == {"gameplay": "scripted:courier"}
    assert data["seeds"] == [0, 1, 2, 3, 4, 5, 6]
    assert data["unproductive_rate"] == 0
    assert data["repeat_write_rate"] is None
    assert data["file_growth"] == {}
    (line,) = csv.DictReader(io.StringIO(to_csv(table)))
    assert list(line) == list(data)
    assert (line["mean"], line["n"], line["failed"]) == ("0.5", "4", "3")
    assert line["failures"] == "model=1;unfinished=2"
    assert line["repeat_write_rate"] == ""


def test_behaviour_columns_come_on_request(mixed):
    plain, _ = to_cells(build_table([mixed]))
    full, cells = to_cells(build_table([mixed], behaviour=True))
    assert full[: len(plain)] == plain
    assert dict(zip(full, cells[0], strict=True))["unproductive %"] == "0.0"


def test_markdown(mixed):
    lines = to_markdown(build_table([mixed])).splitlines()
    assert lines[0].startswith("| run | env | task | scaffold | model | progress % | n | failed |")
    assert lines[1].startswith("| --- | --- | --- | --- | --- | ---: | ---: | ---: |")
    assert "| 50.0 ± 8.8 | 4 | 3 (model 1, unfinished 2) | 2.0 |" in lines[2]
    assert lines[4].startswith("± is one standard error: population standard deviation")


def test_latex(mixed):
    text = to_latex(build_table([mixed]))
    assert r"\begin{tabular}{lllllrrrrrrr}" in text
    assert r"& 50.0 $\pm$ 8.8 & 4 & 3 (model 1, unfinished 2) & 2.0 &" in text
    assert r"progress \%" in text
    assert text.count(r" \\") == 2


def test_names_are_escaped(tmp_path):
    models = {"gameplay": ModelSpec(name=r"openai:a|b_c\d"), "memory": ModelSpec(name="local:50%&{x}")}
    table = build_table([run(tmp_path / "r", {0: ended(1.0)}, scaffold="my_s|x", models=models)])
    markdown = to_markdown(table)
    assert r"| my\_s\|x | gameplay=openai:a\|b\_c\\d, memory=local:50%&{x} |" in markdown
    assert r"& my\_s\textbar{}x & gameplay=openai:a\textbar{}b\_c\textbackslash{}d, memory=local:50\%\&\{x\} &" in (
        to_latex(table)
    )


def test_a_table_of_no_runs_renders():
    table = build_table([])
    assert json.loads(to_json(table))["rows"] == []
    assert to_csv(table) == ""
    assert to_markdown(table).startswith("| run |")
    assert r"\end{tabular}" in to_latex(table)
