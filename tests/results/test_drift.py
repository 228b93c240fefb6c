"""Drift: evicted steps whose identifiers are mentioned again, counted on handmade traces."""

import json

import pytest

from automem.episode import EpisodeSpec, ModelSpec
from automem.messages import Usage
from automem.results.drift import Drift, episode_drift, to_json, to_text
from automem.trace import Call, OperationRecord, Step, TraceWriter

SPEC = EpisodeSpec(
    env="desk",
    task="easy",
    seed=0,
    scaffold="s",
    scaffold_digest="0",
    models={"gameplay": ModelSpec(name="scripted:desk")},
)


def call(*operations, system="rules"):
    messages = [{"role": "system", "content": system}]
    return Call(
        role="gameplay", phase="plan", messages=messages, reply="", usage=Usage(1, 1), operations=list(operations)
    )


def recall(hits, ok=True):
    return OperationRecord(name="RECALL", args=["x"], ok=ok, hits=hits if ok else None)


@pytest.fixture
def counted(tmp_path):
    """Counts the drift of an episode of (observation, action, evicted steps[, calls])."""

    def count(*rows):
        path = tmp_path / "trace.jsonl"
        path.unlink(missing_ok=True)
        writer = TraceWriter(path, SPEC)
        for number, (observation, action, evicted, *calls) in enumerate(rows):
            gone = [{"step": step, "score": 0.5, "tokens": 9} for step in evicted]
            facts = {"reward": 0.0, "progress": 0.0, "next_digest": "", "evictions": gone}
            writer.step(Step(t=number, observation=observation, action=action, calls=calls or [call()], **facts))
        writer.close()
        found = episode_drift(path)
        return found.evicted, found.lost, found.shown_again, found.asked_again

    return count


def test_an_action_asks_again(counted):
    assert counted(("id CS-11111", "wait", []), ("x", "wait", []), ("y", "pay CS-11111", [0])) == (1, 1, 0, 1)


def test_shown_first_then_asked(counted):
    rows = [("id CS-11111", "wait", []), ("x", "wait", []), ("list CS-11111", "wait", [0])]
    assert counted(*rows) == (1, 1, 1, 0)
    assert counted(*rows, ("z", "pay CS-11111", [])) == (1, 1, 1, 1)


def test_before_it_left_it_was_no_loss(counted):
    assert counted(("id CS-11111", "wait", []), ("y", "pay CS-11111", []), ("z", "wait", [0])) == (1, 0, 0, 0)


def test_what_stands_elsewhere_in_the_prompt_is_not_lost(counted):
    rows = [("id CS-11111", "wait", []), ("CS-11111", "wait", []), ("y", "pay CS-11111", [0])]
    assert counted(*rows) == (1, 0, 0, 0)
    told = call(system="Your case is CS-11111.")
    assert counted(("id CS-11111", "wait", [], told), ("x", "wait", []), ("y", "pay CS-11111", [0])) == (1, 0, 0, 0)


def test_what_a_summary_has_is_lost_with_the_one_that_has_it_no_more(counted):
    def summary(text):
        return Call(role="memory", phase="summary", messages=[], reply=text, usage=Usage(1, 1))

    rows = [("id CS-11111", "wait", []), ("x", "wait", []), ("y", "pay CS-11111", [0], summary("CS-11111"), call())]
    assert counted(*rows) == (1, 0, 0, 0)
    blank, none = summary(" "), summary("nothing")
    again = [("x", "wait", [], blank, call()), ("z", "pay CS-11111", [])]
    assert counted(*rows, *again) == (1, 0, 0, 0)
    again = [("x", "wait", [], none, call()), ("z", "pay CS-11111", [])]
    assert counted(*rows, *again) == (1, 1, 0, 1)


def test_each_evicted_step_counts_once(counted):
    rows = [("CS-11111 CS-22222", "wait", []), ("x", "wait", []), ("y", "pay CS-11111", [0]), ("z", "pay CS-22222", [])]
    assert counted(*rows) == (1, 1, 0, 1)


def test_recalls_and_those_with_an_answer(tmp_path):
    writer = TraceWriter(tmp_path / "t.jsonl", SPEC)
    facts = {"reward": 0.0, "progress": 0.0, "next_digest": ""}
    calls = [call(recall(0), recall(3)), call(recall(1), recall(0, ok=False))]
    writer.step(Step(t=0, observation="x", action="wait", calls=calls, **facts))
    writer.close()
    found = episode_drift(tmp_path / "t.jsonl")
    assert (found.recalls, found.hits) == (3, 2)


def drift(evicted, asked):
    return Drift(episodes=1, evicted=evicted, lost=asked, shown_again=0, asked_again=asked, recalls=4, hits=2)


@pytest.mark.parametrize(("evicted", "asked", "refit"), [(0, 0, False), (100, 1, False), (100, 2, True)])
def test_the_threshold(evicted, asked, refit):
    found = drift(evicted, asked)
    told = json.loads(to_json("runs/d1", found))
    assert told["refit"] is refit and told["asked_again"] == asked and told["refit_above"] == 0.01
    assert told["rate"] == (asked / evicted if evicted else None)
    assert ("fit the scorer anew, on" in to_text("runs/d1", found)) is refit
    assert "RECALL: 4, with an answer 2" in to_text("runs/d1", found)
