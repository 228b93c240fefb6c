"""`ContextManager`: chats of all shapes stay within limits, unbroken and in order; and when it evicts."""

import copy
import random

import pytest
from histories import random_chat

from automem.errors import UsageError
from automem.evict import ContextManager, Evictor, Limits, PinsOverBudget, Unit, make


def by_words(text):
    return len(text.split())


def manager(limits, policy="window", **parts):
    return ContextManager(make(policy), limits, count=by_words, per_message=1, **parts)


def step(number, words=9):
    return [
        {"role": "assistant", "content": f"step {number}"},
        {"role": "user", "content": f"seen {number}" + " x" * (words - 2)},
    ]


START = [{"role": "system", "content": "Obey."}, {"role": "user", "content": "Go."}]


def chat(steps, words=9):
    return [*START, *(message for number in range(steps) for message in step(number, words))]


def test_below_the_trigger_nothing_happens():
    manage = manager(Limits(window=100, keep_last=1))
    assert manage(chat(5)) == chat(5)
    assert (manage.tokens, manage.peak, manage.archive) == (69, 69, [])


def test_above_it_history_goes_down_to_the_low_mark_and_is_archived():
    manage = manager(Limits(window=100, trigger=0.8, low=0.5, keep_last=1))
    assert manage(chat(7)) == [*START, *chat(7)[-6:]]
    assert manage.tokens == 4 + 3 * 13
    assert [(evicted.unit.index, evicted.score, evicted.at) for evicted in manage.archive] == [
        (2, 2.0, 9),
        (3, 3.0, 9),
        (4, 4.0, 9),
        (5, 5.0, 9),
    ]


@pytest.mark.parametrize("whole", [True, False])
def test_the_caller_may_keep_all_or_only_what_was_given(whole):
    manage = manager(Limits(window=100, low=0.5, keep_last=1))
    mine, sizes = list(START), []
    for number in range(30):
        mine += step(number)
        given = manage(mine)
        assert given[:2] == START
        assert given[-2:] == step(number)
        sizes.append(manage.tokens)
        if not whole:
            mine = given
    assert max(sizes) == manage.peak <= 80
    assert len(manage.archive) + (len(given) - 2) // 2 == 30


def test_what_is_evicted_does_not_come_back():
    manage = manager(Limits(budget=26, keep_last=1))
    gone = set()
    for steps in range(1, 12):
        manage(chat(steps))
        now = {evicted.unit.index for evicted in manage.archive}
        assert gone <= now
        gone = now
    assert len(gone) == len(manage.archive) == 11 - 3


def test_a_cooldown_waits_unless_the_window_is_full():
    manage = manager(Limits(budget=0, cooldown=3, keep_last=1))
    assert [(len(manage(chat(steps))) - 2) // 2 for steps in range(1, 9)] == [1, 1, 2, 3, 1, 2, 3, 1]
    tight = manager(Limits(window=40, budget=0, cooldown=9, keep_last=1))
    for steps in range(1, 9):
        tight(chat(steps))
    assert tight.peak <= 40


def test_pins_alone_over_the_window_are_an_error():
    with pytest.raises(PinsOverBudget, match="17 tokens"):
        manager(Limits(window=16))(chat(1))


def test_full_says_when_it_is_full():
    with pytest.raises(PinsOverBudget, match="full keeps"):
        manager(Limits(window=60), policy="full")(chat(5))


def test_more_can_be_pinned():
    manage = manager(Limits(budget=0, keep_last=1), pin=lambda unit: "seen 1" in unit.text)
    assert manage(chat(6)) == [*START, *step(1), *step(5)]


def test_a_call_waits_for_its_result():
    manage = manager(Limits(budget=0, keep_last=1))
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = [*chat(3), {"role": "assistant", "content": None, "tool_calls": [call]}]
    given = manage(asked)
    result = {"role": "tool", "tool_call_id": "a", "content": "a door"}
    assert manage([*given, result]) == [*START, asked[-1], result]
    assert manage([*asked, result, *step(9)]) == [*START, *step(9)]


def test_a_task_may_come_after_the_rules():
    manage = manager(Limits(budget=0, keep_last=1))
    assert manage(START[:1]) == START[:1]
    assert manage(START) == START
    assert manage(chat(3)) == [*START, *step(2)]


def test_another_chat_is_another_chat():
    manage = manager(Limits(budget=0, keep_last=1))
    manage(chat(5))
    other = [{"role": "system", "content": "Other."}, *step(1)]
    assert manage(other) == other
    assert manage.archive == []
    assert manage([]) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"window": 0},
        {"budget": -1},
        {"window": 9, "trigger": 0.5, "low": 0.6},
        {"window": 9, "trigger": 1.1},
        {"window": 9, "cooldown": -1},
        {"window": 9, "keep_last": 0},
    ],
)
def test_limits_that_cannot_be(wrong):
    with pytest.raises(UsageError, match="eviction:"):
        Limits(**wrong)


def test_an_evictor_takes_units_of_any_make():
    evictor = Evictor(make("window"), Limits(budget=10, keep_last=1))
    units = [Unit(i, f"step {i}", 5) for i in range(6)]
    assert [unit.index for unit in evictor(units)] == [3, 4, 5]
    assert evictor.last.old_tokens == 10
    assert evictor.peak == 15


def check_chat(draw):
    """One random chat, message by message, under random limits."""
    whole = random_chat(draw)
    before = copy.deepcopy(whole)
    window = draw.choice((None, draw.randrange(1, 120)))
    budget = draw.randrange(60) if window is None else draw.choice((None, draw.randrange(60)))
    trigger = draw.choice((0.5, 0.8, 1.0))
    limits = Limits(window, budget, trigger, trigger * draw.random() or 0.1, draw.randrange(3), draw.randrange(1, 4))
    manage = manager(limits, policy=draw.choice(("window", "lru", "tfidf")))
    mine, keeps_all = [], draw.random() < 0.5
    for message in whole:
        mine = [*mine, message]
        try:
            given = manage(mine)
        except PinsOverBudget:
            assert window is not None
            return
        check_given(given, whole, manage, window)
        if not keeps_all:
            mine = given
    assert whole == before


def check_given(given, whole, manage, window):
    assert window is None or manage.tokens <= window
    places = [next(i for i, message in enumerate(whole) if message is one) for one in given]
    assert places == sorted(places)
    asked = [call["id"] for message in given for call in message.get("tool_calls", ())]
    told = [message["tool_call_id"] for message in given if message["role"] == "tool"]
    evicted = {id(message) for gone in manage.archive for message in gone.unit.messages}
    seen = whole[: places[-1] + 1]
    assert told == asked[: len(told)]
    assert len(given) + len(evicted) == len(seen)
    assert all(message["role"] != "system" for message in seen if id(message) in evicted)


def test_a_thousand_random_chats():
    draw = random.Random(9)
    for _ in range(1_000):
        check_chat(draw)


@pytest.mark.slow
def test_many_random_chats():
    draw = random.Random(10)
    for _ in range(30_000):
        check_chat(draw)
