"""Two models, `merged` and `handoff`: who is asked what, and that the gameplay model alone commits."""

import json

import pytest
from acting import Game, Replies, results, tool_call

SEARCH = "<|SEARCH|>notes.txt|lamp<|END|>"
WAIT, NORTH, SOUTH = (f"<|ACTION|>{action}<|END|>" for action in ("wait", "north", "south"))


def calls(decision):
    return [(call.role, call.phase) for call in decision.calls]


async def test_merged_the_memory_model_logs_and_the_gameplay_model_plans(scaffold):
    memory, gameplay = Replies("<|APPEND|>notes.txt|lamp<|END|><|DONE|>", name="memory"), Replies(SEARCH, NORTH)
    decision = await Game(scaffold(), gameplay, memory).step().act()
    assert calls(decision) == [("memory", "log"), ("gameplay", "plan"), ("gameplay", "plan")]
    assert (decision.action, len(memory.asked), len(gameplay.asked)) == ("north", 1, 2)


async def test_handoff_the_memory_model_consults_and_the_gameplay_model_commits(scaffold):
    memory, gameplay = Replies("<|DONE|>", SEARCH, NORTH), Replies(SOUTH)
    decision = await Game(scaffold(plan="handoff"), gameplay, memory).step().act()
    assert calls(decision) == [("memory", "log"), ("memory", "plan"), ("memory", "plan"), ("gameplay", "gameplay")]
    assert (decision.action, decision.proposed) == ("south", "south")
    assert results(decision.calls[2]) == [("ACTION", True, "left to the gameplay model")]
    assert decision.calls[2].reply == NORTH


async def test_handoff_with_one_model(scaffold):
    decision = await Game(scaffold(plan="handoff"), Replies(SEARCH, NORTH, SOUTH)).act()
    assert calls(decision) == [("memory", "plan"), ("memory", "plan"), ("gameplay", "gameplay")]
    assert decision.action == "south"


async def test_the_gameplay_model_goes_on_with_the_conversation_without_the_action(scaffold):
    memory, gameplay = Replies(f"I look. {SEARCH}", f"So {NORTH}!"), Replies(SEARCH, SOUTH)
    await Game(scaffold(plan="handoff"), gameplay, memory).act()
    first, second = gameplay.asked
    assert [m["role"] for m in first] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert first[:4] == memory.asked[1]
    assert (first[2]["content"], first[4]["content"]) == (f"I look. {SEARCH}", "So !")
    assert first[5]["content"].startswith("# GAMEPLAY")
    assert second[:6] == first


async def test_a_reply_of_an_action_alone_leaves_no_empty_message(scaffold):
    gameplay = Replies(SOUTH)
    await Game(scaffold(plan="handoff"), gameplay, Replies(NORTH)).act()
    assert gameplay.asked[0][2] == {"role": "assistant", "content": "(memory consulted)"}


@pytest.mark.parametrize("last", [f"{SEARCH}{NORTH}", f"{NORTH}{SEARCH}"])
async def test_answers_and_the_gameplay_prompt_are_one_user_message(scaffold, last):
    gameplay = Replies(SOUTH)
    await Game(scaffold(plan="handoff", memory={"notes.txt": "a lamp"}), gameplay, Replies(last)).act()
    *_, assistant, user = gameplay.asked[0]
    assert assistant["content"] == SEARCH
    assert user["content"].startswith("[1] SEARCH notes.txt lamp: 1 line matches")
    assert "\n\n# GAMEPLAY\n" in user["content"]


@pytest.mark.parametrize(
    "reply", ["<|ACTION|>north", f"{'x' * 250}{NORTH}", "<|action|> north <|end|>", f"{NORTH}<|ACTION|>up|down<|END|>"]
)
async def test_no_action_of_the_memory_model_reaches_the_gameplay_model(scaffold, reply):
    made = scaffold(plan="handoff", budget={"plan_rounds": 1, "reply_chars": 200})
    gameplay = Replies(SOUTH)
    await Game(made, gameplay, Replies(reply)).act()
    assert "north" not in gameplay.asked[0][2]["content"].casefold()


async def test_done_ends_consulting(scaffold):
    made = scaffold(plan="handoff", operations={"plan": ["SEARCH", "DONE", "ACTION"]})
    decision = await Game(made, Replies(SOUTH), Replies(f"{SEARCH}<|DONE|>")).act()
    assert calls(decision) == [("memory", "plan"), ("gameplay", "gameplay")]
    assert [ok for _, ok, _ in results(decision.calls[0])] == [True, True]


async def test_a_reply_without_operations_ends_consulting(scaffold):
    gameplay = Replies(SOUTH)
    await Game(scaffold(plan="handoff"), gameplay, Replies("Nothing to look up.")).act()
    assert gameplay.asked[0][2]["content"] == "Nothing to look up."


async def test_rounds_of_both_are_limited(scaffold):
    made = scaffold(plan="handoff", budget={"plan_rounds": 2, "gameplay_rounds": 3})
    decision = await Game(made, Replies(*[SEARCH] * 3), Replies(*[SEARCH] * 2)).act()
    assert calls(decision) == [("memory", "plan")] * 2 + [("gameplay", "gameplay")] * 3
    assert (decision.action, decision.proposed, decision.fallback) == ("wait", None, True)


def answered(messages):
    """Whether every call id is answered once, in order, right after the message that made the calls."""
    owed = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == owed.pop(0)
        else:
            assert not owed
            owed = [call["id"] for call in message.get("tool_calls", ())]
    return not owed


async def test_tools_from_end_to_end(scaffold):
    made = scaffold(dialect="tools", memory={"notes.txt": "a lamp"})
    model = Replies(
        [
            tool_call("APPEND", '{"file": "notes.txt", "text": "step 0"}', "a"),
            tool_call("APPEND", '{"file": "notes.txt", "text": ', "b"),
            tool_call("FORGET", "{}", "c"),
        ],
        [tool_call("DONE", "", "d")],
        [tool_call("SEARCH", '{"file": "notes.txt", "keyword": "lamp"}', "e"), tool_call("ACTION", "{}", "f")],
        [tool_call("ACTION", '{"action": "north"}', "g")],
    )
    game = Game(made, model).step()
    decision = await game.act()
    assert (decision.action, game.text()) == ("north", "a lamp\nstep 0")
    assert all(answered(messages) for messages in model.asked)
    said = [m["content"] for m in model.asked[1][-3:]]
    assert said[0].startswith("appended 1 line")
    assert "the arguments are not valid JSON" in said[1]
    assert "unknown operation FORGET" in said[2]
    assert "ACTION needs action" in model.asked[3][-1]["content"]
    assert [tool["function"]["name"] for tool in model.requests[2].tools] == ["SEARCH", "READ", "ACTION"]
    assert "SEARCH(file, keyword)" in model.asked[0][0]["content"]


async def test_tools_are_cut_in_a_handoff(scaffold):
    both = [
        tool_call("SEARCH", '{"file": "notes.txt", "keyword": "lamp"}', "a"),
        tool_call("ACTION", json.dumps({"action": "north"}), "b"),
    ]
    gameplay = Replies([tool_call("ACTION", '{"action": "south"}', "c")])
    decision = await Game(scaffold(dialect="tools", plan="handoff"), gameplay, Replies(both)).act()
    assert decision.action == "south"
    messages = gameplay.asked[0]
    assert answered(messages)
    assert [m["role"] for m in messages[2:]] == ["assistant", "tool", "user"]
    assert [call["id"] for call in messages[2]["tool_calls"]] == ["a"]
    assert [call["id"] for call in decision.calls[0].tool_calls] == ["a", "b"]


async def test_an_action_alone_leaves_no_tool_calls(scaffold):
    only = [tool_call("ACTION", '{"action": "north"}')]
    gameplay = Replies([tool_call("ACTION", '{"action": "south"}')])
    await Game(scaffold(dialect="tools", plan="handoff"), gameplay, Replies(only)).act()
    assert gameplay.asked[0][2] == {"role": "assistant", "content": "(memory consulted)"}


async def test_prose_in_the_tools_dialect_is_answered_by_the_user(scaffold):
    model = Replies("I go north.", [tool_call("ACTION", '{"action": "north"}')])
    assert (await Game(scaffold(dialect="tools"), model).act()).action == "north"
    assert model.asked[1][-1]["role"] == "user"
