import json
from contextlib import closing

import pytest
from made_turns import DONE, WEST, append, moment, run, search

from automem.errors import RunError, UsageError
from automem.trace import TraceWriter, read_trace
from automem.train import dataset
from automem.train.recipe import Selection
from automem.train.select import AllSelector
from automem.train.turns import episodes, turns
from automem.train.verify import verify

ALL = Selection(selector="all", held_out=0.3)


def day(number):
    """An episode with a good turn, one that cannot be cleaned, and one whose ACTION must be cut."""
    return [
        moment("a", log=[f"{append(f'lamp {number}')}\n{DONE} bye"], plan=[search("lamp"), WEST]),
        moment("b", log=["I will remember."], plan=[f"{search('cup')} then west"]),
        moment("c", log=[search("cup"), f"{append('cup')}"], progress=0.5),
    ]


@pytest.fixture
def played(tmp_path, scaffold):
    return list(episodes([run(tmp_path / "run", scaffold(), *map(day, range(4)))]))


@pytest.fixture
def built(tmp_path, played):
    folder = tmp_path / "data"
    return folder, dataset.build(played, ALL, AllSelector(), folder, lambda _: None)


def test_the_card_counts_everything(built):
    folder, card = built
    assert (card.rows, card.held_out, card.turns) == (20, 5, 24)
    assert card.phases == {"log": 12, "plan": 8}
    assert card.operations == {"SEARCH": 12, "APPEND": 8, "DONE": 4}
    assert card.dropped == {"clean_no_operation": 4}
    assert set(card.episodes.values()) == {5}
    assert card.models == {"scripted:courier": 20}
    assert dataset.read_card(folder) == card
    assert "| clean_no_operation | 4 |" in (folder / "README.md").read_text()
    dropped = [json.loads(line) for line in (folder / "dropped.jsonl").read_text().splitlines()]
    assert {(one["step"], one["reason"]) for one in dropped} == {(1, "clean_no_operation")}


def test_rows_are_prompt_and_completion_with_provenance(built):
    row = dataset.read_rows(built[0], "train")[0]
    assert [message["role"] for message in row.prompt] == ["system", "user"]
    assert row.completion == [{"role": "assistant", "content": f"<|APPEND|>notes.txt|lamp {row.seed}<|END|>\n{DONE}"}]
    assert (row.step, row.call, row.phase, row.role, row.reason) == (0, 0, "log", "memory", "all")
    assert row.run.endswith("/run")


def test_the_split_is_by_episode_and_seeded(tmp_path, played, built):
    train, held_out = ({row.episode for row in dataset.read_rows(built[0], split)} for split in dataset.SPLITS)
    assert len(train) == 3
    assert len(held_out) == 1
    assert not train & held_out
    again = dataset.build(played, ALL, AllSelector(), tmp_path / "again", lambda _: None)
    assert again.digests == built[1].digests
    others = [ALL.model_copy(update={"seed": seed}) for seed in range(6)]
    cards = [dataset.build(played, one, AllSelector(), tmp_path / "other", lambda _: None) for one in others]
    assert len({card.digests["held_out"] for card in cards}) > 1


def test_zero_rows_are_an_error_that_says_why(tmp_path, scaffold):
    talk = list(episodes([run(tmp_path / "run", scaffold(), [moment("a", log=["hm"])])]))
    with pytest.raises(UsageError, match=r"no row to train on is left: clean_no_operation 1"):
        dataset.build(talk, ALL, AllSelector(), tmp_path / "data", lambda _: None)
    assert not (tmp_path / "data").exists()


def test_what_was_built_verifies(played, built):
    assert verify(built[0], played) == built[1]


def test_a_damaged_card_and_row_tell_how_to_get_them_again(built):
    hint = "delete the folder of the dataset: `automem train` makes it again"
    for file, said in ((built[0] / "card.json", " is damaged: "), (built[0] / "train.jsonl", ", line 1: damaged: ")):
        file.write_text("{}\n")
        with pytest.raises(UsageError) as caught:
            dataset.read_card(built[0]) if file.suffix == ".json" else dataset.read_rows(built[0], "train")
        assert caught.value.message.startswith(f"{file}{said}")
        assert caught.value.message.endswith(": this key is missing")
        assert caught.value.hint == hint


def rewrite(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("lamp ", "lamb ", "line 1: its completion"),
        ('"content": "rules"', '"content": "be good"', "line 1: its prompt"),
        ('"step": 0', '"step": 7', "no memory turn at"),
        ('"step": 0', '"step": 1', "cannot be cleaned"),
        ('"step": 0', '"step": 2', "the trace was edited"),
        ('"model": "scripted:courier"', '"model": "better"', "its model"),
        ('"phase": "log"', '"phase": "gameplay"', "its phase"),
        ('"env"', '"enw"', "unknown key 'enw'"),
        ('"episode": "s', '"episode": "t', "no finished episode"),
    ],
)
def test_an_edited_row_is_named(played, built, old, new, told):
    rewrite(built[0] / "train.jsonl", old, new)
    with pytest.raises(UsageError, match=told) as error:
        verify(built[0], played)
    assert "train.jsonl, line 1" in str(error.value)


def test_rows_that_were_moved_or_repeated_are_found(played, built):
    path = built[0] / "train.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, lines[0]]))
    with pytest.raises(UsageError, match="added, taken out or moved"):
        verify(built[0], played)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("<|APPEND|>notes.txt|lamp 0", "<|APPEND|>notes.txt|lamp 9", "operations are not those of the reply"),
        ('"args":["notes.txt","lamp"]', '"args":["notes.txt","lamb"]', "operations are not those of the reply"),
        ('"observation":"b"', '"observation":"bee"', "does not follow on the step before"),
        ('"assistant","content":"<|SEARCH', '"assistant","content":"x<|SEARCH', "an earlier reply in the prompt"),
        ('"seed":0', '"seed":77', "header"),
    ],
)
def test_an_edited_trace_is_named_before_anything_is_built(tmp_path, played, old, new, told):
    first = played[0]
    rewrite(first.path, old, new)
    with pytest.raises(UsageError, match=told) as error:
        dataset.build(played, ALL, AllSelector(), tmp_path / "data", lambda _: None)
    assert str(first.path) in str(error.value)


def with_new_digest(path):
    """Write an edited trace again as if it had been played so."""
    trace = read_trace(path)
    path.unlink()
    with closing(TraceWriter(path, trace.spec)) as writer:
        for step in trace.steps:
            writer.step(step)
        writer.result(trace.result)


@pytest.mark.parametrize(("old", "new"), [("rules", "be good"), ("# LOG", "# L0G"), ('"steps":3', '"steps":3,"x":1')])
def test_an_edited_prompt_or_result_is_named_before_anything_is_built(tmp_path, played, old, new):
    rewrite(played[0].path, old, new)
    with pytest.raises(UsageError) as error:
        dataset.build(played, ALL, AllSelector(), tmp_path / "data", lambda _: None)
    assert error.value.message.startswith(f"{played[0].path}")
    assert not (tmp_path / "data").exists()


def test_a_trace_edited_after_selection_is_named(played, built):
    rewrite(played[0].path, "# LOG", "# L0G")
    with pytest.raises(UsageError, match="was edited or is damaged"):
        verify(built[0], played)
    with_new_digest(played[0].path)
    with pytest.raises(UsageError, match="the trace was edited since it was selected") as error:
        verify(built[0], played)
    assert played[0].path.name in str(error.value)


def test_prose_of_a_reply_is_covered_too(played, built):
    rewrite(played[0].path, " bye", " by and by")
    with_new_digest(played[0].path)
    with pytest.raises(UsageError, match="the trace was edited"):
        verify(built[0], played)


def test_a_place_that_cannot_be_written_is_named(tmp_path, played):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(RunError, match="cannot write"):
        dataset.build(played, ALL, AllSelector(), tmp_path / "file" / "data", lambda _: None)


def test_a_reply_of_too_many_operations_is_read_as_the_agent_read_it(tmp_path, scaffold):
    """What the agent left out is recorded as such; the trace is no less true for it."""
    made = scaffold(budget={"log_rounds": 4, "plan_rounds": 4, "gameplay_rounds": 4, "operations": 2})
    many = "".join(append(f"line {n}") for n in range(3))
    folder = run(tmp_path / "p0", made, [moment("a", log=[many, DONE])])
    found = next(episodes([folder]))
    with pytest.raises(UsageError, match="the recorded operations are not those of the reply"):
        list(found.steps())
    trace = folder.trace_path(found.spec)
    text = trace.read_text()
    third = '{"name":"APPEND","args":["notes.txt","line 2"]'
    assert third in text
    trace.write_text(text.replace(third, '{"name":"?","args":["…"]'))
    with_new_digest(trace)
    assert [turn.number for step in found.steps() for turn in turns(step)] == [0, 1]
