"""`summarise`: what is evicted is replaced by one pinned summary, within the limits."""

import random

import pytest
from histories import random_chat

from automem.errors import UsageError
from automem.evict import ContextManager, Limits, PinsOverBudget, make
from automem.evict.manager import SUMMARY

START = [{"role": "system", "content": "Obey."}, {"role": "user", "content": "Go."}]


def by_words(text):
    return len(text.split())


def chat(steps):
    return [*START, *(m for number in range(steps) for m in step(number))]


def step(number):
    return [
        {"role": "assistant", "content": f"step{number}"},
        {"role": "user", "content": f"seen{number}" + " x" * 7},
    ]


class Notes:
    """Summarises by the words with a number in them, and keeps what it was given."""

    def __init__(self, words=10**6):
        self.asked = []
        self._words = words

    def __call__(self, text):
        self.asked.append(text)
        return " ".join([word for word in text.split() if word[-1].isdigit()][-self._words :])


def manager(summarise, window=100, **limits):
    limits = Limits(window=window, low=0.5, keep_last=1, **limits)
    return ContextManager(make("window"), limits, by_words, 0, summarise=summarise)


def test_without_eviction_nobody_is_asked():
    notes = Notes()
    assert manager(notes)(chat(5)) == chat(5) and not notes.asked


def test_a_summary_stands_for_what_was_evicted():
    notes = Notes()
    made = manager(notes)(chat(10))
    gone = [f"{name}{number}" for number in range(5) for name in ("step", "seen")]
    assert made == [*START, {"role": "user", "content": SUMMARY + " ".join(gone)}, *chat(10)[-10:]]
    assert [text.count("step") for text in notes.asked] == [5]


def test_the_next_summary_goes_on_from_the_one_before():
    notes = Notes(words=4)
    manage = manager(notes)
    whole = chat(10)
    given = manage(whole)
    for number in range(10, 16):
        given, whole = manage([*given, *step(number)]), [*whole, *step(number)]
    assert len(notes.asked) == 2 and notes.asked[1].startswith(SUMMARY)
    assert [message["content"].startswith(SUMMARY) for message in given].count(True) == 1
    other = manager(Notes(words=4))
    for count in range(10, 17):
        last = other(chat(count))
    assert last == given and other.archive == manage.archive


def test_a_long_summary_makes_more_go():
    notes = Notes()
    manage = manager(lambda text: f"{notes(text)} {'y ' * 45}")
    made = manage(chat(10))
    assert len(notes.asked) > 1 and manage.tokens <= 100
    assert made[-2:] == chat(10)[-2:]


def test_a_summary_longer_than_the_window_is_an_error():
    with pytest.raises(PinsOverBudget):
        manager(lambda text: "y " * 200)(chat(10))


def test_what_was_summarised_can_be_recalled_and_a_new_chat_starts_without_it():
    manage = manager(Notes())
    manage(chat(10))
    assert manage.recall("seen0", k=1)[0].evicted.unit.index == 2
    assert manage([{"role": "user", "content": "Other."}]) == [{"role": "user", "content": "Other."}]


def test_random_chats_stay_within_the_window():
    draw = random.Random(2)
    for _ in range(300):
        whole = random_chat(draw, turns=12)
        manage = manager(Notes(words=5), window=160)
        kept = [message for message in manage(whole) if not str(message["content"]).startswith(SUMMARY)]
        assert manage.tokens <= 160
        places = iter(whole)
        assert all(any(message is other for other in places) for message in kept)


def test_the_policy_summary_frees_half_and_needs_a_writer():
    with pytest.raises(UsageError, match="the policy summary needs somebody who writes it"):
        ContextManager(make("summary"), Limits(window=100))
    rare, often = Notes(words=2), Notes(words=2)
    for policy, notes in (("summary", rare), ("window", often)):
        manage = ContextManager(make(policy), Limits(budget=60, keep_last=1), by_words, 0, summarise=notes)
        for count in range(1, 30):
            manage(chat(count))
        assert manage.tokens <= 60 + 9 + 20
    assert 2 * len(rare.asked) <= len(often.asked)
