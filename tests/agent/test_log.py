"""LOG: when it is held, what ends it, and in which order operations are executed."""

import pytest
from acting import Game, Replies, results

WAIT = "<|ACTION|>wait<|END|>"


def phases(decision):
    return [call.phase for call in decision.calls]


async def test_there_is_no_log_at_step_0(scaffold):
    decision = await Game(scaffold(), Replies(WAIT)).act()
    assert phases(decision) == ["plan"]


async def test_no_log_where_the_phase_offers_nothing(scaffold):
    made = scaffold(operations={"plan": ["ACTION"]})
    assert phases(await Game(made, Replies(WAIT)).step().act()) == ["plan"]


@pytest.mark.parametrize("ending", ["<|DONE|>", "<|done|>", "I have nothing to write down.", ""])
async def test_done_or_a_reply_without_operations_ends_it(scaffold, ending):
    decision = await Game(scaffold(), Replies("<|APPEND|>notes.txt|a<|END|>", ending, WAIT)).step().act()
    assert phases(decision) == ["log", "log", "plan"]


async def test_done_beside_other_operations_ends_it(scaffold):
    game = Game(scaffold(), Replies("<|APPEND|>notes.txt|a<|END|><|DONE|>", WAIT)).step()
    assert phases(await game.act()) == ["log", "plan"]
    assert game.text() == "a"


async def test_the_budget_of_rounds_ends_it(scaffold):
    game = Game(scaffold(), Replies(*["<|APPEND|>notes.txt|a<|END|>"] * 4, WAIT)).step()
    assert phases(await game.act()) == ["log"] * 4 + ["plan"]
    assert game.text() == "a\na\na\na"


async def test_operations_are_executed_in_the_order_written(scaffold):
    reply = "<|WRITE|>notes.txt|fresh<|END|><|APPEND|>notes.txt|line<|END|><|TAIL|>notes.txt|9<|END|>"
    game = Game(scaffold(), Replies(reply, "<|WRITE|>notes.txt|again<|END|><|DONE|>", WAIT)).step()
    decision = await game.act()
    assert decision.calls[0].operations[2].result == "fresh\nline"
    assert game.text() == "again"


async def test_what_stands_after_done_is_answered_and_not_executed(scaffold):
    game = Game(scaffold(), Replies("<|DONE|><|APPEND|>notes.txt|late<|END|><|NONSENSE|>", WAIT)).step()
    decision = await game.act()
    late = "not executed: it stands after DONE"
    assert results(decision.calls[0]) == [("DONE", True, "ok"), ("APPEND", False, late), ("?", False, late)]
    assert game.text() == ""


async def test_an_operation_that_is_not_offered_is_answered(scaffold):
    model = Replies("<|ACTION|>wait<|END|><|CREATE|>new.txt<|END|>", "<|DONE|>", WAIT)
    decision = await Game(scaffold(), model).step().act()
    action, create = decision.calls[0].operations
    assert action.result.startswith("error: ACTION is not offered now; offered: SEARCH, READ")
    assert create.result.startswith("error: CREATE is not offered now")
    assert f"[2] CREATE new.txt: {create.result}" in model.asked[1][-1]["content"]


async def test_malformed_operations_are_answered(scaffold):
    model = Replies("<|APPEND|>notes.txt<|END|> <|FORGET|>all<|END|>", "<|DONE|>", WAIT)
    decision = await Game(scaffold(), model).step().act()
    assert [(name, ok) for name, ok, _ in results(decision.calls[0])] == [("?", False), ("?", False)]
    answer = model.asked[1][-1]["content"]
    assert "[1] not executed: APPEND needs text" in answer
    assert "[2] not executed: unknown operation FORGET" in answer


async def test_the_log_sees_the_last_step_and_the_plan_sees_what_was_logged(scaffold):
    prompts = {"log.j2": "# LOG\nlast: {{ history.last.action }}, {{ history.last.changed }}"}
    model = Replies("<|APPEND|>notes.txt|a<|END|><|DONE|>", WAIT)
    await Game(scaffold(prompts=prompts), model).step("wait").act()
    assert model.asked[0][-1]["content"] == "# LOG\nlast: wait, False"
    assert "- notes.txt (log, 1 lines)" in model.asked[1][-1]["content"]


async def test_log_and_plan_are_two_conversations_with_one_system_message(scaffold):
    model = Replies("<|DONE|>", WAIT)
    await Game(scaffold(), model).step().act()
    log, plan = model.asked
    assert [m["role"] for m in log] == [m["role"] for m in plan] == ["system", "user"]
    assert log[0] == plan[0]
