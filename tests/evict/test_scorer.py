"""Scorers: fitting, what the file holds and its size, and that ranking needs numpy alone."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest

from automem.errors import UsageError
from automem.evict import Scorer, Unit, load_scorer
from automem.evict.features import AGENT_FEATURES, agent_features
from automem.evict.fit import Episode, area_under_curve, fit
from automem.evict.scorer import Provenance


def scorer(weights=(0,) * 10, **parts):
    provenance = Provenance(labels="made", episodes=1, units=1, positives=1)
    return Scorer(mean=(0,) * 10, scale=(1,) * 10, weights=weights, bias=0, provenance=provenance, **parts)


def episode(seed):
    """Short units with an identifier are worth keeping, long chatter is not; every tenth label is wrong."""
    draw = random.Random(seed)
    units, labels = [], []
    for index in range(40):
        worth = draw.random() < 0.3
        text = f"Token: tk-{draw.randrange(10**6)}x" if worth else "so it goes " * draw.randrange(20)
        units.append(Unit(index, text, max(1, len(text) // 4)))
        labels.append(int(worth != (draw.random() < 0.1)))
    return Episode(units, labels)


@pytest.fixture(scope="module")
def fitted():
    return fit([episode(seed) for seed in range(8)], labels="made by hand", source="nowhere")


def test_it_ranks_and_its_probabilities_are_calibrated(fitted):
    other = [episode(seed) for seed in range(100, 130)]
    scores = np.concatenate([fitted.score(agent_features(e.units)) for e in other])
    labels = np.concatenate([e.labels for e in other])
    assert area_under_curve(scores, labels) > 0.8
    for low, high in ((0, 0.3), (0.6, 1)):
        inside = (scores >= low) & (scores <= high)
        assert abs(scores[inside].mean() - labels[inside].mean()) < 0.06


def test_provenance(fitted):
    found = fitted.provenance
    assert (found.labels, found.source, found.episodes, found.units) == ("made by hand", "nowhere", 8, 320)
    assert found.auc > 0.8


def test_the_file_is_small_and_comes_back_as_it_was(fitted, tmp_path):
    path = tmp_path / "new folder" / "lre.json"
    fitted.save(path)
    assert path.stat().st_size < 2_000
    assert load_scorer(path) == fitted


def test_the_same_episodes_give_the_same_scorer(fitted):
    assert fit([episode(seed) for seed in range(8)], labels="made by hand", source="nowhere") == fitted


def test_one_episode_is_enough_but_is_not_calibrated():
    alone = fit([episode(1)], labels="made")
    assert (alone.slope, alone.intercept, alone.provenance.auc) == (1.0, 0.0, None)


def test_pinned_units_are_not_learned_from():
    made = episode(2)
    pinned = [Unit(unit.index, unit.text, unit.tokens, pinned=unit.index < 30) for unit in made.units]
    assert fit([Episode(pinned, made.labels)], labels="made").provenance.units == 10


@pytest.mark.parametrize("episodes", [[], [Episode([Unit(0, "a", 1)], [1])]])
def test_labels_that_are_all_the_same_teach_nothing(episodes):
    with pytest.raises(UsageError, match="both labels"):
        fit(episodes, labels="made")


def test_scores_are_probabilities_however_large_the_numbers():
    features = np.full((3, 10), 1e9) * [[-1], [0], [1]]
    assert scorer(weights=(1,) * 10).score(features).tolist() == pytest.approx([0, 0.5, 1], abs=1e-12)


def test_a_score_does_not_depend_on_the_other_rows(fitted):
    features = np.random.default_rng(1).normal(size=(257, 10))
    together = fitted.score(features)
    assert all(fitted.score(features[i : i + 1])[0] == together[i] for i in range(257))
    assert np.array_equal(fitted.score(features[:100]), together[:100])


def test_area_under_the_curve():
    def area(scores, labels):
        return area_under_curve(np.array(scores), np.array(labels))

    assert area([1, 2, 3, 4], [0, 0, 1, 1]) == 1
    assert area([4, 3, 2, 1], [0, 0, 1, 1]) == 0
    assert area([1, 1, 1], [0, 1, 1]) == 0.5
    assert area([1, 2, 2, 3], [0, 1, 0, 1]) == 0.875


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format"),
        ({"surprise": 1}, "surprise"),
        ({"weights": [1.0]}, "do not fit"),
        ({"scale": [0.0] * 10}, "do not fit"),
        ({"features": AGENT_FEATURES[::-1]}, "other features"),
    ],
)
def test_a_file_that_is_no_scorer_is_refused(tmp_path, change, message):
    path = tmp_path / "lre.json"
    path.write_text(json.dumps(scorer().model_dump() | change))
    with pytest.raises(UsageError, match=message):
        load_scorer(path)


def test_a_torn_file_is_refused(tmp_path):
    path = tmp_path / "lre.json"
    path.write_text('{"format": 1, "mean": [')
    with pytest.raises(UsageError, match="is not a scorer"):
        load_scorer(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        load_scorer(tmp_path / "none.json")


def test_running_needs_no_scikit_learn(fitted, tmp_path):
    fitted.save(tmp_path / "lre.json")
    code = (
        "import sys; from automem.evict import make, Unit\n"
        f"print(len(make({f'lre:{tmp_path}/lre.json'!r}).scores([Unit(0, 'a', 1), Unit(1, 'b', 1)])))\n"
        "print([name for name in ('sklearn', 'scipy', 'bm25s', 'torch', 'openai') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n")[:2] == ["2", "[]"]
