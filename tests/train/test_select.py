import json

import pytest
from made_turns import DONE, WEST, append, episode, moment, run, search

from automem.errors import ModelFailure, RunError, UsageError
from automem.messages import Usage
from automem.models.base import Completion
from automem.train.hindsight import RulesSelector
from automem.train.judge import Judge, JudgeSelector
from automem.train.recipe import Selection
from automem.train.select import AllSelector, select
from automem.train.turns import episodes, read_runs, turns


def reasons(played, **settings):
    """Reason of each decision by (step, call), kept ones with a plus sign."""
    decided = RulesSelector(Selection(**settings)).decide(played)
    return {one.key: ("+" if one.keep else "") + one.reason for one in decided}


def test_a_write_that_was_found_before_progress_rose_is_taken(tmp_path, scaffold):
    played = episode(
        tmp_path / "run",
        scaffold(),
        moment("a", log=[f"{append('lamp at 3,1')}\n{DONE}"]),
        moment("b", log=[f"{append('cup at 0,0')}\n{DONE}"]),
        moment("c", plan=[search("lamp"), WEST]),
        moment("d", progress=0.5),
    )
    assert reasons(played) == {(0, 0): "+used", (1, 0): "unused", (2, 0): "+hit"}


def test_the_detail_tells_when(tmp_path, scaffold):
    played = episode(
        tmp_path / "run",
        scaffold(),
        moment("a", log=[append("lamp")]),
        moment("b", plan=[search("lamp"), WEST], progress=1.0),
    )
    first = next(RulesSelector(Selection()).decide(played))
    assert first.detail == "1 of 1 writes; found at step 1, progress at step 1"


@pytest.mark.parametrize(("horizon", "reason"), [(2, "+used"), (1, "unused")])
def test_progress_must_rise_within_the_horizon(tmp_path, scaffold, horizon, reason):
    played = episode(
        tmp_path / "run",
        scaffold(),
        moment("a", log=[append("lamp at 3,1")]),
        moment("b", plan=[search("lamp"), WEST]),
        moment("c"),
        moment("d", progress=0.1),
    )
    assert reasons(played, horizon=horizon)[0, 0] == reason


def test_what_the_same_step_shows_was_not_remembered(tmp_path, scaffold):
    played = episode(
        tmp_path / "run",
        scaffold(),
        moment("a", log=[append("lamp at 3,1")], plan=[search("lamp"), WEST], progress=0.5),
    )
    assert reasons(played)[0, 0] == "unused"


def test_a_row_that_was_put_again_belongs_to_the_newer_write(tmp_path, scaffold):
    def put(place):
        return f"<|UPSERT|>places.txt|lamp|{place}<|END|>"

    played = episode(
        tmp_path / "run",
        scaffold(),
        moment("a", log=[put("3,1")]),
        moment("b", log=[put("0,0")]),
        moment("c", plan=["<|READ|>places.txt<|END|>", WEST], progress=0.5),
    )
    assert reasons(played) == {(0, 0): "unused", (1, 0): "+used", (2, 0): "+hit"}


def test_repeats_and_what_is_malformed_or_refused_are_never_taken(tmp_path, scaffold):
    played = episode(
        tmp_path / "run",
        scaffold(),
        moment("a", log=[append("lamp at 3,1")]),
        moment("b", log=[append("lamp at 3,1")]),
        moment("c", log=["<|APPEND|>notes.txt|never closed"]),
        moment("d", log=[append("x", file="nowhere.txt")]),
        moment("e", log=["I have nothing to say."]),
        moment("f", plan=[search("lamp"), WEST], progress=1.0),
    )
    found = reasons(played)
    assert [found[t, 0] for t in range(1, 5)] == ["repeat", "malformed", "refused", "no_operation"]


def test_what_stands_behind_done_does_not_count_against_a_turn(tmp_path, scaffold):
    played = episode(
        tmp_path / "run",
        scaffold(),
        moment("a", log=[f"{append('lamp')}\n{DONE}\n<|APPEND|>notes.txt|never closed"]),
        moment("b", plan=[search("lamp"), WEST], progress=1.0),
    )
    assert reasons(played)[0, 0] == "+used"


def test_the_share_of_writes_that_were_of_use_decides(tmp_path, scaffold):
    both = f"{append('lamp at 3,1')}\n{append('the sky is grey')}"
    played = episode(
        tmp_path / "run", scaffold(), moment("a", log=[both]), moment("b", plan=[search("lamp"), WEST], progress=1.0)
    )
    assert reasons(played, used_share=0.5)[0, 0] == "+used"
    assert reasons(played, used_share=0.6)[0, 0] == "unused"


def test_looking_first_is_taken_with_the_write_that_follows(tmp_path, scaffold):
    played = episode(
        tmp_path / "run",
        scaffold(),
        moment("a", log=[search("lamp"), append("lamp at 3,1"), DONE]),
        moment("b", log=[search("cup"), DONE]),
        moment("c", plan=[search("lamp"), WEST], progress=1.0),
    )
    found = reasons(played, noop_share=0.5)
    assert [found[0, number] for number in range(3)] == ["+looked", "+used", "+settled"]
    assert [found[1, number] for number in range(2)] == ["empty", "idle"]


def test_a_question_that_was_answered_is_worth_no_more_than_the_write_that_follows(tmp_path, scaffold):
    played = episode(
        tmp_path / "run",
        scaffold(),
        moment("a", log=[append("lamp at 3,1"), DONE]),
        moment("b", log=[search("lamp"), append("the sky is grey"), DONE]),
        moment("c", log=[search("lamp"), DONE], plan=[search("lamp"), WEST], progress=1.0),
    )
    found = reasons(played, noop_share=0.5)
    assert [found[1, number] for number in range(3)] == ["unused", "unused", "idle"]
    assert found[2, 0] == "+hit"


def test_ending_at_once_is_right_where_this_was_seen_before(tmp_path, scaffold):
    played = episode(
        tmp_path / "run",
        scaffold(),
        moment("a", log=[DONE]),
        moment("b", log=[DONE]),
        moment("a", log=[DONE]),
    )
    assert reasons(played) == {(0, 0): "idle", (1, 0): "idle", (2, 0): "+familiar"}


def test_no_ops_are_at_most_their_share(tmp_path, scaffold):
    moments = [moment("a", log=[append(f"thing {n}")]) for n in range(3)]
    moments += [moment("a", log=[DONE], plan=["<|READ|>notes.txt<|END|>", WEST], progress=1.0) for _ in range(9)]
    played = [episode(tmp_path / "run", scaffold(), *moments)]
    for share, most in ((0.0, 0), (0.25, 1), (0.4, 2)):
        settings = Selection(noop_share=share)
        decided = select(played, RulesSelector(settings), settings, lambda _: None)[played[0]]
        kept = [one for one in decided if one.keep and one.phase == "log"]
        assert sum(one.noop for one in kept) == most
        assert most <= share * len(kept)
        assert {one.reason for one in decided if not one.keep} <= {"noop_share"}
    assert decided == select(played, RulesSelector(settings), settings, lambda _: None)[played[0]]


def test_only_consulting_calls_of_a_merged_plan_are_turns(tmp_path, scaffold):
    held = f"{search('lamp')}\n{WEST}"
    plan = [search("lamp"), "hm", held, WEST]
    merged = episode(tmp_path / "merged", scaffold(), moment("a", plan=plan))
    handoff = episode(tmp_path / "handoff", scaffold(), moment("a", plan=plan), handoff=True)
    numbers = [[turn.number for step in played.steps() for turn in turns(step)] for played in (merged, handoff)]
    assert numbers == [[0], [0, 1, 2, 3]]


def test_episodes_of_most_progress_come_first(tmp_path, scaffold):
    made = scaffold()
    weak, strong = [moment("a", log=[DONE], progress=p) for p in (0.1, 0.9)]
    played = list(episodes([run(tmp_path / "run", made, [weak], [strong])]))
    decided = select(played, AllSelector(), Selection(selector="all", top_episodes=0.5), lambda _: None)
    assert [[(one.keep, one.reason) for one in found] for found in decided.values()] == [
        [(False, "episode")],
        [(True, "all")],
    ]


def test_failed_episodes_are_left_out(tmp_path, scaffold):
    folder = run(tmp_path / "run", scaffold(), [moment("a")], [moment("b")], failed=[0])
    assert [played.spec.seed for played in episodes([folder])] == [1]


def test_runs_of_two_scaffolds_are_not_mixed(tmp_path, scaffold):
    run(tmp_path / "one", scaffold(), [moment("a")])
    run(tmp_path / "two", scaffold(name="other"), [moment("a")])
    with pytest.raises(UsageError, match="differ in scaffold_digest"):
        read_runs([tmp_path / "one", tmp_path / "two"])


class Answers:
    """Answers with scores in turn, and counts how often it is asked."""

    name = "scripted:judge"

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def generate(self, messages, request):
        self.asked.append(messages[-1]["content"])
        answer = self.answers.pop(0)
        if answer is None:
            raise ModelFailure("endpoint down")
        return Completion(answer, Usage(1, 1))

    async def close(self):
        pass


def score(number):
    return f'Well: {{"score": {number}, "reason": "so {number}"}}'


@pytest.fixture
def four_turns(tmp_path, scaffold):
    return episode(tmp_path / "run", scaffold(), *(moment(sees, log=[append(sees)], progress=0.2) for sees in "abcd"))


def judged(played, judge, record, **settings):
    asked = Judge(judge, record, jobs=1)
    try:
        return list(JudgeSelector(asked, Selection(selector="judge", **settings)).decide(played))
    finally:
        asked.close()


def test_the_judge_takes_what_scores_high_and_says_why(tmp_path, four_turns):
    judge = Answers(score(5), score(4), score(3), "I like it")
    found = judged(four_turns, judge, tmp_path / "judged.jsonl")
    assert [(one.keep, one.score, one.reason) for one in found] == [
        (True, 5, "scored 5"),
        (True, 4, "scored 4"),
        (False, 3, "scored 3"),
        (False, None, "unreadable"),
    ]
    assert found[0].detail == "so 5"
    assert "<|APPEND|>notes.txt|a<|END|>" in judge.asked[0]
    assert "20.0% in the end" in judge.asked[0]


def test_scores_are_recorded_and_never_asked_for_twice(tmp_path, four_turns):
    record = tmp_path / "judged.jsonl"
    with pytest.raises(RunError, match="endpoint down"):
        judged(four_turns, Answers(score(5), score(4), None, None), record)
    assert [json.loads(line)["score"] for line in record.read_text().splitlines()] == [5, 4]
    again = Answers(score(2), score(5))
    first = judged(four_turns, again, record)
    assert len(again.asked) == 2
    assert judged(four_turns, Answers(), record) == first


@pytest.mark.parametrize("answer", ['{"score": 9}', '{"score": "x"}', "{}", "[5]", '{"score": 5', ""])
def test_scores_that_are_none_take_nothing(tmp_path, scaffold, answer):
    played = episode(tmp_path / "run", scaffold(), moment("a", log=[DONE]))
    assert [one.keep for one in judged(played, Answers(answer), tmp_path / "judged.jsonl")] == [False]
