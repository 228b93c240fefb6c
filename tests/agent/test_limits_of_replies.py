"""What a reply may hold, and what becomes of the rest."""

from __future__ import annotations

from automem.agent.turn import _storable, read_calls, read_reply
from automem.grammar import Malformed, Operation
from automem.messages import Usage
from automem.models.base import Completion


def test_operations_beyond_the_limit_are_answered_once_in_tags():
    reply = read_reply("<|DONE|>" * 5, characters=1000, operations=3)
    assert reply[:3] == [Operation("DONE", ())] * 3
    assert len(reply) == 4 and isinstance(reply[3], Malformed) and "may have 3 operations" in reply[3].error


def test_every_tool_call_has_an_answer_beyond_the_limit_too():
    calls = [{"id": f"c{n}", "name": "DONE", "arguments": "{}"} for n in range(5)]
    reply = read_calls(calls, operations=2)
    assert len(reply) == 5
    assert [isinstance(part, Malformed) for part in reply] == [False, False, True, True, True]


def test_lone_surrogates_of_a_model_become_question_marks():
    completion = Completion("go \ud83d north é", Usage(1, 1))
    assert _storable(completion).text == "go ? north é"
