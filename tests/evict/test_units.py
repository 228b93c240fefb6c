"""Units: what belongs together, what is pinned, what it costs."""

import pytest

from automem.errors import UsageError
from automem.evict import approximate_tokens, units_from_messages, units_from_steps
from automem.trace import Step

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "tk-12345"}'}}
CHAT = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Find the key."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a drawer"},
    {"role": "assistant", "content": "It is in the drawer."},
    {"role": "user", "content": [{"type": "text", "text": "And the lamp?"}, {"type": "image_url", "image_url": {}}]},
]


def test_an_assistant_message_and_what_answers_it_are_one_unit():
    units = units_from_messages(CHAT)
    assert [(unit.kind, unit.pinned, len(unit.messages)) for unit in units] == [
        ("rule", True, 1),
        ("task", True, 1),
        ("step", False, 2),
        ("step", False, 2),
    ]
    assert [message for unit in units for message in unit.messages] == CHAT
    assert units[2].text == 'look({"at": "tk-12345"})\na drawer'
    assert units[3].text == "It is in the drawer.\nAnd the lamp?"
    assert [unit.index for unit in units] == [0, 1, 2, 3]


def test_calls_in_the_form_of_automem_are_read_too():
    calls = [{"id": "call_0", "name": "SEARCH", "arguments": '{"file": "a"}'}]
    (unit,) = units_from_messages([{"role": "assistant", "content": "", "tool_calls": calls}])
    assert unit.text == 'SEARCH({"file": "a"})'


def test_tokens_are_those_of_the_counter_and_of_each_message():
    units = units_from_messages(CHAT, count=lambda text: len(text.split()), per_message=10)
    assert [unit.tokens for unit in units] == [12, 13, 20 + 2 + 2, 20 + 5 + 3]


def test_a_chat_can_go_on():
    whole = units_from_messages(CHAT)
    for cut in (0, 1, 2, 4):
        first = units_from_messages(CHAT[:cut])
        assert first + units_from_messages(CHAT[cut:], before=first) == whole


def test_a_rule_that_comes_later_is_pinned_alone():
    chat = [*CHAT, {"role": "system", "content": "Never pay."}, {"role": "user", "content": "Go on."}]
    rule, question = units_from_messages(chat)[-2:]
    assert (rule.kind, rule.pinned, question.kind, question.pinned) == ("rule", True, "step", False)


@pytest.mark.parametrize("chat", [CHAT[3:], CHAT[:2] + CHAT[3:4], [*CHAT[:3], CHAT[0], CHAT[3]]])
def test_a_result_without_its_call_is_refused(chat):
    with pytest.raises(UsageError, match="tool result"):
        units_from_messages(chat)


def test_steps_of_a_trace_are_observation_and_action():
    steps = [Step(t=t, observation=f"room {t}", action="north", reward=0, progress=0, next_digest="") for t in (0, 1)]
    assert [unit.text for unit in units_from_steps(steps)] == ["room 0\nYou did: north", "room 1\nYou did: north"]
    assert not any(unit.pinned for unit in units_from_steps(steps))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("abcdefg", 2), ("abcdefgh", 3), ("48213", 5), ("CS-48213", 6), ("京都", 2), ("\ud83d", 1)],
)
def test_the_approximation_counts_digits_one_by_one_and_the_rest_by_bytes(text, tokens):
    assert approximate_tokens(text) == tokens
