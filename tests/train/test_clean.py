from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_turns import DONE, WEST, append, search

from automem.grammar import Operation, locate, parse
from automem.trace import OperationRecord
from automem.train.clean import Dropped, checks, clean_text, clean_turn
from automem.train.turns import Turn

LOOK = search("lamp")


def cleaned(text, phase="log"):
    return clean_text(text, phase)


@pytest.mark.parametrize(
    ("phase", "reply", "left"),
    [
        ("log", append("lamp at 3,1") + "\n" + DONE, append("lamp at 3,1") + "\n" + DONE),
        ("log", DONE, DONE),
        ("log", f"Nothing new.\n{DONE}", f"Nothing new.\n{DONE}"),
        ("log", f"{DONE}\n{append('late')}", DONE),
        ("log", f"<|done|><|END|> and so on {LOOK}", "<|done|><|END|>"),
        ("log", f"{LOOK} I hope that helps!", LOOK),
        ("log", f"```\n{LOOK}\n```", LOOK),
        ("log", f"```text\n{LOOK}\n{DONE}\n```\nThat is all.", f"{LOOK}\n{DONE}"),
        ("plan", f"{LOOK}\n{WEST}", LOOK),
        ("plan", f"{LOOK}\n{WEST}\n{DONE}", LOOK),
        ("plan", f"{LOOK}\n<|ACTION|>west", LOOK),
        ("plan", f"{LOOK} {WEST} {search('more')}", LOOK),
        ("plan", f"I should look.\n{LOOK}\nThen I go west.", f"I should look.\n{LOOK}"),
        ("log", append("code is ```x```"), append("code is ```x```")),
    ],
)
def test_the_six_transforms(phase, reply, left):
    assert cleaned(reply, phase) == left
    assert checks({"role": "assistant", "content": left}, phase) == []


@pytest.mark.parametrize(
    ("phase", "reply", "reason"),
    [
        ("log", "I will remember that.", "no_operation"),
        ("plan", WEST, "no_operation"),
        ("plan", f"{WEST}\n{LOOK}", "no_operation"),
        ("log", "<|APPEND|>notes.txt|never closed", "no_operation"),
        ("log", f"```\nmy plan\n```\n{LOOK}", "fence"),
        ("log", f"```\n{LOOK}", "fence"),
        ("log", "```\n<|APPEND|>notes.txt|```\n```\n<|END|>", "fence"),
    ],
)
def test_turns_that_are_dropped(phase, reply, reason):
    with pytest.raises(Dropped) as dropped:
        cleaned(reply, phase)
    assert dropped.value.reason == reason


def test_the_phase_is_told_never_guessed():
    reply = f"{LOOK}\n{WEST}\n{DONE}"
    assert cleaned(reply, "plan") == LOOK
    assert cleaned(reply, "log") == reply
    assert checks({"role": "assistant", "content": reply}, "log") == ["action_in_last"]


def test_done_behind_an_action_keeps_nothing_of_the_action():
    assert "ACTION" not in cleaned(f"{LOOK} {DONE} {WEST}", "plan")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nothing", ["no_op_last", "post_op_tail"]),
        (WEST, ["no_op_last", "action_in_last"]),
        (f"{LOOK}\n{WEST}", ["action_in_last"]),
        (f"```\n{LOOK}", ["plaintext_fence"]),
        (f"{LOOK} so be it", ["post_op_tail"]),
        (f"{LOOK}\n<|ACTION|>", ["action_in_last", "post_op_tail"]),
    ],
)
def test_the_four_checks(text, found):
    assert checks({"role": "assistant", "content": text}, "plan") == found


PIECES = [LOOK, append("a lamp"), DONE, WEST, "```\n", "```", "prose ", "\n", "<|APPEND|>notes.txt|", "<|END|>"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join), st.sampled_from(["log", "plan"]))
def test_what_is_left_passes_the_checks_and_is_clean_already(text, phase):
    try:
        left = cleaned(text, phase)
    except Dropped:
        return
    found = checks({"role": "assistant", "content": left}, phase)
    assert set(found) <= {"action_in_last"} if phase == "log" else not found
    assert cleaned(left, phase) == left
    parsed = [one for one in parse(text) if isinstance(one, Operation)]
    assert all(one in parsed for one in parse(left) if isinstance(one, Operation))


@settings(deadline=None)
@given(st.text(max_size=80))
def test_places_are_those_of_the_operations(text):
    places = locate(text)
    assert all(one.start < two.start for one, two in pairwise(places))
    for one in places:
        if isinstance(one.found, Operation):
            assert parse(text[one.start : one.end]) == [one.found]


def turn(phase, reply, *messages, calls=()):
    from automem.messages import Usage
    from automem.trace import Call

    asked = [{"role": role, "content": content} for role, content in messages]
    usage = Usage(prompt=1, completion=1)
    return Turn(3, 0, Call(role="memory", phase=phase, messages=asked, reply=reply, tool_calls=calls, usage=usage))


def test_earlier_replies_are_cleaned_and_examples_are_not():
    example = f"{LOOK}\n{WEST}"
    talk = turn(
        "plan",
        f"{search('study')}\n{WEST}",
        ("system", "rules"),
        ("user", "an example"),
        ("assistant", example),
        ("user", "# PLAN"),
        ("assistant", f"{LOOK}\n{WEST} so there"),
        ("user", "[1] no lines match"),
    )
    prompt, reply = clean_turn(talk, earlier=1)
    assert prompt[2]["content"] == example
    assert prompt[4]["content"] == LOOK
    assert reply["content"] == search("study")


def test_an_earlier_reply_that_cannot_be_cleaned_costs_the_turn():
    talk = turn("log", DONE, ("system", "rules"), ("user", "# LOG"), ("assistant", "hm"), ("user", "go on"))
    with pytest.raises(Dropped) as dropped:
        clean_turn(talk, earlier=1)
    assert dropped.value.reason == "earlier_no_operation"


def dropped(talk):
    with pytest.raises(Dropped) as error:
        clean_turn(talk, earlier=0)
    return error.value.reason


def test_a_reply_that_has_no_end_of_its_own_is_no_target():
    """A reply that was cut would teach to stop anywhere."""
    talk = turn("log", append("lamp at 3,1"), ("user", "# LOG"))
    assert clean_turn(talk, earlier=0)[1]["content"] == append("lamp at 3,1")
    by_tokens = talk.call.model_copy(update={"finish_reason": "length"})
    assert dropped(Turn(3, 0, by_tokens)) == "cut_off"
    unread = [OperationRecord(name="APPEND"), OperationRecord(name="?", args=["…"], ok=False)]
    assert dropped(Turn(3, 0, talk.call.model_copy(update={"operations": unread}))) == "cut_off"
    malformed = [OperationRecord(name="?", args=["<|APPEND|>notes"], ok=False)]
    assert clean_turn(Turn(3, 0, talk.call.model_copy(update={"operations": malformed})), earlier=0)


def test_what_the_agent_puts_in_a_models_mouth_is_no_target():
    assert dropped(turn("plan", f"(memory consulted)\n{LOOK}", ("user", "# PLAN"))) == "placeholder"
    talk = turn("plan", LOOK, ("user", "# PLAN"), ("assistant", "(memory consulted)"), ("user", "go on"))
    with pytest.raises(Dropped, match="earlier_no_operation"):
        clean_turn(talk, earlier=1)


def test_an_action_in_log_fails_the_check():
    with pytest.raises(Dropped) as dropped:
        clean_turn(turn("log", f"{WEST}{DONE}", ("user", "# LOG")), earlier=0)
    assert dropped.value.reason == "action_in_last"


def call(number, name, arguments="{}"):
    return {"id": f"c{number}", "name": name, "arguments": arguments}


SEARCHED = '{"file": "notes.txt", "keyword": "lamp"}'


@pytest.mark.parametrize(("phase", "last"), list(product(["log", "plan"], ["DONE", "ACTION"])))
def test_native_calls_are_cut_alike(phase, last):
    calls = [
        call(1, "SEARCH", SEARCHED),
        call(2, last, '{"action": "west"}' if last == "ACTION" else "{}"),
        call(3, "SEARCH", SEARCHED),
    ]
    asked = turn(phase, "", ("user", "# PLAN"), calls=calls)
    if (phase, last) == ("log", "ACTION"):
        with pytest.raises(Dropped):
            clean_turn(asked, earlier=0)
        return
    kept = clean_turn(asked, earlier=0)[1]["tool_calls"]
    names = {("log", "DONE"): ["SEARCH", "DONE"], ("plan", "ACTION"): ["SEARCH"]}
    assert [one["name"] for one in kept] == names.get((phase, last), ["SEARCH", "DONE", "SEARCH"])


def test_answers_to_native_calls_that_are_cut_go_with_them():
    talk = turn(
        "plan",
        "",
        ("user", "# PLAN"),
        ("assistant", ""),
        ("tool", "found"),
        ("tool", "held"),
        calls=[call(7, "SEARCH", SEARCHED)],
    )
    messages = talk.call.messages
    messages[1]["tool_calls"] = [call(1, "SEARCH", SEARCHED), call(2, "ACTION", '{"action": "west"}')]
    messages[2]["tool_call_id"], messages[3]["tool_call_id"] = "c1", "c2"
    prompt, _ = clean_turn(talk, earlier=1)
    assert [message["role"] for message in prompt] == ["user", "assistant", "tool"]
    assert [one["id"] for one in prompt[1]["tool_calls"]] == ["c1"]
