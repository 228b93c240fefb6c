"""Selection: the rules by hand, then the same rules on many random histories."""

import random

import pytest
from histories import random_units
from hypothesis import given, settings
from hypothesis import strategies as st

from automem.errors import UsageError
from automem.evict import PinsOverBudget, Unit, select
from automem.evict.select import by_density, by_score, everything, newest


def units(*costs, pins=()):
    return [Unit(i, f"unit {i}", cost, pinned=i in pins) for i, cost in enumerate(costs)]


def test_the_best_density_that_does_not_fit_is_skipped_and_the_rest_goes_on():
    chosen = select(units(50, 10, 10, 1), [100.0, 9.0, 8.0, 0.0], budget=20, keep_last=1)
    assert chosen.kept == (1, 2, 3)
    assert chosen.evicted == (0,)
    assert (chosen.old_tokens, chosen.total_tokens) == (20, 21)


def test_it_goes_by_score_per_token():
    assert select(units(100, 10, 1), [0.9, 0.2, 0.0], budget=100, keep_last=1).kept == (1, 2)


def test_with_equal_costs_it_is_the_exact_top():
    assert select(units(*[1] * 6), [0.1, 0.9, 0.5, 0.8, 0.2, 0.0], budget=3, keep_last=1).kept == (1, 2, 3, 5)


def test_of_equals_the_later_one_stays():
    assert select(units(5, 5, 5, 5), [1.0] * 4, budget=10, keep_last=1).kept == (1, 2, 3)


def test_recent_units_stay_even_when_they_alone_exceed_the_budget():
    chosen = select(units(1, 90, 90, 90), [1.0] * 4, budget=0, keep_last=3)
    assert (chosen.kept, chosen.old_tokens, chosen.total_tokens) == ((1, 2, 3), 0, 270)


def test_pins_are_outside_the_contest():
    chosen = select(units(500, 10, 10, 1, pins=(0,)), [0.0, 0.0, 1.0, 0.0], budget=10, keep_last=1)
    assert chosen.kept == (0, 2, 3)
    assert chosen.old_tokens == 10


def test_the_window_bounds_the_whole_prompt():
    chosen = select(units(20, 10, 10, 10, 10, pins=(0,)), [0, 0.1, 0.9, 0.5, 0], budget=99, keep_last=1, window=50)
    assert (chosen.kept, chosen.total_tokens) == ((0, 2, 3, 4), 50)


def test_recent_units_give_way_to_the_window_but_the_live_turn_does_not():
    history = units(30, 30, 30, 30, pins=(0,))
    assert select(history, [0.0] * 4, budget=99, keep_last=3, window=95).kept == (0, 2, 3)
    assert select(history, [0.0] * 4, budget=99, keep_last=3, window=60).kept == (0, 3)
    with pytest.raises(PinsOverBudget, match=r"60 tokens.*59"):
        select(history, [0.0] * 4, budget=99, keep_last=3, window=59)


def test_an_empty_history_is_an_empty_selection():
    assert select([], [], budget=10) == select([], [], budget=0, window=1)
    assert select([], [], budget=10).kept == ()


@pytest.mark.parametrize("scores", [[1.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_every_unit_needs_a_finite_score(scores):
    with pytest.raises(UsageError, match="one finite score"):
        select(units(1, 1), scores, budget=1)


def test_ways_to_fill_a_budget():
    scores, costs = [0.5, 0.9, 0.1], [1, 6, 4]
    assert sorted(by_density(scores, costs, 6)) == [0, 2]
    assert sorted(by_score(scores, costs, 6)) == [1]
    assert newest(scores, costs, 6) == [2]
    assert newest(scores, costs, 10) == [1, 2]
    assert everything(scores, costs, 0) == [0, 1, 2]


def check_selection(history, scores, budget, keep_last, window, fill):
    """The properties that hold whatever comes in."""
    free = [i for i, unit in enumerate(history) if not unit.pinned]
    pins = {i for i, unit in enumerate(history) if unit.pinned}
    try:
        chosen = select(history, scores, budget, keep_last, window, fill)
    except PinsOverBudget:
        assert sum(history[i].tokens for i in pins | set(free[-1:])) > window
        return
    kept = set(chosen.kept)
    assert list(chosen.kept) == sorted(kept)
    assert sorted(chosen.kept + chosen.evicted) == list(range(len(history)))
    assert pins <= kept
    assert set(free[-1:]) <= kept
    recent = set(free[-keep_last:]) if window is None else kept & set(free[-keep_last:])
    assert recent <= kept
    assert chosen.total_tokens == sum(history[i].tokens for i in kept)
    assert chosen.old_tokens <= sum(history[i].tokens for i in kept - pins - set(free[-1:]))
    assert chosen.old_tokens <= budget
    if window is None:
        assert chosen.old_tokens == sum(history[i].tokens for i in kept - pins - recent)
    else:
        assert chosen.total_tokens <= window
    assert chosen == select(history, scores, budget, keep_last, window, fill)


def random_selection(draw):
    history = random_units(draw)
    scores = [draw.choice((0.0, 0.5, draw.random(), 40.0)) for _ in history]
    window = draw.choice((None, draw.randrange(1, 900)))
    check_selection(
        history, scores, draw.randrange(600), draw.randrange(1, 7), window, draw.choice((by_density, by_score, newest))
    )


def test_ten_thousand_random_histories():
    draw = random.Random(7)
    for _ in range(10_000):
        random_selection(draw)


@pytest.mark.slow
def test_a_million_random_histories():
    draw = random.Random(8)
    for _ in range(1_000_000):
        random_selection(draw)


@settings(deadline=None, max_examples=200)
@given(
    costs=st.lists(st.integers(0, 10**6), max_size=12),
    pins=st.sets(st.integers(0, 11)),
    budget=st.integers(0, 10**6),
    keep_last=st.integers(1, 12),
    window=st.none() | st.integers(1, 10**7),
    data=st.data(),
)
def test_adversarial_histories(costs, pins, budget, keep_last, window, data):
    scores = data.draw(st.lists(st.floats(0, 1e300), min_size=len(costs), max_size=len(costs)))
    check_selection(units(*costs, pins=pins), scores, budget, keep_last, window, by_density)
