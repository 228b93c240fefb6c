"""Published values beside ours: what is pooled, how differences are told, when --check fails, what is drawn."""

import csv
import io
import json
import re
from xml.etree import ElementTree

import pytest
from handmade import call, ended, failed, op, play, run, splice, write

from automem.errors import UsageError
from automem.results import figures, published
from automem.results.found import find_runs, pooled
from automem.results.published import Expected, ExpectedRow, Pool, compare, load_expected, measure
from automem.results.table import build_table

ROW = {"game": "Courier", "agent": "v0", "cell": "play/v0", "mean": 50.0, "se": 3.0, "n": 4, "tolerance": 10.0}


def expected(*rows, **changes):
    return Expected(paper="a paper", source="Table 1", rows=tuple(ExpectedRow(**row) for row in rows), **changes)


def compared(outcomes, tmp_path, **row):
    """The comparison of one published value with a run of these `outcomes`; None: there is no run."""
    pools = {} if outcomes is None else {"play/v0": Pool((run(tmp_path / "r", outcomes),))}
    return compare("made", expected({**ROW, **row}), pools)


def scores(*progress):
    return {seed: ended(value) for seed, value in enumerate(progress)}


def test_episodes_of_several_runs_are_pooled_with_the_same_weight(tmp_path):
    one, other = run(tmp_path / "a", scores(1.0)), run(tmp_path / "b", {5: ended(0.0), 6: ended(0.0), 7: failed()})
    found = measure(Pool((one, other)), "progress")
    assert (found.mean, found.n, found.failures) == (pytest.approx(100 / 3), 3, {"model": 1})
    assert found.se == pytest.approx(100 * (2 / 9) ** 0.5 / 3**0.5)


def test_published_errors_come_out_of_forty_episodes():
    """Of 40 episodes of MiniHack 3, 11 and 12 solved; of five of NetHack one worth 2.08 %."""
    from automem.results.stats import standard_error

    for solved, mean, error in ((3, 7.5, 4.16), (11, 27.5, 7.06), (12, 30.0, 7.25)):
        values = [100.0] * solved + [0.0] * (40 - solved)
        assert (sum(values) / 40, round(standard_error(values), 2)) == (mean, error)
    assert round(standard_error([2.08, 0, 0, 0, 0]), 2) == 0.37


def test_only_the_seeds_of_the_cell_count(tmp_path):
    pool = Pool((run(tmp_path / "r", scores(0.0, 1.0, 1.0)),), frozenset({0, 1}))
    assert (measure(pool, "progress").mean, measure(pool, "progress").n) == (50.0, 2)


def test_a_single_episode_tells_of_no_spread(tmp_path):
    assert measure(Pool((run(tmp_path / "r", scores(0.5)),)), "progress").se is None


def test_metrics_of_behaviour_are_in_percent_but_ratios(tmp_path):
    folder = run(tmp_path / "r", {0: ended(1.0)})
    (spec,) = folder.config.specs()
    path = folder.trace_path(spec)
    path.unlink()
    calls = [
        [call("log", op("APPEND", "f", "x", ok=True), op("SEARCH", "f", "x", ok=True, hits=0))],
        [call("log", op("APPEND", "f", "y", ok=True))],
    ]
    memory = [[splice("f", 0, 0, "four")], []]
    write(path, play("aab", calls=calls, memory=memory), ended(1.0), spec)
    pool = Pool((folder,))
    assert measure(pool, "unproductive_rate").mean == 50.0
    assert measure(pool, "empty_search_rate").mean == 100.0
    assert measure(pool, "log_writes_per_search").mean == 2.0
    assert measure(pool, "input_tokens_per_step").mean == 100.0
    assert measure(pool, "file_growth/f").mean == 2.5
    assert measure(pool, "file_growth/g").mean is None
    assert measure(pool, "repeat_write_rate").se is None


@pytest.mark.parametrize(
    ("progress", "row", "within", "fault"),
    [
        ((0.5, 0.6, 0.4, 0.5), {}, True, None),
        ((0.6, 0.6, 0.4, 0.8), {}, False, None),  # 60 ± 7.07 is 10 off, sqrt(7.07² + 3²) = 7.7
        ((0.6, 0.6, 0.4, 0.8), {"se": 8.0}, True, None),
        ((0.6, 0.6, 0.4, 0.8), {"se": None}, None, None),
        ((0.6, 0.6, 0.4, 0.9), {}, False, r"\+12.50 from the published value, more than 10"),
        ((0.3, 0.3, 0.3, 0.3), {}, False, "-20.00 from the published value"),
        ((0.3, 0.3, 0.3, 0.3), {"tolerance": None}, False, None),
        ((0.5, 0.5, 0.5), {}, True, "3 of 4 episodes$"),
    ],
)
def test_differences_and_faults(progress, row, within, fault, tmp_path):
    (found,) = compared(scores(*progress), tmp_path, **row).rows
    assert found.within is within
    assert found.fault is None if fault is None else re.search(fault, found.fault)


def test_what_is_missing_or_failed_is_a_fault_and_never_a_zero(tmp_path):
    (missing,) = compared(None, tmp_path).rows
    assert missing.fault == "missing: nothing of play/v0 was given"
    (broken,) = compared({**scores(0.5, 0.5), 2: failed(), 3: None}, tmp_path).rows
    assert (broken.difference, broken.fault) == (0.0, "2 of 4 episodes (model 1, unfinished 1)")


def test_what_nothing_here_plays_is_no_fault(tmp_path):
    assert compared(None, tmp_path, cell=None, n=None, tolerance=None).faults() == []


def test_every_format_says_the_same(tmp_path):
    table = compared(scores(0.5, 0.6, 0.4, 0.7), tmp_path)
    data = json.loads(published.to_json(table))
    (row,) = data["rows"]
    assert (row["ours"], row["published"], row["difference"], row["within"]) == (pytest.approx(55), 50.0, 5.0, True)
    (line,) = csv.DictReader(io.StringIO(published.to_csv(table)))
    assert float(line["ours"]) == pytest.approx(55)
    assert line["within"] == "True"
    assert "| Courier | v0 | 55.00 ± 5.59 | 4 | 0 | 50.00 ± 3.00 | 4 | +5.00 | yes | play/v0 |" in (
        published.to_markdown(table)
    )
    assert r"55.00 $\pm$ 5.59 & 4 & 0 & 50.00 $\pm$ 3.00 & 4 & +5.00 & yes & play/v0 \\" in published.to_latex(table)
    assert all("Table 1" in write(table) for write in (published.to_json, published.to_markdown, published.to_latex))


def test_published_values_alone_say_so(tmp_path):
    text = published.to_markdown(compared(None, tmp_path))
    assert "No runs of ours were given: published values alone." in text
    assert "| game | agent | published % | n published | cell |" in text


@pytest.mark.parametrize(
    ("row", "said", "hint"),
    [
        ({"cell": "play/v1"}, "rows.0.cell: there is no cell 'play/v1'", "did you mean 'play/v0'?"),
        ({"metric": "empty_search"}, "rows.0.metric: unknown metric 'empty_search'", "'empty_search_rate'"),
        ({"sd": 1.0}, "rows.0.sd: unknown key 'sd'", "'se'"),
        ({"tolerance": 0}, "rows.0.tolerance: input should be greater than 0", ""),
        ({"n": 0}, "rows.0.n: input should be greater", ""),
    ],
)
def test_wrong_rows_are_named(row, said, hint, tmp_path):
    import yaml

    path = tmp_path / "expected.yaml"
    path.write_text(yaml.safe_dump({"paper": "p", "source": "s", "rows": [{**ROW, **row}]}))
    with pytest.raises(UsageError) as error:
        load_expected(path, ["play/v0"])
    assert said in error.value.message
    assert hint in (error.value.hint or "")


def test_runs_below_a_folder_are_found_and_parts_of_a_cell_are_one(tmp_path):
    for name, seeds in (("play/v0.1", (0, 1)), ("play/v0.2", (2,)), ("play/v1", (0,)), ("snapshot/old", (0,))):
        run(tmp_path / "out" / name, {seed: ended(seed / 2) for seed in seeds})
    (tmp_path / "out" / "launch.json").write_text("{}")
    found = find_runs([tmp_path / "out"])
    assert [path.relative_to(tmp_path / "out").as_posix() for path in found.runs] == [
        "play/v0.1",
        "play/v0.2",
        "play/v1",
    ]
    rows = build_table(pooled(found.runs)).rows
    assert [(row.run.rsplit("/", 1)[-1], row.seeds, row.mean) for row in rows] == [
        ("v0", (0, 1, 2), 0.5),
        ("v1", (0,), 0.0),
    ]


@pytest.mark.parametrize("change", [{"scaffold_digest": "d2"}, {"seeds": (0,)}])
def test_runs_that_only_look_like_parts_stay_apart(change, tmp_path):
    seeds = change.pop("seeds", (1,))
    run(tmp_path / "v0.1", {0: ended(0.0)})
    run(tmp_path / "v0.2", {seed: ended(1.0) for seed in seeds}, **change)
    assert [folder.path.name for folder in pooled(find_runs([tmp_path]).runs)] == ["v0.1", "v0.2"]


def test_a_part_of_a_pool_is_read_from_where_it_is(tmp_path):
    parts = [run(tmp_path / f"v0.{seed}", {seed: ended(1.0)}) for seed in (1, 2)]
    (pool,) = pooled([part.path for part in parts])
    assert {pool.trace_path(spec) for spec in pool.config.specs()} == {
        part.trace_path(spec) for part in parts for spec in part.config.specs()
    }
    assert {pool.memory_path(spec).parents[2].parent for spec in pool.config.specs()} == {part.path for part in parts}


ROWS = [
    {**ROW, "agent": "v0"},
    {**ROW, "agent": "v1", "cell": None, "mean": 60.0, "se": None, "n": None},
    {**ROW, "agent": "v0", "game": "Desk", "cell": "play/v2"},
]


@pytest.mark.parametrize("kind", ["progress", "points", "behaviour"])
def test_a_figure_shows_published_values_and_ours_and_is_always_the_same(kind, tmp_path):
    pytest.importorskip("matplotlib")
    pools = {"play/v0": Pool((run(tmp_path / "r", scores(0.5, 0.6, 0.4, 0.7)),))}
    table = compare("made", expected(*ROWS, figure=kind), pools)
    svg, png = figures.of_comparison(table, tmp_path / "one")
    again, _ = figures.of_comparison(table, tmp_path / "two")
    assert svg.read_bytes() == again.read_bytes()
    assert png.read_bytes().startswith(b"\x89PNG")
    words = {node.text for node in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")}
    assert {"Courier", "Desk", "ours"} <= words
    assert "date" not in svg.read_text(encoding="utf-8")
    alone, _ = figures.of_comparison(compare("made", expected(*ROWS, figure=kind), {}), tmp_path / "three")
    assert "ours" not in alone.read_text(encoding="utf-8")


def test_without_a_figure_nothing_is_drawn(tmp_path):
    assert figures.of_comparison(compare("made", expected(ROW), {}), tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


LINEAGE = [
    {"revision": 1, "attempt": 1, "continuation": 0, "verdict": "accepted", "before_mean": 0.5, "after_mean": 0.7},
    {"revision": 2, "attempt": 1, "continuation": 0, "verdict": "rejected", "before_mean": 0.7, "after_mean": 0.6},
    {"revision": 2, "attempt": 1, "continuation": 1, "verdict": "refused", "before_mean": None, "after_mean": None},
]
TRAINED = {"curve": [[1, 2.0], [2, 1.5]], "held_out_before": 2.1, "held_out_curve": [[2, 1.7]]}
NOT_PLAYED = {"report_mean": None, "report_se": None, "base_report_mean": None, "base_report_se": None}
LEDGER = [
    {
        "iteration": 1,
        "config": 1,
        "verdict": "adopted",
        "recipe": {"name": "pocket"},
        "trained": TRAINED,
        "report_mean": 0.6,
        "report_se": 0.05,
        "base_report_mean": 0.5,
        "base_report_se": None,
    },
    {"iteration": 2, "config": 1, "verdict": "refused", "recipe": {"name": "second"}, "trained": None, **NOT_PLAYED},
]


@pytest.mark.parametrize(
    ("draw", "rows", "words"),
    [
        (figures.of_lineage, LINEAGE, {"start", "1.1", "2.1+", "accepted", "rejected", "not played", "best so far"}),
        (figures.of_lineage, [], {"start"}),
        (figures.of_ledger, LEDGER, {"pocket", "pocket, held out", "adopted", "scaffold only", "2.1"}),
        (figures.of_ledger, [], {"report seeds"}),
    ],
)
def test_learning_curves_are_drawn(draw, rows, words, tmp_path):
    pytest.importorskip("matplotlib")
    svg, _ = draw("a/loop", rows, tmp_path)
    found = {node.text for node in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")}
    assert words <= found
    again, _ = draw("a/loop", rows, tmp_path / "again")
    assert svg.read_bytes() == again.read_bytes()
