"""The `mlp` scorer: encoding, metadata, gradients, fitting, the file, and the policy that scores from time to time."""

import random
import subprocess
import sys

import numpy as np
import pytest
from histories import random_units

from automem.errors import UsageError
from automem.evict import Evictor, Limits, Unit, make
from automem.evict.features import agent_features
from automem.evict.fit import Episode, area_under_curve, fit
from automem.evict.fit_mlp import MlpSettings, _slopes, fit_mlp
from automem.evict.mlp import chained, hashed_words, metadata, read_mlp, references
from automem.evict.policies.mlp import Mlp


def history(*texts):
    return [Unit(index, text, max(1, len(text) // 4)) for index, text in enumerate(texts)]


def episode(seed, drop=1.0):
    """Units about keys are worth keeping (label `drop`), chatter is not; every tenth label is wrong."""
    draw = random.Random(seed)
    units, labels = [], []
    for index in range(40):
        worth = draw.random() < 0.3
        text = f"the key of door {draw.randrange(999)}" if worth else "so it goes on " * draw.randrange(1, 9)
        units.append(Unit(index, text, max(1, len(text) // 4)))
        labels.append(drop * (worth != (draw.random() < 0.1)))
    return Episode(units, labels)


@pytest.fixture(scope="module")
def fitted():
    return fit_mlp([episode(seed) for seed in range(10)], labels="made", source="nowhere")


def test_hashed_words_are_normed_and_know_words_not_numbers():
    made = hashed_words(["the Key", "key THE!", "CS-1-x9", "7", ""])
    assert made.shape == (5, 64)
    assert (made[0] == made[1]).all() and not (made[0] == made[2]).all()
    assert np.allclose(np.linalg.norm(made[:4], axis=1), 1) and not made[4].any()
    assert (hashed_words(["x12"]) == hashed_words(["y99"])).all()


def test_metadata_tell_age_references_and_kind():
    units = [Unit(0, "Your task: CS-11111", 5, "task", True), *history("id tk-1111a", "x", "use tk-1111a", "tk-1111a")]
    assert references(units) == [0, 2, 0, 0, 0]
    assert metadata(units).tolist() == [
        [np.log1p(4), 0, 0, 1, 0],
        [np.log1p(3), np.log1p(2), 0, 0, 1],
        [np.log1p(2), 0, 0, 0, 1],
        [np.log1p(1), 0, 0, 0, 1],
        [0, 0, 0, 0, 1],
    ]


@pytest.mark.parametrize("loss", ["bce", "mse"])
def test_gradients_are_those_of_the_loss(loss):
    draw = np.random.default_rng(1)
    shares = [draw.normal(size=size) for size in ((4, 3), (3,), (3, 1), (1,))]
    x, wanted = draw.normal(size=(7, 4)), draw.random(7)

    def value():
        p = 1 / (1 + np.exp(-(np.maximum(x @ shares[0] + shares[1], 0) @ shares[2] + shares[3])[:, 0]))
        if loss == "mse":
            return ((p - wanted) ** 2).mean()
        return -(wanted * np.log(p) + (1 - wanted) * np.log(1 - p)).mean()

    for share, slope in zip(shares, _slopes(shares, x, wanted, MlpSettings(loss=loss)), strict=True):
        for place in np.ndindex(share.shape):
            before = share[place]
            share[place] = before + 1e-6
            above = value()
            share[place] = before - 1e-6
            assert abs((above - value()) / 2e-6 - slope[place]) < 1e-7
            share[place] = before


@pytest.mark.parametrize("settings", [MlpSettings(), MlpSettings(loss="mse", epochs=80)], ids=["bce", "mse"])
def test_it_ranks_other_episodes(settings):
    scorer = fit_mlp([episode(seed) for seed in range(10)], labels="made", settings=settings)
    others = [episode(seed) for seed in range(100, 110)]
    scores = np.concatenate([Mlp(scorer).scores(other.units) for other in others])
    assert area_under_curve(scores, np.concatenate([other.labels for other in others])) > 0.8
    assert scorer.provenance.auc > 0.8 and scorer.provenance.settings["loss"] == settings.loss


def test_labels_between_0_and_1_are_met_by_mse():
    settings = MlpSettings(loss="mse", epochs=120)
    scorer = fit_mlp([episode(seed, drop=0.4) for seed in range(10)], labels="drop", settings=settings)
    units = episode(50).units
    keys = [score for unit, score in zip(units, Mlp(scorer).scores(units), strict=True) if "key" in unit.text]
    assert 0.25 < np.mean(keys) < 0.45


def test_fractional_labels_are_losses_for_the_features_too():
    pytest.importorskip("sklearn")
    whole, part = (fit([episode(seed, drop) for seed in range(6)], labels="drop") for drop in (1.0, 0.2))
    assert (
        whole.score(agent_features(episode(9).units)).tolist() == part.score(agent_features(episode(9).units)).tolist()
    )


def test_the_same_episodes_give_the_same_scorer(fitted):
    assert fit_mlp([episode(seed) for seed in range(10)], labels="made", source="nowhere") == fitted


def test_the_file_comes_back_and_needs_numpy_alone(fitted, tmp_path):
    path = tmp_path / "new" / "mlp.json"
    fitted.save(path)
    assert read_mlp(path.read_text(), "it") == fitted and path.stat().st_size < 16_000
    lines = (
        "import sys",
        "from automem.evict import Unit, make",
        f"print(make('mlp:{path}').scores([Unit(0, 'the key of door', 4)]))",
        "assert not {'sklearn', 'torch', 'bm25s'} & set(sys.modules)",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.returncode == 0 and float(done.stdout.strip("[]\n")) > 0.5, done.stderr


@pytest.mark.parametrize(
    ("before", "after"),
    [('"kind":"mlp"', '"kind":"lre-agent"'), ('"mean":[', '"mean":[1.0,'), ('"bias":[', '"bias":[0.5,'), ("}", "")],
)
def test_a_damaged_file_is_refused(fitted, before, after):
    with pytest.raises(UsageError, match="x is not an mlp scorer"):
        read_mlp(fitted.model_dump_json().replace(before, after, 1), "x")


def test_an_encoder_of_other_size_is_refused(fitted):
    with pytest.raises(UsageError, match="takes 69 inputs, not 7"):
        Mlp(fitted, lambda texts: np.zeros((len(texts), 2))).scores(history("a"))


def test_labels_all_the_same_teach_nothing():
    with pytest.raises(UsageError, match="both labels"):
        fit_mlp([Episode(history("a", "b"), [1, 1])], labels="made")


def test_all_are_scored_again_every_so_many_units(fitted):
    units = history(*[f"the key of door {number}" for number in range(30)])
    policy = Mlp(fitted)
    first = [policy.scores(units[:count])[0] for count in range(1, 31)]
    changes = [count for count in range(2, 31) if first[count - 1] != first[count - 2]]
    # The first may have grown when the second comes; after that it has its score until all are scored again.
    assert changes == [2, 11, 21]
    assert policy.scores(units[:4]) == Mlp(fitted).scores(units[:4])


def test_a_changed_history_is_scored_afresh(fitted):
    policy = Mlp(fitted)
    policy.scores(history("a", "b", "c"))
    other = history("the key", "b", "c", "d")
    assert policy.scores(other) == Mlp(fitted).scores(other)
    assert policy.scores([]) == []


def test_what_is_below_the_threshold_goes_though_there_is_room(fitted):
    policy = Mlp(fitted.model_copy(update={"threshold": 0.5}))
    assert policy.fill([0.4, 0.6, 0.5, 0.1], [1, 5, 1, 1], 100) == [2, 1]
    assert policy.fill([0.4, 0.6, 0.5, 0.1], [1, 5, 1, 1], 4) == [2]


def test_a_chain_is_worth_what_its_best_unit_is():
    units = history("open CS-11111", "chat", "CS-11111 is at /srv/a/b", "see /srv/a/b", "chat")
    assert chained(units, np.array([0.1, 0.2, 0.3, 0.9, 0.4])).tolist() == [0.9, 0.2, 0.9, 0.9, 0.4]


def test_what_everything_mentions_makes_no_chain():
    units = history(*[f"tk-1111a {number}" for number in range(5)])
    scores = np.linspace(0.1, 0.5, 5)
    assert chained(units, scores).tolist() == scores.tolist()


@pytest.mark.parametrize("chain", [False, True])
def test_in_an_evictor_the_budget_holds(fitted, chain):
    draw = random.Random(4)
    scorer = fitted.model_copy(update={"chain": chain, "every": 3})
    for _ in range(60):
        units = random_units(draw, most=12, pins=0)
        evict = Evictor(make("mlp", scorer), Limits(budget=60, keep_last=2))
        for count in range(1, len(units) + 1):
            live = evict(units[:count])
            assert sum(unit.tokens for unit in live[:-2]) <= 60
            assert live[-1] == units[count - 1]
