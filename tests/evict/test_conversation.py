"""The scorer for conversations: numbers, fit, file, and that numpy alone gives what scikit-learn gives."""

import math

import numpy as np
import pytest

from automem.errors import UsageError
from automem.evict import ContextManager, Limits, Unit
from automem.evict.conversation import (
    NUMBERS,
    ConversationPolicy,
    conversation_numbers,
    fit_conversations,
    load_conversation_scorer,
)
from automem.evict.fit import Episode

SAID = [
    "Hello there, how are you?",
    "I lost my Passport in Paris on 12 May",
    "ok",
    "Nice weather today",
    "My cat is ill",
]


def units(texts=SAID):
    return [Unit(index, text, len(text)) for index, text in enumerate(texts)]


def episodes(count=4):
    return [Episode(units([f"{text} {n}" for text in SAID]), [0, 1, 0, 0, 1]) for n in range(count)]


@pytest.fixture(scope="module")
def scorer():
    return fit_conversations(episodes(), "gold evidence", "made")


def test_the_six_numbers():
    rows = conversation_numbers(units())
    assert rows.shape == (5, len(NUMBERS))
    assert rows[1].tolist() == [1 / 5, 1 / 4, math.log1p(37), 2.0, 0.0, 3.0]
    assert rows[0, 4] == 1.0
    assert rows[4, 1] == 1.0


def test_no_units_no_numbers():
    assert conversation_numbers([]).shape == (0, 6)


def test_numpy_scores_as_scikit_learn_does(scorer):
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    texts = [unit.text for episode in episodes() for unit in episode.units]
    numbers = np.concatenate([conversation_numbers(episode.units) for episode in episodes()])
    words, scaler = TfidfVectorizer(max_features=10_000, stop_words="english"), StandardScaler()
    rows = hstack([words.fit_transform(texts), csr_matrix(scaler.fit_transform(numbers))], format="csr")
    model = LogisticRegression(C=1.0, class_weight="balanced", max_iter=1000, random_state=0)
    model.fit(rows, [label for episode in episodes() for label in episode.labels])
    new = units(["Where is my passport?", "In Paris; in Paris!", "", "Zwölf naïve words"])
    asked = hstack(
        [words.transform([unit.text for unit in new]), csr_matrix(scaler.transform(conversation_numbers(new)))]
    )
    assert scorer.score(new) == pytest.approx(model.predict_proba(asked.tocsr())[:, 1], abs=2e-4)


def test_a_file_comes_back(scorer, tmp_path):
    size = scorer.save(tmp_path / "new" / "scorer.json")
    path = tmp_path / "new" / "scorer.json"
    assert size == path.stat().st_size < 4000
    again = load_conversation_scorer(path)
    assert again == scorer
    assert again.score(units()).tolist() == scorer.score(units()).tolist()
    assert (again.provenance.episodes, again.provenance.units, again.provenance.positives) == (4, 20, 8)
    assert again.provenance.settings["max_features"] == 10_000


def test_words_alone_have_no_numbers():
    scorer = fit_conversations(episodes(), "gold evidence", numbers=False)
    assert scorer.numbers == scorer.mean == scorer.number_weights == ()
    first, second = scorer.score(units(["passport", "passport"]))
    assert first == second


def test_texts_left_out_are_no_rows_of_the_fit():
    held = fit_conversations(episodes(), "gold evidence", left_out={"ok 0", "My cat is ill 3"})
    assert held.provenance.units == 18
    assert held.provenance.positives == 7


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([Episode(units(), [0] * 5)], "all 5 have the same"),
        ([], "all 0 have the same"),
        ([Episode(units(["the", "of"]), [0, 1])], "no words"),
    ],
)
def test_what_cannot_be_fitted(given, says):
    with pytest.raises(UsageError, match=says):
        fit_conversations(given, "gold evidence")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: "{}", "mean"),
        (lambda text: text.replace('"lre-conversation"', '"lre-agent"'), "kind"),
        (lambda text: text.replace('"idf":[', '"idf":[1.0,'), "do not fit"),
    ],
)
def test_other_files_are_no_scorers(scorer, tmp_path, change, says):
    path = tmp_path / "scorer.json"
    path.write_text(change(scorer.to_json()))
    with pytest.raises(UsageError, match=says):
        load_conversation_scorer(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*none\.json: No such file"):
        load_conversation_scorer(tmp_path / "none.json")


def test_it_is_a_policy_for_chats(scorer):
    chat = [{"role": "user", "content": "hi"}]
    for text in SAID * 3:
        chat += [{"role": "assistant", "content": text}, {"role": "user", "content": "go on"}]
    manager = ContextManager(ConversationPolicy(scorer), Limits(budget=40, keep_last=1))
    kept = manager(chat)
    assert kept[0] == chat[0]
    assert kept[-2:] == chat[-2:]
    assert manager.archive
    assert len(kept) < len(chat)
