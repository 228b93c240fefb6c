"""History: what scaffolds may know of earlier steps, bounded in size."""

import json

from automem.agent.context import History, LastSteps


def record(history, after="b", before="a", position=(1, 2), **facts):
    base = {"action": "wait", "proposed": "wait", "fallback": False, "reward": 0.0, "progress": 0.0}
    state = {"position": list(position)} if position else {}
    history.record(observation=before, state={}, next_observation=after, next_state=state, **base | facts)


def test_it_starts_empty():
    history = History(LastSteps(4))
    history.start({"position": [3, 4]})
    assert history.export() == {"step": 0, "steps": [], "last": None, "unchanged": 0, "visits": {"3,4": 1}}


def test_a_step_as_recorded():
    history = History(LastSteps(4))
    record(history, action="north", proposed="up", fallback=True, reward=1.0, progress=0.5)
    assert history.export()["last"] == {
        "step": 0,
        "observation": "a",
        "state": {},
        "action": "north",
        "proposed": "up",
        "fallback": True,
        "reward": 1.0,
        "progress": 0.5,
        "changed": True,
    }


def test_unchanged_counts_steps_in_a_row():
    history = History(LastSteps(2))
    seen = []
    for after in "aaba":
        record(history, after)
        seen.append(history.export()["unchanged"])
    assert seen == [1, 2, 0, 1]


def test_only_the_last_steps_are_kept_and_numbers_go_on():
    history = History(LastSteps(3))
    for _ in range(10):
        record(history)
    told = history.export()
    assert [step["step"] for step in told["steps"]] == [7, 8, 9]
    assert (told["step"], told["last"]) == (10, told["steps"][-1])


def test_visits_are_counted_by_position_newest_last():
    history = History(LastSteps(2))
    history.start({"position": [0, 0]})
    for position in [(1, 0), (0, 0), (0, 0), None, (2, 0, 1)]:
        record(history, position=position)
    assert list(history.export()["visits"].items()) == [("1,0", 1), ("0,0", 3), ("2,0,1", 1)]


def test_visits_shown_and_kept_are_bounded():
    history = History(LastSteps(2))
    for x in range(5_000):
        record(history, position=(x, 0))
    visits = history.export()["visits"]
    assert (len(visits), list(visits)[-1]) == (64, "4999,0")
    record(history, position=(0, 0))
    record(history, position=(4_000, 0))
    visits = history.export()["visits"]
    assert (visits["0,0"], visits["4000,0"]) == (1, 2)


def test_what_is_told_does_not_grow_with_the_episode():
    history = History(LastSteps(16))
    sizes = []
    for step in range(3_000):
        record(history, before="x" * 100, position=(step % 100, step % 7))
        sizes.append(len(json.dumps(history.export())) if step in (200, 2_999) else 0)
    assert 0 < sizes[-1] < 1.1 * sizes[200]


def test_what_is_told_is_not_changed_by_later_steps():
    history = History(LastSteps(2))
    record(history)
    told = history.export()
    copy = json.loads(json.dumps(told))
    record(history)
    assert told == copy
