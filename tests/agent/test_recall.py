"""RECALL: the agent asks for steps that eviction took out of its prompt."""

import json

import pytest
from acting import Game, Replies, results, tool_call

from automem.agent.context import LastSteps
from automem.env import make as make_env
from automem.errors import UsageError
from automem.models import make_model
from automem.play.folder import RunConfig
from automem.play.run import play_run
from automem.scaffold.spec import load
from automem.trace import read_trace

WAIT = "<|ACTION|>wait<|END|>"
OPERATIONS = {"log": ["RECALL", "APPEND", "DONE"], "plan": ["RECALL", "READ", "ACTION"]}
CONTEXT = {"policy": "window", "budget": 0, "keep_last": 1}


def recall(query):
    return f"<|RECALL|>{query}<|END|>"


def played(scaffold, model, actions=("north", "take", "wait"), **parts):
    """A game with these steps behind it, all but the last of which are evicted."""
    game = Game(scaffold(**{"operations": OPERATIONS, "context": CONTEXT, **parts}), model)
    for action in actions:
        game.step(action)
    return game


async def test_what_was_evicted_comes_back(scaffold):
    model = Replies("<|DONE|>", recall("north"), WAIT)
    game = played(scaffold, model)
    observation = make_env("courier", "small").reset(seed=1)[0]
    decision = await game.act()
    (record,) = decision.calls[1].operations
    assert (record.name, record.ok, record.hits) == ("RECALL", True, 1)
    assert record.result == f"1 evicted steps, best first:\n\n# Step 0\n{observation}\nYou did: north"
    assert model.asked[2][-1]["content"] == f"[1] RECALL north: {record.result}"


async def test_it_holds_the_action_as_any_question_does(scaffold):
    decision = await played(scaffold, Replies("<|DONE|>", recall("north") + WAIT, WAIT)).act()
    assert [name for name, *_ in results(decision.calls[1])] == ["RECALL", "ACTION"]
    assert len(decision.calls) == 3


async def test_as_a_tool_call_and_in_log(scaffold):
    calls = [tool_call("RECALL", json.dumps({"query": "north"}))], [tool_call("DONE", "{}")]
    model = Replies(*calls, [tool_call("ACTION", '{"action": "wait"}')])
    decision = await played(scaffold, model, dialect="tools").act()
    assert [call.phase for call in decision.calls] == ["log", "log", "plan"]
    assert decision.calls[0].operations[0].hits == 1


@pytest.mark.parametrize(
    ("query", "parts", "answer"),
    [
        ("zebra", {}, "no evicted step has anything to do with 'zebra'"),
        ("wait", {}, "no evicted step has anything to do with 'wait'"),
        ("north", {"context": None}, "nothing was evicted: no archive of past steps is kept here"),
    ],
    ids=["found nowhere", "still shown", "no context"],
)
async def test_nothing_to_recall(scaffold, query, parts, answer):
    decision = await played(scaffold, Replies("<|DONE|>", recall(query), WAIT), **parts).act()
    assert decision.calls[1].operations[0].model_dump(include={"ok", "hits", "result"}) == {
        "ok": True,
        "hits": 0,
        "result": answer,
    }


async def test_it_must_be_offered(scaffold):
    game = played(scaffold, Replies(recall("north"), WAIT), operations={"log": [], "plan": ["READ", "ACTION"]})
    assert results((await game.act()).calls[0]) == [
        ("RECALL", False, "error: RECALL is not offered now; offered: READ, ACTION")
    ]


@pytest.mark.parametrize(("k", "chars"), [(1, 6000), (3, 6000), (3, 400)])
async def test_answers_are_bounded(scaffold, k, chars):
    parts = {"context": {**CONTEXT, "recall": k}, "budget": {"result_chars": chars}}
    decision = await played(scaffold, Replies("<|DONE|>", recall("did"), WAIT), ["wait"] * 9, **parts).act()
    (record,) = decision.calls[1].operations
    assert record.hits == k and len(record.result) <= chars


def test_a_missing_package_is_told_before_play(scaffold, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bm25s", None)
    with pytest.raises(UsageError, match="bm25s"):
        played(scaffold, Replies())
    played(scaffold, Replies(), operations={"log": [], "plan": ["ACTION"]})


def test_a_history_without_a_budget_has_none():
    assert LastSteps(3).recall("north") is None


def test_window_with_recall_serves_every_request_and_resume_rebuilds_the_archive(tmp_path):
    made = load("desk-recall", {"context.budget": 800})
    models = {"gameplay": make_model("scripted:desk", {})}
    config = RunConfig.model_validate(
        {
            "env": "desk",
            "tasks": ["easy"],
            "seeds": [3],
            "scaffold": made.name,
            "scaffold_digest": made.digest,
            "models": {"gameplay": {"name": "scripted:desk"}},
        }
    )
    run = play_run(tmp_path / "run", config, made, models, 1)
    (spec,) = config.specs()
    path = run.folder.trace_path(spec)
    whole = read_trace(path)
    hits = [sum(record.hits or 0 for call in step.calls for record in call.operations) for step in whole.steps]
    assert whole.result.progress == 1.0 and sum(hits) > 10
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))
    play_run(tmp_path / "run", config, made, models, 1)
    again = read_trace(path)
    assert [step.calls[-1].messages for step in again.steps] == [step.calls[-1].messages for step in whole.steps]
