"""The gates: what they accept, and how often they take noise for a gain."""

import itertools
import json
import warnings

import numpy as np
import pytest

from automem.results.gate import GateSettings, MeanGate, PairedGate

SEEDS = range(10)


def scores(values):
    return {f"small/{seed}": float(value) for seed, value in enumerate(values)}


def progress(rng):
    """Progress of ten episodes that varies by chance and from seed to seed, as recorded runs do."""
    easy = np.linspace(0.2, 0.8, len(SEEDS))
    return np.clip(rng.normal(easy, 0.15), 0, 1)


def solved(rng):
    """Ten episodes that are won or lost."""
    return rng.random(len(SEEDS)) < np.linspace(0.1, 0.9, len(SEEDS))


@pytest.mark.parametrize(("play", "mean_rate"), [(progress, 0.5), (solved, 0.4)])
def test_identical_candidates_are_accepted_at_the_level_of_the_paired_gate(play, mean_rate, record_property):
    rng = np.random.default_rng(4)
    pairs = [(scores(play(rng)), scores(play(rng))) for _ in range(200)]
    rates = {
        gate.name: sum(gate.decide(before, after).accepted for before, after in pairs) / 200
        for gate in (PairedGate(0.95), MeanGate())
    }
    record_property("rates", json.dumps(rates))
    print(f"A/A with {play.__name__} scores: {rates}")
    assert rates["paired"] <= 0.05 + 0.02
    assert rates["mean"] == pytest.approx(mean_rate, abs=0.1)


@pytest.mark.parametrize("sizes", [[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [1] * 7, [0.9, 0.1, 0.1, 0.1, 0, 0, 0]])
def test_the_level_is_exact_at_any_number_of_pairs(sizes):
    """Of all ways to give the differences their signs, which chance makes equally likely, few are accepted."""
    gate = PairedGate(0.95)
    ways = list(itertools.product((-1, 1), repeat=len(sizes)))
    before = scores([0.0] * len(sizes))
    accepted = [gate.decide(before, scores(np.multiply(way, sizes))).accepted for way in ways]
    assert sum(accepted) / len(ways) <= 0.05


def test_a_real_gain_is_accepted():
    rng = np.random.default_rng(3)
    gained = [PairedGate().decide(scores(old := progress(rng)), scores(old + 0.15)).accepted for _ in range(20)]
    assert all(gained)
    noisy = [PairedGate().decide(scores(progress(rng)), scores(progress(rng) + 0.25)).accepted for _ in range(20)]
    assert sum(noisy) >= 18


def test_a_loss_is_never_accepted():
    before = scores(np.linspace(0.2, 0.8, 10))
    after = {key: value - 0.1 for key, value in before.items()}
    for gate in (PairedGate(), PairedGate(0.5), MeanGate()):
        assert not gate.decide(before, after).accepted


def test_a_tie_is_no_gain():
    same = scores([0.1, 0.5, 0.5, 0.9, 1.0])
    for gate in (PairedGate(), PairedGate(0.5), MeanGate()):
        result = gate.decide(same, dict(reversed(same.items())))
        assert (result.accepted, result.difference) == (False, 0)
    assert PairedGate().decide(same, same).p == 1.0


def test_the_mean_gate_takes_any_gain_and_says_no_probability():
    before, after = scores([0.5, 0.5, 0.5]), scores([0.5, 0.5, 0.5 + 1e-12])
    result = MeanGate().decide(before, after)
    assert (result.accepted, result.gate, result.n, result.p) == (True, "mean", 3, None)
    assert str(MeanGate()) == "mean"


@pytest.mark.parametrize(("pairs", "accepted"), [(3, False), (4, False), (5, True), (6, True)])
def test_a_gain_in_every_episode_is_enough_from_five_episodes_on(pairs, accepted):
    result = PairedGate().decide(scores([0.2] * pairs), scores(np.linspace(0.3, 0.5, pairs)))
    assert result.p == pytest.approx(0.5**pairs)
    assert result.accepted is accepted


@pytest.mark.parametrize(("confidence", "pairs"), [(0.5, 1), (0.75, 2), (0.9, 4), (0.95, 5), (0.975, 6), (0.99, 7)])
def test_the_fewest_pairs_that_a_confidence_needs(confidence, pairs):
    gate = PairedGate(confidence)
    assert gate.fewest_pairs() == pairs
    few, enough = ([0.0] * (pairs - 1), [0.0] * pairs)
    if few:
        assert not gate.decide(scores(few), scores([1.0] * len(few))).accepted
    assert gate.decide(scores(enough), scores([1.0] * pairs)).accepted


def test_one_lucky_episode_among_ten_is_noise():
    before = scores([0.2] * 10)
    assert not PairedGate().decide(before, {**before, "small/3": 1.0}).accepted
    assert MeanGate().decide(before, {**before, "small/3": 1.0}).accepted


@pytest.mark.parametrize("gate", [PairedGate(), MeanGate()])
@pytest.mark.parametrize("after", [scores([1, 1]), scores([1, 1, 1, 1]), {"small/0": 1, "small/1": 1, "other/2": 1}])
def test_only_the_same_episodes_are_compared(gate, after):
    with pytest.raises(ValueError, match="the same episodes"):
        gate.decide(scores([0, 0, 0]), after)


def test_episodes_are_paired_by_name_not_by_order():
    before = scores([0.1, 0.4, 0.2, 0.8, 0.5, 0.3])
    after = {key: value + 0.1 for key, value in before.items()}
    shuffled = dict(sorted(after.items(), key=lambda pair: pair[1]))
    assert PairedGate().decide(before, shuffled) == PairedGate().decide(before, after)


@pytest.mark.parametrize(
    "differences", [[0.5], [0.5, 0.5], [0, 1], [0, 0, 0, 0, 1], [1, -1], [0, 0, 0], [0.1 + 0.2, 0.3, 0.3], [1] * 20]
)
def test_a_verdict_is_json_without_nan_and_without_warnings(differences):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = PairedGate().decide(scores([0] * len(differences)), scores(differences))
    assert json.loads(json.dumps(result.data(), allow_nan=False)) == result.data()
    assert 0 < result.p <= 1


def test_the_same_scores_give_the_same_verdict_again():
    rng = np.random.default_rng(5)
    before, after = scores(rng.random(20)), scores(rng.random(20))
    assert PairedGate().decide(before, after) == PairedGate().decide(before, after)


def test_a_verdict_in_words():
    gain = PairedGate().decide(scores([0.25] * 12), scores([0.75] * 12))
    assert str(gain) == "0.250 -> 0.750, p < 0.001"
    assert str(PairedGate().decide(scores([0.25] * 5), scores([0.75] * 5))) == "0.250 -> 0.750, p = 0.031"
    assert (str(PairedGate()), str(PairedGate(0.9))) == ("paired at 0.95", "paired at 0.9")


@pytest.mark.parametrize("confidence", [0.4, 1.0, 1.5, -1])
def test_confidence_is_a_probability_above_one_half(confidence):
    with pytest.raises(ValueError, match="confidence"):
        GateSettings(confidence=confidence)
