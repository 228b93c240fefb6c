"""The bench of scorers on conversations: figures by hand, folds, labels without gold, the command."""

import json

import pytest
from conversations import locomo, longmemeval, written

from automem.cli.main import _exit_code
from automem.errors import UsageError
from automem.evict.bench import Bench, retained
from automem.evict.conversation import load_conversation_scorer
from automem.evict.datasets import load_locomo, load_longmemeval
from automem.evict.labels import best_coverage, choose_threshold


@pytest.fixture(scope="module")
def talks(tmp_path_factory):
    return load_locomo(written(tmp_path_factory.mktemp("locomo"), locomo()))


@pytest.fixture(scope="module")
def haystacks(tmp_path_factory):
    return load_longmemeval(written(tmp_path_factory.mktemp("longmemeval"), longmemeval()))


def test_recency_by_hand(talks):
    row = Bench(talks, None, retain=0.25).row("recency")
    # Of 18 turns the evidence is 2, 8 and 14: above 2 of them are 2 other turns, above 8 seven, above 14 twelve.
    assert row.auc == pytest.approx((2 + 7 + 12) / (3 * 15))
    # The last four turns are 14 to 17.
    assert row.evidence == pytest.approx(1 / 3)
    assert row.tokens < row.full_tokens
    assert (row.groups, row.bytes, row.dropped, row.thresholds) == (6, None, None, ())


@pytest.mark.parametrize("scorer", ["content", "self", "supervised"])
def test_what_is_learned_finds_the_facts(talks, scorer):
    row = Bench(talks, None).row(scorer)
    assert row.auc > 0.95
    assert row.evidence == 1.0
    assert 500 < row.bytes < 10_000


def test_texts_of_the_test_are_dropped_from_training(haystacks):
    row = Bench(haystacks, 5).row("supervised")
    assert row.dropped > 0
    assert row.auc > 0.9


def test_no_fold_sees_its_test_group(tmp_path):
    """Where no two turns share a word, only a look at the test group could tell its turns apart."""
    data = locomo()
    turns = (turn for sample in data for n in (1, 2, 3) for turn in sample["conversation"][f"session_{n}"])
    for number, turn in enumerate(turns):
        turn |= {"speaker": f"s{number}", "text": f"w{number}"}
    assert Bench(load_locomo(written(tmp_path, data)), None).row("content").auc == 0.5


def test_the_threshold_is_chosen_without_gold(talks):
    chosen = Bench(talks, None).row("self")
    assert chosen.thresholds == (0.8,) * 6
    assert Bench(talks, None, threshold=0.4).row("self").thresholds == (0.4,) * 6


@pytest.mark.parametrize(
    ("best", "threshold"),
    [([1.0] * 10, 0.8), ([0.5] * 9 + [0.0], 0.5), ([0.5] * 8 + [0.3, 0.0], 0.3), ([0.1] * 3, 0.2), ([0.8, 0.79], 0.7)],
)
def test_nine_answers_in_ten_must_be_covered(best, threshold):
    assert choose_threshold(best) == threshold


def test_best_coverage():
    assert best_coverage(["a red car", "red old wine"], ["The red, old bicycle", "a", "car"]) == [2 / 3, 1.0]
    assert best_coverage([], ["car"]) == [0.0]


def test_groups_without_evidence_do_not_count(tmp_path):
    data = locomo()
    data[0]["qa"] = []
    row = Bench(load_locomo(written(tmp_path, data)), None).row("recency")
    assert row.groups == 5


@pytest.mark.parametrize(("share", "kept"), [(0.2, [3]), (0.5, [1, 3]), (1.0, [0, 1, 2, 3]), (0.01, [3])])
def test_a_share_of_the_units_is_kept(share, kept):
    assert retained([0.1, 0.5, 0.2, 0.9], share) == kept


def test_wrong_requests(talks):
    with pytest.raises(UsageError, match="unknown scorer 'supervized'") as caught:
        Bench(talks, None).row("supervized")
    assert "supervised" in caught.value.hint
    with pytest.raises(UsageError, match="above 0 and at most 1"):
        Bench(talks, None, retain=0)
    with pytest.raises(UsageError, match="two groups"):
        Bench(talks[:1], None)


def command(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["automem", "evict", "bench", *map(str, arguments)])
    code = _exit_code()
    return code, *capsys.readouterr()


def test_the_command(tmp_path, monkeypatch, capsys):
    file = written(tmp_path, longmemeval())
    out = tmp_path / "scorer.json"
    options = ("--scorers", "recency,self", "--threshold", "1", "-o", out, "--json")
    code, told, progress = command(monkeypatch, capsys, "longmemeval", file, *options)
    assert code == 0, progress
    assert "10 groups, 60 units, 10 questions; 0 pieces of evidence name no unit" in progress
    recency, own = json.loads(told)["rows"]
    assert own["auc"] > recency["auc"]
    scorer = load_conversation_scorer(out)
    assert scorer.provenance.labels == "coverage of answers"
    assert scorer.provenance.auc == own["auc"]
    assert f"{out.stat().st_size:,} bytes" in progress


def test_the_command_prints_a_table(tmp_path, monkeypatch, capsys):
    code, told, _ = command(monkeypatch, capsys, "locomo", written(tmp_path, locomo()))
    assert code == 0
    assert [line.split(" | ")[0] for line in told.splitlines()[2:]] == [
        "| recency",
        "| tfidf",
        "| content",
        "| self",
        "| supervised",
    ]


def test_the_command_saves_one_scorer_only(tmp_path, monkeypatch, capsys):
    code, told, err = command(monkeypatch, capsys, "locomo", tmp_path / "none.json", "-o", tmp_path / "s.json")
    assert (code, told) == (2, "")
    assert "3 are asked for" in err
    code, told, err = command(monkeypatch, capsys, "locomo", tmp_path / "none.json")
    assert (code, told) == (2, "")
    assert "snap-research" in err
