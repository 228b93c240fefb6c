"""Labels: what hindsight, answers and annotators say."""

import pytest

from automem.errors import UsageError
from automem.evict.labels import coverage, gold, hindsight


def story(uses, first="your token is tk-4711x"):
    return [first, *["send tk-4711x"] * uses, "bye"]


@pytest.mark.parametrize(("uses", "label"), [(0, 0), (2, 0), (3, 1), (9, 1)])
def test_an_identifier_must_come_back_in_three_later_steps(uses, label):
    assert hindsight(story(uses)) == [label, *[0] * (uses + 1)]


def test_the_number_of_steps_is_a_parameter():
    assert hindsight(story(2), later=2)[0] == 1


def test_within_one_step_it_counts_once():
    assert hindsight(["tk-4711x tk-4711x", "tk-4711x tk-4711x tk-4711x", "tk-4711x"]) == [0, 0, 0]


def test_what_the_task_names_is_brought_by_no_step():
    assert hindsight(story(5), task="use tk-4711x") == [0] * 7


def test_a_step_may_bring_several():
    assert hindsight(["a-1111 b-2222", "b-2222", "b-2222", "b-2222 a-1111"]) == [1, 0, 0, 0]


def test_coverage_is_a_share_of_content_words():
    answer = "The red, old bicycle of an aunt"  # red old bicycle of aunt
    assert coverage(["a red OLD car", "red wine", "Old bicycle; aunt"], [answer]) == [1, 0, 1]
    assert coverage(["red wine"], [answer], threshold=0.2) == [1]


@pytest.mark.parametrize(("words", "label"), [(39, 0), (40, 1)])
def test_the_threshold_itself_is_enough(words, label):
    answer = " ".join(f"w{i}" for i in range(100))
    assert coverage([" ".join(f"w{i}" for i in range(words))], [answer]) == [label]


@pytest.mark.parametrize("answers", [[], [""], ["the ..."]])
def test_an_empty_answer_labels_nothing(answers):
    assert coverage(["anything", ""], answers) == [0, 0]


def test_any_of_several_answers_will_do():
    assert coverage(["blue", "green"], ["", "green", "red hot sun"]) == [0, 1]


def test_gold():
    assert gold(4, {1, 3}) == [0, 1, 0, 1]
    with pytest.raises(UsageError, match="unit 4 of 4"):
        gold(4, [4])
