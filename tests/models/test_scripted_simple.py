"""Policies without a plan, and how any policy reads a conversation."""

import pytest

from automem.errors import ModelFailure, UsageError
from automem.grammar import Malformed, Operation, parse
from automem.models import make_model, scripted
from automem.models.base import Request
from automem.models.scripted.base import FileEntry, read_prompt

SYSTEM = {"role": "system", "content": "Rules.\n\n# Actions\n- north\n- wait (default)\n- move far left\n"}
PLAN = """# Observation
A room.
# not a heading of ours

# Memory
- notes.txt (log, 3 lines): what was seen
- places.txt (table, 12 rows)

# PLAN
Operations now: SEARCH, READ, ACTION."""
LOG = PLAN.replace("# PLAN", "# LOG").replace("ACTION", "APPEND, DONE")


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def request(phase="plan", seed=1, **changes):
    return Request("gameplay", phase, "courier", "small", 0, 0, 0, seed, **changes)


async def reply(name, text, *talk, seed=1, **changes):
    model = make_model(f"scripted:{name}", {})
    return (await model.generate([SYSTEM, user(text), *talk], request(seed=seed, **changes))).text


def test_a_prompt_is_read_by_its_headings():
    prompt = read_prompt([SYSTEM, user(PLAN)], request())
    assert (prompt.phase, prompt.observation) == ("plan", "A room.\n# not a heading of ours")
    assert prompt.files == (FileEntry("notes.txt", "log", 3), FileEntry("places.txt", "table", 12))
    assert (prompt.actions, prompt.default_action) == (("north", "wait", "move far left"), "wait")
    assert prompt.offered == {"SEARCH", "READ", "ACTION"}
    assert (prompt.asked, prompt.results) == ((), ())


def test_rounds_are_read():
    talk = [assistant("<|SEARCH|>notes.txt|a<|END|><|FORGET|>"), user("[1] SEARCH: none\n[2] not executed: a\nb")]
    prompt = read_prompt([SYSTEM, user(PLAN), *talk], request())
    assert prompt.asked == (Operation("SEARCH", ("notes.txt", "a")), Operation("?", ()))
    assert prompt.results == ("SEARCH: none", "not executed: a\nb")


def test_example_turns_are_not_taken_for_the_prompt():
    examples = [user(PLAN.replace("A room.", "A cave.")), assistant("<|SEARCH|>notes.txt|a<|END|>")]
    prompt = read_prompt([SYSTEM, *examples, user(PLAN)], request())
    assert prompt.observation.startswith("A room.")
    assert prompt.asked == ()


def test_after_a_handoff_observation_files_and_what_was_asked_are_still_known():
    consulted = [assistant("<|SEARCH|>notes.txt|a<|END|>")]
    handed = user("[1] SEARCH notes.txt a: 1 line\n\n# GAMEPLAY\nCommit.\nOperations now: READ, ACTION.")
    prompt = read_prompt([SYSTEM, user(PLAN), *consulted, handed], request("gameplay"))
    assert (prompt.phase, prompt.observation) == ("gameplay", "A room.\n# not a heading of ours")
    assert [file.name for file in prompt.files] == ["notes.txt", "places.txt"]
    assert prompt.offered == {"READ", "ACTION"}
    assert prompt.asked == (Operation("SEARCH", ("notes.txt", "a")),)
    assert prompt.results == ("SEARCH notes.txt a: 1 line",)


def test_without_a_heading_nothing_is_answered():
    with pytest.raises(ModelFailure, match="heading '# LOG', '# PLAN' or '# GAMEPLAY'"):
        read_prompt([SYSTEM, user("Go on.")], request())


async def test_null_does_nothing():
    assert await reply("null", LOG) == "<|DONE|>"
    assert await reply("null", PLAN) == "<|ACTION|>wait<|END|>"


async def test_null_in_the_tools_dialect():
    model = make_model("scripted:null", {})
    completion = await model.generate([SYSTEM, user(PLAN)], request(tools=({"type": "function"},)))
    assert completion.text == ""
    assert completion.tool_calls == ({"id": "call_0", "name": "ACTION", "arguments": '{"action": "wait"}'},)


async def test_random_draws_by_seed_and_observation():
    assert await reply("random", LOG) == "<|DONE|>"
    drawn = [await reply("random", PLAN, seed=seed) for seed in range(40)]
    assert set(drawn) == {f"<|ACTION|>{action}<|END|>" for action in ("north", "wait", "move far left")}
    assert drawn == [await reply("random", PLAN, seed=seed) for seed in range(40)]


async def test_malformed_is_broken_and_ends_soundly_in_its_second_round():
    for seed in range(40):
        first = await reply("malformed", PLAN, seed=seed)
        assert not any(isinstance(op, Operation) and op.name in ("ACTION", "DONE") for op in parse(first))
        rounds = [assistant(first), user("[1] not executed: no")]
        for text, ending in ((PLAN, "ACTION"), (LOG, "DONE")):
            last = parse(await reply("malformed", text, *rounds, seed=seed))[-1]
            assert isinstance(last, Operation)
            assert last.name == ending


async def test_malformed_breaks_in_several_ways():
    replies = [await reply("malformed", PLAN, seed=seed) for seed in range(40)]
    assert len(set(replies)) >= 5
    parsed = [op for text in replies for op in parse(text)]
    assert any(isinstance(op, Malformed) for op in parsed)
    assert any(isinstance(op, Operation) for op in parsed)
    assert replies == [await reply("malformed", PLAN, seed=seed) for seed in range(40)]


def test_an_unknown_policy_is_answered_with_the_nearest():
    with pytest.raises(UsageError) as caught:
        make_model("scripted:curier", {})
    assert (caught.value.message, caught.value.hint) == (
        "unknown scripted policy 'curier'",
        "did you mean 'courier'?",
    )


@pytest.mark.parametrize("name", sorted(scripted.POLICIES))
def test_every_policy_is_there_under_its_name(name):
    assert scripted.make(name).name == f"scripted:{name}"


def test_settings_are_refused():
    with pytest.raises(UsageError, match="takes no settings, but temperature was given"):
        make_model("scripted:null", {"temperature": 1})
