from __future__ import annotations

import pytest
from handmade import call, op, play, splice, write

from automem.messages import Usage
from automem.results.behaviour import Behaviour, behaviour, read_behaviour


def measured(tmp_path, seen, **changes):
    return read_behaviour(write(tmp_path / "t.jsonl", play(seen, **changes)))


@pytest.mark.parametrize(
    ("seen", "stuck", "oscillating"),
    [
        ("abcd", 0, 0),
        ("aab", 1, 0),
        ("aaaa", 3, 0),
        ("aba", 0, 1),
        ("ababa", 0, 3),
        ("abba", 1, 0),  # the way back is over a stuck step: not the observation of two steps earlier
        ("abcab", 0, 0),  # a round of three is not back and forth
    ],
)
def test_a_step_is_unproductive_when_stuck_or_when_it_undoes_the_one_before(tmp_path, seen, stuck, oscillating):
    result = measured(tmp_path, seen)
    assert (result.stuck, result.oscillating) == (stuck, oscillating)
    assert result.unproductive_rate == (stuck + oscillating) / (len(seen) - 1)


def test_repeat_writes_and_empty_searches_count_executed_operations_only(tmp_path):
    calls = [
        call(
            "log",
            op("APPEND", "log", "x", changed=True),
            op("APPEND", "log", "x", changed=True, repeat=True),
            op("WRITE", "note", "y", changed=True),
            op("UPSERT", "map", "1,2", "z", changed=True),
            op("APPEND", "rules", "x", ok=False, result="error: read-only", repeat=True),
            op("DELETE", "map", "1,2", changed=True),
            op("SEARCH", "log", "x", hits=0),
            op("DONE"),
        ),
        call(
            "plan",
            op("SEARCH", "log", "x", hits=2),
            op("SEARCH", "log", "q", hits=0),
            op("SEARCH", "nowhere", "q", ok=False, hits=0),
            op("COUNT", "log", "q", hits=0),
        ),
    ]
    result = measured(tmp_path, "ab", calls=[calls])
    assert (result.writes, result.searches) == (4, 3)
    assert result.repeat_write_rate == 1 / 4
    assert result.empty_search_rate == 2 / 3
    assert result.log_writes_per_search == 4 / 1


def test_refused_operations_and_invalid_actions(tmp_path):
    known = call("plan", op("READ", "log"), op("ACTION", "east"))
    malformed = call("plan", op("?", "<|SAERCH|>", ok=False, refusal="malformed"), op("ACTION", "east"))
    held = call("plan", op("READ", "log"), op("ACTION", "east", ok=False, result="held: read first", refusal="held"))
    unknown = call(
        "plan", op("ACTION", "fly", ok=False, result="error: 'fly' is not an action", refusal="unknown action")
    )
    result = measured(
        tmp_path,
        "abcdefg",
        calls=[[known], [malformed], [held, known], [unknown, known], [known], [known]],
        rejections=[[], [], [], [], ["east: a wall"], []],
        fallback=[False] * 5 + [True],
    )
    assert (result.operations, result.refused, result.malformed) == (15, 3, 1)
    assert result.refused_rate == 3 / 15
    assert result.invalid_action_rate == 3 / 6
    assert result.fallback_rate == 1 / 6


def test_tokens_are_those_of_all_calls_and_the_cached_share_those_of_servers_that_tell(tmp_path):
    first = call("log", usage=Usage(1000, 50, cached=600))
    second = call("plan", usage=Usage(2000, 70))
    third = call("plan", usage=Usage(200, 10, cached=0, estimated=True))
    result = measured(tmp_path, "abc", calls=[[first, second], [third]])
    assert result.input_tokens_per_step == 1600
    assert result.output_tokens_per_step == 65
    assert result.cached_share == 600 / 1200
    assert (result.calls, result.estimated_calls) == (3, 1)


def test_memory_characters_are_counted_with_line_breaks_by_file(tmp_path):
    memory = [
        [splice("map", 2, 0, "1,1 | door"), splice("log", 0, 0, "ab", "")],
        [splice("map", 2, 1, "1,1 | open door")],
        [splice("log", 0, 1)],
    ]
    result = measured(tmp_path, "abcd", memory=memory)
    assert result.added == {"map": 11 + 16, "log": 3 + 1}
    assert result.kept == {"map": 16, "log": 1}
    assert result.written_per_step == 31 / 3
    assert result.growth_per_step == 17 / 3
    assert result.file_growth() == {"log": 1 / 3, "map": 16 / 3}


def test_lines_that_were_there_before_are_not_growth_when_they_go(tmp_path):
    result = measured(tmp_path, "ab", memory=[[splice("note", 0, 3, "new"), splice("note", 0, 0, "top")]])
    assert result.kept == {"note": 8}


def test_a_rate_of_nothing_is_none(tmp_path):
    for nothing in (Behaviour(), behaviour([])):
        names = [name for name, value in vars(Behaviour).items() if isinstance(value, property)]
        rates = [getattr(nothing, name) for name in names]
        assert len(rates) == 12
        assert rates == [None] * len(rates)
        assert nothing.file_growth() == {}
    assert measured(tmp_path, "ab").cached_share is None


def test_behaviours_add_up_to_micro_averages(tmp_path):
    stuck = read_behaviour(write(tmp_path / "a.jsonl", play("aaaa", memory=[[splice("log", 0, 0, "x")]] * 3)))
    moving = read_behaviour(write(tmp_path / "b.jsonl", play("ab", memory=[[splice("map", 0, 0, "x")]])))
    both = stuck + moving
    assert both.unproductive_rate == 3 / 4
    assert (both.episodes, both.steps) == (2, 4)
    assert both.added == {"log": 6, "map": 2}
