"""LoCoMo and LongMemEval as their files have them: units, evidence, dates, splits, leaks."""

import pytest
from conversations import locomo, longmemeval, written

from automem.errors import UsageError
from automem.evict.datasets import Fold, folds, held_out, load_locomo, load_longmemeval, refuse_leak


def test_a_unit_of_locomo_is_a_turn(tmp_path):
    group = load_locomo(written(tmp_path, locomo()))[1]
    assert group.id == "conv-1"
    assert len(group.units) == len(group.dates) == 18
    assert group.units[2].text == "Ann: Yesterday I bought a telescope in Oslo number 1"
    assert group.gold() == [0, 0, 1, 0, 0, 0] * 3
    assert group.answers() == ["a telescope", "a kayak", "a violin"]


def test_sessions_are_in_the_order_of_their_numbers(tmp_path):
    group = load_locomo(written(tmp_path, locomo(2, sessions=11)))[0]
    assert group.dates[-1] == "1:56 pm on 11 May, 2023"
    assert group.dates[6 * 9] == "1:56 pm on 10 May, 2023"


@pytest.mark.parametrize(
    ("evidence", "gold", "unknown"),
    [
        (["D1:1; D2:6"], [0, 11], 0),
        (["D:1:4", "D02:01"], [3, 6], 0),
        (["D1:1 D1:2", "D1:1"], [0, 1], 0),
        (["D9:1", "D", "D1:2"], [1], 2),
        ([], [], 0),
    ],
)
def test_evidence_is_read_as_it_was_written(tmp_path, evidence, gold, unknown):
    data = locomo(1)
    data[0]["qa"] = [{"question": "?", "answer": 2022, "evidence": evidence, "category": 1}]
    group = load_locomo(written(tmp_path, data))[0]
    assert [index for index, label in enumerate(group.gold()) if label] == gold
    assert (group.unknown, group.answers()) == (unknown, ["2022"])


def test_questions_without_an_answer_are_left_out(tmp_path):
    assert len(load_locomo(written(tmp_path, locomo()))[0].questions) == 3


def test_pictures_are_what_their_caption_says(tmp_path):
    data = locomo(1)
    data[0]["conversation"]["session_1"][0] |= {"blip_caption": "a photo of a dog", "img_url": ["x"]}
    assert load_locomo(written(tmp_path, data))[0].units[0].text.endswith("(0.1) [shares a photo of a dog]")


def test_a_unit_of_longmemeval_is_a_session(tmp_path):
    group = load_longmemeval(written(tmp_path, longmemeval()))[7]
    assert (group.id, len(group.units)) == ("q7", 6)
    assert group.units[0].text == "user: How was your day?\nassistant: Story 1 of 0"
    assert group.gold() == [0, 1, 0, 0, 0, 0]
    assert group.dates[1] == "2023/05/02 (Mon) 02:21"
    assert group.unknown == 0


def test_yesterday_stands_under_the_date_of_its_session(tmp_path):
    group = load_locomo(written(tmp_path, locomo(2)))[0]
    assert group.context([14, 2, 3]).splitlines() == [
        "[1:56 pm on 1 May, 2023]",
        "Ann: Yesterday I bought a piano in Lisbon number 0",
        "Bo: See you tomorrow (0.1)",
        "[1:56 pm on 3 May, 2023]",
        "Ann: Yesterday I bought a kayak in Lisbon number 0",
    ]


def test_one_group_at_a_time():
    assert folds(3) == [Fold((1, 2), (0,)), Fold((0, 2), (1,)), Fold((0, 1), (2,))]


def test_five_folds_test_every_group_once():
    made = folds(12, 5)
    assert len(made) == 5
    assert sorted(group for fold in made for group in fold.test) == list(range(12))
    assert all(not set(fold.train) & set(fold.test) for fold in made)


def test_one_group_is_no_split():
    with pytest.raises(UsageError, match="two groups"):
        folds(1)


def test_texts_on_both_sides_are_refused_until_they_are_left_out(tmp_path):
    groups = load_longmemeval(written(tmp_path, longmemeval()))
    train, test = groups[:7], groups[7:]
    left_out = held_out(train, test)
    assert left_out
    refuse_leak(train, test, left_out)
    with pytest.raises(UsageError, match="texts are on both sides"):
        refuse_leak(train, test, frozenset())
    with pytest.raises(UsageError, match="group q7 is on both sides"):
        refuse_leak([*train, test[0]], test, left_out)


@pytest.mark.parametrize(("load", "data"), [(load_locomo, locomo(2)), (load_longmemeval, longmemeval(2))])
def test_a_group_that_is_there_twice_is_refused(tmp_path, load, data):
    with pytest.raises(UsageError, match="twice"):
        load(written(tmp_path, [*data, data[0]]))


@pytest.mark.parametrize(
    ("load", "where"), [(load_locomo, "snap-research/locomo"), (load_longmemeval, "longmemeval-cleaned")]
)
def test_who_has_no_file_hears_where_it_is(tmp_path, load, where):
    with pytest.raises(UsageError, match="cannot read") as caught:
        load(tmp_path / "none.json")
    assert where in caught.value.hint
    other = written(tmp_path, [{"id": 1}])
    with pytest.raises(UsageError, match="not in the published format"):
        load(other)


def test_a_broken_turn_is_named(tmp_path):
    data = locomo(1)
    del data[0]["conversation"]["session_2"][3]["text"]
    with pytest.raises(UsageError, match=r"conv-0\.session_2 is not in the published format: 3\.text"):
        load_locomo(written(tmp_path, data))


def test_sessions_without_a_date_are_named(tmp_path):
    data = longmemeval(2)
    data[1]["haystack_dates"].pop()
    with pytest.raises(UsageError, match="q1: 6 sessions, 6 ids and 5 dates"):
        load_longmemeval(written(tmp_path, data))
