"""`lineage.jsonl`: appended, never changed; torn and damaged lines; the table of it."""

import json

import pytest
from loops import config

from automem.errors import UsageError
from automem.evolve.base import Revision
from automem.evolve.lineage import Lineage
from automem.evolve.report import lineage_rows, to_json, to_markdown
from automem.results.plays import Cost


def row(revision=1, attempt=1, continuation=0, verdict="rejected", **others):
    settings = {
        "proposer": "rules",
        "parent": "courier-v0",
        "parent_digest": "d0",
        "folder": f"proposals/r{revision}-a{attempt}-c{continuation}",
        "reason": "mean gate: 0.500 -> 0.250",
        "evaluator": "e0",
    }
    return Revision(
        revision=revision, attempt=attempt, continuation=continuation, verdict=verdict, **(settings | others)
    )


def test_rows_come_back_as_they_were_written(tmp_path):
    written = [row(), row(attempt=2, verdict="accepted", digest="d1", before={"small/0": 0.1}, gate={"p": None})]
    for one in written:
        Lineage(tmp_path).append(one)
    read = Lineage(tmp_path)
    assert read.rows == written
    assert read.accepted() == written[1:]
    assert Lineage(tmp_path / "nothing").rows == []


def test_a_slot_is_decided_by_any_row_but_an_outage(tmp_path):
    lineage = Lineage(tmp_path)
    lineage.append(row(verdict="outage"))
    assert lineage.find(1, 1, 0) is None
    decided = row(verdict="refused")
    lineage.append(decided)
    assert lineage.find(1, 1, 0) == decided
    assert (lineage.find(1, 1, 1), lineage.find(2, 1, 0)) == (None, None)


def test_a_torn_row_is_owed_again(tmp_path):
    lineage = Lineage(tmp_path)
    lineage.append(row())
    lineage.append(row(attempt=2))
    file = tmp_path / "lineage.jsonl"
    whole = file.read_bytes()
    for cut in (1, 10, 200):
        file.write_bytes(whole[:-cut])
        assert Lineage(tmp_path).rows == [row()]
    Lineage(tmp_path).append(row(attempt=3))
    assert Lineage(tmp_path).rows == [row(), row(attempt=3)]


def test_who_only_reads_changes_nothing(tmp_path):
    """A reader may come while a row is being written."""
    Lineage(tmp_path).append(row())
    file = tmp_path / "lineage.jsonl"
    file.write_bytes(file.read_bytes() + b'{"revision": 1, "att')
    torn = file.read_bytes()
    assert len(Lineage(tmp_path).rows) == 1
    assert file.read_bytes() == torn


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"revision": 1}', "\x00"])
def test_a_damaged_row_is_named(tmp_path, line):
    Lineage(tmp_path).append(row())
    file = tmp_path / "lineage.jsonl"
    file.write_text(f"{file.read_text()}{line}\n{file.read_text()}")
    with pytest.raises(UsageError, match=r"lineage\.jsonl, line 2: damaged"):
        Lineage(tmp_path)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "evolve.json").write_text(config().model_dump_json())
    lineage = Lineage(tmp_path)
    lineage.append(row(verdict="empty", reason="nothing was proposed"))
    lineage.append(
        row(
            attempt=2,
            continuation=1,
            verdict="accepted",
            scaffold="courier-v0-r1",
            changes=[{"kind": "memory-structure", "title": "a | b"}],
            before={"small/0": 0.25, "small/1": 0.5},
            after={"small/0": 0.5, "small/1": 1.0},
            proposal_cost=Cost(calls=2, tokens_in=1000, seconds=1.25),
            play_cost=Cost(calls=1000, tokens_in=9000, tokens_out=70, tokens_cached=5, seconds=3),
        )
    )
    return tmp_path


def test_the_table_for_people(folder):
    titles, rule, first, second = to_markdown(lineage_rows(folder)).splitlines()
    assert titles.startswith(
        "| revision | scaffold | changes | before % | after % | verdict | why | calls | tokens in "
    )
    assert rule.count("---") == 12
    assert first == "| 1.1 | – | – | – | – | empty | nothing was proposed | 0 | 0 | 0 | 0 | 0.0 |"
    assert second.startswith("| 1.2+ | courier-v0-r1 | memory-structure: a \\| b | 37.5 | 75.0 | accepted | ")
    assert second.endswith(" | 1,002 | 10,000 | 70 | 5 | 4.2 |")


def test_the_table_for_programs(folder):
    first, second = json.loads(to_json(lineage_rows(folder)))["rows"]
    assert (first["after_mean"], first["cost"]["calls"]) == (None, 0)
    assert (second["before_mean"], second["after_mean"]) == (0.375, 0.75)
    assert second["cost"] == {"calls": 1002, "tokens_in": 10_000, "tokens_out": 70, "tokens_cached": 5, "seconds": 4.25}
    assert second["evaluator"] == "e0"


def test_another_folder_has_no_lineage(tmp_path):
    with pytest.raises(UsageError, match="is not an evolve folder"):
        lineage_rows(tmp_path)
