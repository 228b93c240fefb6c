"""PLAN: consult memory, commit one action; guard, repair, fallback and the limits on one step."""

import pytest
from acting import Game, Replies, results

from automem.errors import LimitFailure, ModelFailure, ScaffoldFailure

WAIT = "<|ACTION|>wait<|END|>"
SEARCH = "<|SEARCH|>notes.txt|lamp<|END|>"


async def test_an_action_beside_a_question_is_held(scaffold):
    model = Replies(f"{SEARCH}<|ACTION|>north<|END|>", "<|ACTION|>south<|END|>")
    decision = await Game(scaffold(memory={"notes.txt": "a lamp"}), model).act()
    assert (decision.action, decision.proposed, decision.fallback) == ("south", "south", False)
    assert [(name, ok) for name, ok, _ in results(decision.calls[0])] == [("SEARCH", True), ("ACTION", False)]
    answer = model.asked[1][-1]["content"]
    assert "1: a lamp" in answer
    assert "[2] ACTION north: held:" in answer


async def test_in_the_last_round_it_counts(scaffold):
    model = Replies(*[f"{SEARCH}<|ACTION|>north<|END|>"] * 4)
    decision = await Game(scaffold(), model).act()
    assert (decision.action, decision.fallback, len(decision.calls)) == ("north", False, 4)


async def test_an_action_before_a_question_stands(scaffold):
    decision = await Game(scaffold(), Replies(f"<|ACTION|>north<|END|>{SEARCH}")).act()
    assert decision.action == "north"
    late = "not executed: the action is already committed"
    assert results(decision.calls[0]) == [("ACTION", True, "ok"), ("SEARCH", False, late)]


async def test_the_first_valid_action_stands(scaffold):
    decision = await Game(scaffold(), Replies("<|ACTION|>fly<|END|><|ACTION|>north<|END|><|ACTION|>south<|END|>")).act()
    assert (decision.action, decision.proposed) == ("north", "north")
    assert [ok for _, ok, _ in results(decision.calls[0])] == [False, True, False]


async def test_a_write_does_not_hold_the_action(scaffold):
    reply = f"<|APPEND|>notes.txt|a<|END|>{WAIT}"
    decision = await Game(scaffold(), Replies(reply)).act()
    assert (decision.action, len(decision.calls)) == ("wait", 1)
    assert "APPEND is not offered now" in decision.calls[0].operations[0].result


@pytest.mark.parametrize("written", ["NORTH", " north ", "North"])
async def test_case_and_spaces_of_an_action_do_not_matter(scaffold, written):
    assert (await Game(scaffold(), Replies(f"<|ACTION|>{written}<|END|>")).act()).action == "north"


async def test_an_invalid_action_is_answered_with_the_actions(scaffold):
    model = Replies("<|ACTION|>fly<|END|>", WAIT)
    decision = await Game(scaffold(), model).act()
    assert not decision.fallback
    assert "'fly' is not an action; the actions are: north, south" in model.asked[1][-1]["content"]


async def test_without_a_valid_action_the_default_stands_in(scaffold):
    decision = await Game(scaffold(), Replies("I fly.", "<|ACTION|>fly<|END|>", SEARCH, "<|ACTION|>swim<|END|>")).act()
    assert (decision.action, decision.proposed, decision.fallback) == ("wait", "swim", True)


async def test_prose_is_answered(scaffold):
    model = Replies("I go north.", *["nothing"] * 3)
    decision = await Game(scaffold(), model).act()
    assert (decision.proposed, decision.fallback) == (None, True)
    assert model.asked[1][-1] == {"role": "user", "content": "No operation was found in the reply. Commit one ACTION."}


async def test_the_next_prompt_can_tell_of_a_fallback(scaffold):
    prompts = {"log.j2": "# LOG\n{{ history.last.fallback }} {{ history.last.proposed }} {{ history.last.action }}"}
    model = Replies("<|DONE|>", WAIT)
    await Game(scaffold(prompts=prompts), model).step("wait", proposed="fly", fallback=True).act()
    assert model.asked[0][-1]["content"] == "# LOG\nTrue fly wait"


GUARD = "def guard(action, state, history):\n    return 'no way' if action == 'north' else None\n"


async def test_a_guard_rejects_with_a_reason(scaffold):
    model = Replies("<|ACTION|>north<|END|>", "<|ACTION|>south<|END|>")
    decision = await Game(scaffold(logic=GUARD), model).act()
    assert (decision.action, decision.rejections) == ("south", ["north: no way"])
    assert "rejected: no way" in model.asked[1][-1]["content"]


@pytest.mark.parametrize("rejections", [0, 1, 2])
async def test_a_guard_rejects_so_often_and_then_anything_passes(scaffold, rejections):
    made = scaffold(logic=GUARD, budget={"rejections": rejections})
    decision = await Game(made, Replies(*["<|ACTION|>north<|END|>"] * (rejections + 1))).act()
    assert (decision.action, decision.fallback) == ("north", False)
    assert decision.rejections == ["north: no way"] * rejections


async def test_an_action_is_repaired_before_it_is_judged(scaffold):
    logic = "def repair(action):\n    return {'up': 'north'}.get(action, action)\n"
    decision = await Game(scaffold(logic=logic + GUARD), Replies("<|ACTION|>up<|END|>", WAIT)).act()
    assert (decision.action, decision.rejections) == ("wait", ["north: no way"])
    game = Game(scaffold(logic=logic), Replies(*["<|ACTION|>up<|END|>"] * 2))
    for _ in range(2):
        decision = await game.act()
        assert (decision.action, decision.proposed) == ("north", "up")


async def test_observe_makes_blocks_for_the_prompt(scaffold):
    logic = "def observe(state, history):\n    return {'place': str(state['position']) + ' ' + str(history['step'])}\n"
    model = Replies(WAIT)
    game = Game(scaffold(logic=logic, prompts={"plan.j2": "# PLAN\n{{ blocks.place }}"}), model)
    await game.act()
    assert model.asked[0][-1]["content"] == f"# PLAN\n{game.state['position']} 0"


async def test_auto_files_are_written_before_the_plan(scaffold):
    logic = "def auto_files(state, history, files):\n    return {'status.txt': 'seen ' + files['notes.txt']}"
    files = [{"name": "notes.txt", "kind": "log"}, {"name": "status.txt", "kind": "auto"}]
    game = Game(
        scaffold(logic=logic, files=files),
        Replies("<|APPEND|>notes.txt|a<|END|><|DONE|>", "<|READ|>status.txt<|END|>", WAIT),
    )
    decision = await game.step().act()
    assert decision.calls[1].operations[0].result == "seen a"
    assert [splice.file for splice in game.agent.memory.take_journal()] == ["notes.txt", "status.txt"]


async def test_auto_files_cannot_write_what_the_model_writes(scaffold):
    logic = "def auto_files(state, history, files):\n    return {'notes.txt': 'mine'}\n"
    with pytest.raises(ScaffoldFailure, match=r"'notes.txt' is not a file of kind auto") as caught:
        await Game(scaffold(logic=logic), Replies()).act()
    assert caught.value.message.startswith("scaffold 'made': logic.py, in auto_files, step 0:")


@pytest.mark.parametrize(
    "returned", ["None", "'rows'", "[1]", "[{'key': 'a'}]", "[{'key': 'a', 'text': 1, 'step': 0}]"]
)
async def test_upsert_that_returns_nonsense_is_the_scaffolds_fault(scaffold, returned):
    logic = f"def upsert(file, rows, entry):\n    return {returned}\n"
    files = [{"name": "places.txt", "kind": "table", "key": ["name"], "logic": True}]
    game = Game(scaffold(logic=logic, files=files), Replies("<|UPSERT|>places.txt|attic|1,2<|END|>")).step()
    with pytest.raises(ScaffoldFailure, match=r"logic\.py: upsert for places\.txt, step 1, returned"):
        await game.act()


async def test_upsert_of_the_scaffold_puts_rows(scaffold):
    logic = "def upsert(file, rows, entry):\n    return [entry] + [row for row in rows if row['key'] != entry['key']]\n"
    files = [{"name": "places.txt", "kind": "table", "key": ["name"], "logic": True}]
    replies = "".join(f"<|UPSERT|>places.txt|{name}|1,2<|END|>" for name in ("attic", "study", "attic"))
    game = Game(scaffold(logic=logic, files=files), Replies(f"{replies}<|DONE|>", WAIT)).step()
    await game.act()
    assert game.text("places.txt") == "attic | 1,2 | step 1\nstudy | 1,2 | step 1"


async def test_results_of_one_round_are_limited(scaffold):
    made = scaffold(memory={"notes.txt": "lamp " * 80}, budget={"result_chars": 200})
    model = Replies(SEARCH * 3, WAIT)
    decision = await Game(made, model).act()
    answer = model.asked[1][-1]["content"]
    assert answer.count("(cut here: the results of one round are limited)") == 3
    assert len(answer) < 500
    assert len(decision.calls[0].operations[0].result) > 400


async def test_a_reply_is_read_up_to_its_limit_and_the_model_is_told(scaffold):
    model = Replies(f"{'x' * 200}<|ACTION|>north<|END|>", WAIT)
    decision = await Game(scaffold(budget={"reply_chars": 200}), model).act()
    assert decision.action == "wait"
    assert decision.calls[0].reply.endswith("<|ACTION|>north<|END|>")
    assert "longer than 200 characters" in model.asked[1][-1]["content"]


async def test_example_turns_stand_between_system_and_prompt(scaffold):
    examples = {"plan": [{"user": "You see a lamp.", "assistant": "<|ACTION|>take<|END|>"}]}
    model = Replies("<|DONE|>", WAIT)
    await Game(scaffold(examples=examples), model).step().act()
    assert [m["role"] for m in model.asked[0]] == ["system", "user"]
    system, *shown, prompt = model.asked[1]
    assert system["role"] == "system"
    assert [(m["role"], m["content"]) for m in shown] == [
        ("user", "You see a lamp."),
        ("assistant", "<|ACTION|>take<|END|>"),
    ]
    assert "# PLAN" in prompt["content"]


async def test_requests_say_where_the_call_stands(scaffold):
    model = Replies("<|DONE|>", SEARCH, WAIT)
    await Game(scaffold(), model).step().act()
    assert [(r.role, r.phase, r.step, r.call) for r in model.requests] == [
        ("memory", "log", 1, 0),
        ("gameplay", "plan", 1, 1),
        ("gameplay", "plan", 1, 2),
    ]
    assert len({r.sampling_seed for r in model.requests}) == 3
    assert {(r.tools, r.grammar) for r in model.requests} == {((), None)}


async def test_constrained_replies_come_with_a_grammar(scaffold):
    model = Replies(WAIT)
    await Game(scaffold(constrained=True), model).act()
    assert "north" in model.requests[0].grammar


async def test_calls_are_limited(scaffold):
    game = Game(scaffold(), Replies(WAIT, "<|DONE|>", SEARCH), max_calls=3)
    await game.act()
    with pytest.raises(LimitFailure, match="used its 3 model calls"):
        await game.step().act()


async def test_tokens_are_limited(scaffold):
    game = Game(scaffold(), Replies(SEARCH, SEARCH), max_tokens=13)
    with pytest.raises(LimitFailure, match="used its 13 tokens"):
        await game.act()


class Down:
    name = "down"

    async def generate(self, messages, request):
        raise ModelFailure("out of reach")

    async def close(self):
        pass


async def test_an_outage_is_no_action(scaffold):
    with pytest.raises(ModelFailure, match="out of reach"):
        await Game(scaffold(), Down()).act()


async def test_an_outage_while_logging_is_no_action_either(scaffold):
    with pytest.raises(ModelFailure, match="out of reach"):
        await Game(scaffold(), Replies(WAIT), memory=Down()).step().act()
