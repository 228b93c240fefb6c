from __future__ import annotations

import pytest

from automem.results.stats import Paired, mean, paired, standard_error


@pytest.mark.parametrize(
    ("solved", "published"),
    [
        (3, "7.50 ± 4.16"),
        (5, "12.50 ± 5.23"),
        (7, "17.50 ± 6.01"),
        (10, "25.00 ± 6.85"),
        (11, "27.50 ± 7.06"),
        (12, "30.00 ± 7.25"),
    ],
)
def test_minihack_as_published_pools_forty_episodes(solved, published):
    values = [100.0] * solved + [0.0] * (40 - solved)
    assert f"{mean(values):.2f} ± {standard_error(values):.2f}" == published


def test_nethack_as_published_is_one_of_five_episodes():
    values = [2.08, 0, 0, 0, 0]
    assert f"{mean(values):.2f} ± {standard_error(values):.2f}" == "0.42 ± 0.37"
    assert f"{standard_error(values, sample=True):.2f}" == "0.42"


def test_what_cannot_be_computed_is_none():
    assert mean([]) is None
    assert standard_error([]) is None
    assert standard_error([0.3]) == 0
    assert standard_error([0.3], sample=True) is None


def test_paired_interval_holds_the_mean_and_depends_on_the_seed_alone():
    before = [0.0] * 20
    after = [0.1, 0.2, 0.3, 0.4] * 5
    found = paired(before, after, seed=3)
    assert found.mean == pytest.approx(0.25)
    # mean ± 1.96 standard errors of the population is 0.201 … 0.299
    assert found.low == pytest.approx(0.201, abs=0.01)
    assert found.high == pytest.approx(0.299, abs=0.01)
    assert paired(before, after, seed=3) == found
    assert paired(before, after, confidence=0.5, seed=3).low > found.low


def test_paired_differences_run_from_before_to_after():
    assert paired([0.5, 0.5], [0.75, 0.75]) == Paired(2, 0.25, 0.25, 0.25)
    assert paired([0.5], [0.25]) == Paired(1, -0.25, None, None)
    assert paired([], []) == Paired(0, None, None, None)
    with pytest.raises(ValueError):
        paired([0.5], [])


def test_paired_interval_of_few_and_skewed_pairs_is_finite():
    found = paired([0, 0, 0], [0, 0, 1])
    assert found.low <= found.mean <= found.high
