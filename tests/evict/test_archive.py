"""`Archive`: what was evicted is found again, the same every time, and survives on the disk."""

import random
import sys

import numpy as np
import pytest
from histories import random_units

from automem.errors import UsageError
from automem.evict import Archive, ContextManager, Evicted, Limits, Unit, make
from automem.evict.archive import excerpt
from automem.evict.search import Bm25Search, EmbeddingSearch, make_search

TEXTS = ["Case of Nadia Ritter: CS-65819-5BT.", "Token for desk: tk-1.", "worker 3416 took job e0aaf3", ""]


def letters(texts):
    """An encoder: how often each letter stands in a text."""
    return np.array([[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])


def evicted(texts):
    return [Evicted(Unit(index, text, len(text)), 0.5, index + 2) for index, text in enumerate(texts)]


def filled(search=None, texts=TEXTS):
    archive = Archive(search)
    archive.add(evicted(texts))
    return archive


def found(archive, query, k=3):
    return [recalled.evicted.unit.index for recalled in archive.recall(query, k)]


def test_words_and_parts_of_identifiers_find_a_unit():
    archive = filled()
    assert [found(archive, query) for query in ("nadia", "5bt", "the token", "e0aaf3")] == [[0], [0], [1], [2]]


def test_nothing_is_found_by_what_stands_nowhere():
    archive = filled()
    assert [found(archive, query) for query in ("zebra", "", "?!")] == [[], [], []]
    assert found(Archive(), "nadia") == found(filled(texts=[""]), "nadia") == []


def test_best_first_and_of_equals_the_later_one():
    archive = filled(texts=["red fox", "blue", "red fox", "red fox den", "red"])
    assert found(archive, "fox den", k=9) == [3, 2, 0]
    assert found(archive, "fox den", k=2) == [3, 2]


def test_what_comes_later_is_found_too():
    archive = filled(texts=["red"])
    assert found(archive, "blue") == []
    archive.add(evicted(["blue"]))
    assert [recalled.evicted.unit.text for recalled in archive.recall("blue")] == ["blue"]


def test_by_likeness_without_a_word_in_common():
    archive = filled(EmbeddingSearch(letters), ["abcabc", "xyz", "bca"])
    assert found(archive, "cab") == [2, 0]
    assert found(Archive(EmbeddingSearch(letters)), "cab") == []


def test_an_archive_in_two_parts_answers_as_one():
    whole, parts = filled(EmbeddingSearch(letters)), Archive(EmbeddingSearch(letters))
    for gone in evicted(TEXTS):
        parts.add([gone])
    assert whole.recall("desk token", 9) == parts.recall("desk token", 9)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    draw = random.Random(3)
    units = random_units(draw, most=40)
    archive = Archive()
    archive.add(Evicted(unit, draw.random(), unit.index) for unit in units)
    message = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    archive.add([Evicted(Unit(99, "f({})", 3, messages=(message,)), -1.0, 99)])
    archive.save(tmp_path / "new" / "archive.jsonl")
    loaded = Archive.load(tmp_path / "new" / "archive.jsonl")
    assert list(loaded) == list(archive) and len(loaded) == len(units) + 1
    assert loaded.recall("error token", 9) == archive.recall("error token", 9)


@pytest.mark.parametrize("line", ["{", '{"unit": {}}', '{"unit": {"index": 1, "text": 2, "tokens": 3}}', "\udcff"])
def test_a_damaged_archive_names_the_line(tmp_path, line):
    path = tmp_path / "archive.jsonl"
    filled().save(path)
    path.write_bytes(path.read_bytes() + line.encode("utf-8", "surrogatepass"))
    with pytest.raises(UsageError, match=r"archive\.jsonl, line 5"):
        Archive.load(path)
    with pytest.raises(UsageError, match="cannot read"):
        Archive.load(tmp_path / "none")


def test_searches_by_name(monkeypatch):
    assert isinstance(make_search("bm25"), Bm25Search)
    with pytest.raises(UsageError, match="unknown search 'bm52'"):
        make_search("bm52")
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(UsageError, match="bm25s"):
        Archive()


def test_excerpts_are_whole_lines_about_the_question():
    text = "\n".join(["Request 3", "Case of Ana: 7", *["noise"] * 50, "Folder of Ana: /a", "You did: wait"])
    assert excerpt(text, "ana", 1000) == text
    assert excerpt(text, "ana", 45) == "…\nCase of Ana: 7\n…\nFolder of Ana: /a\n…"
    assert excerpt("x" * 50, "ana", 10) == "x" * 9 + "…"


@pytest.mark.parametrize("limit", [1, 7, 20, 60])
def test_excerpts_are_bounded(limit):
    draw = random.Random(limit)
    for _ in range(300):
        text = "\n".join("ab " * draw.randrange(9) for _ in range(draw.randrange(9)))
        assert len(excerpt(text, "ab", limit)) <= limit


def chat(steps, words="x"):
    asked = [{"role": "user", "content": "Go."}]
    for number in range(steps):
        asked += [{"role": "assistant", "content": f"step{number} {words}"}, {"role": "user", "content": "on " * 20}]
    return asked


def test_a_manager_recalls_what_it_evicted():
    manage = ContextManager(make("window"), Limits(window=200, keep_last=1))
    assert manage.recall("step0") == []
    manage(chat(20))
    (recalled,) = manage.recall("step0", k=1)
    assert recalled.evicted.unit.messages[0] == {"role": "assistant", "content": "step0 x"}
    assert list(manage.long_term) == manage.archive


def test_the_archive_of_a_conversation_ends_with_it_unless_a_store_is_given():
    store = Archive()
    for manage, left in (
        (ContextManager(make("window"), Limits(window=200)), []),
        (ContextManager(make("window"), Limits(window=200), store=store), ["step0 x"]),
    ):
        manage(chat(20))
        assert len(manage.recall("step0", k=1)) == 1
        manage(chat(20, "y"))
        texts = [recalled.evicted.unit.text for recalled in manage.recall("step0", k=9)]
        assert [text.split("\n")[0] for text in texts] == ["step0 y", *left]


def test_faiss_finds_what_numpy_finds(monkeypatch):
    pytest.importorskip("faiss")
    by_faiss = filled(EmbeddingSearch(letters))
    monkeypatch.setattr("automem.evict.search.find_spec", lambda name: None)
    by_numpy = filled(EmbeddingSearch(letters))
    for query in ("desk token", "worker", ""):
        assert by_faiss.recall(query, 9) == by_numpy.recall(query, 9)
