import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from automem.errors import ScaffoldFailure, UsageError
from automem.grammar import Operation
from automem.memory import FileSpec, Memory, MemoryLimits, Splice

LOG = FileSpec(name="events.txt", kind="log", keep=3)
NOTE = FileSpec(name="plan.txt", kind="note", max_lines=2)
TABLE = FileSpec(name="map.txt", kind="table", key=("x:int", "y:int"))
AUTO = FileSpec(name="status.txt", kind="auto")
RULES = FileSpec(name="rules.txt", kind="reference")


def memory(*specs, upsert=None, limits=None, **initial):
    texts = {f"{name}.txt": text for name, text in initial.items()}
    return Memory(specs, limits or MemoryLimits(), texts, upsert)


def do(mem, name, *args, step=0):
    return mem.execute(Operation(name, args), step)


# --- log


def test_log_keeps_the_header_and_the_newest_lines():
    mem = memory(LOG, events="# Events\n# one a line\nfirst\n")
    for number in range(5):
        do(mem, "APPEND", "events.txt", f"event {number}")
    assert mem.text("events.txt") == "# Events\n# one a line\nevent 2\nevent 3\nevent 4"


def test_pruning_leaves_no_mark_and_is_told():
    mem = memory(LOG, events="a\nb\nc")
    result = do(mem, "APPEND", "events.txt", "d\ne")
    assert result.text == "appended 2 lines to events.txt, the oldest 2 lines dropped"
    assert mem.text("events.txt") == "c\nd\ne"
    assert mem.take_journal() == [Splice("events.txt", 0, 2, ()), Splice("events.txt", 1, 0, ("d", "e"))]


def test_a_log_line_may_come_again_but_is_marked():
    mem = memory(LOG)
    assert not do(mem, "APPEND", "events.txt", "Saw a  cow").repeat
    result = do(mem, "APPEND", "events.txt", "saw a COW")
    assert (result.repeat, result.changed) == (True, True)
    assert mem.text("events.txt").count("\n") == 1
    assert not do(mem, "APPEND", "events.txt", "saw a cow\nand a tree").repeat


def test_what_was_dropped_is_no_repeat():
    mem = memory(LOG, events="a\nb\nc")
    do(mem, "APPEND", "events.txt", "d")
    assert not do(mem, "APPEND", "events.txt", "a").repeat


def test_write_to_a_log_replaces_all_but_the_header():
    mem = memory(LOG, events="# Events\na\nb")
    assert do(mem, "WRITE", "events.txt", "summary").changed
    assert mem.text("events.txt") == "# Events\nsummary"
    do(mem, "WRITE", "events.txt", "# events\nother")
    assert mem.text("events.txt") == "# Events\nother"


def test_too_many_lines_at_once_are_refused():
    mem = memory(LOG, events="a")
    for name in ("APPEND", "WRITE"):
        result = do(mem, name, "events.txt", "1\n2\n3\n4")
        assert not result.ok
        assert "at most 3 lines, the text has 4" in result.text
    assert mem.text("events.txt") == "a"


def test_header_can_be_declared():
    mem = memory(LOG.model_copy(update={"header": 1}), events="Events:\na\nb\nc")
    do(mem, "APPEND", "events.txt", "d")
    assert mem.text("events.txt") == "Events:\nb\nc\nd"


# --- note


def test_note_is_overwritten_up_to_its_lines():
    mem = memory(NOTE)
    assert do(mem, "WRITE", "plan.txt", "a\nb").ok
    refused = do(mem, "WRITE", "plan.txt", "a\nb\nc")
    assert not refused.ok
    assert "at most 2 lines, the text has 3" in refused.text
    assert mem.text("plan.txt") == "a\nb"


def test_append_to_a_note_if_it_fits():
    mem = memory(NOTE, plan="a")
    assert do(mem, "APPEND", "plan.txt", "b").ok
    refused = do(mem, "APPEND", "plan.txt", "c")
    assert not refused.ok
    assert "use WRITE|plan.txt|text" in refused.text


def test_writing_the_same_note_again_changes_nothing():
    mem = memory(NOTE, plan="a\nb")
    result = do(mem, "WRITE", "plan.txt", "a\nb")
    assert (result.ok, result.repeat, result.changed) == (True, True, False)
    assert mem.take_journal() == []


def test_write_is_the_smallest_splice():
    mem = memory(NOTE.model_copy(update={"max_lines": None}), plan="a\nb\nc\nd")
    do(mem, "WRITE", "plan.txt", "a\nB\nc\nd")
    assert mem.take_journal() == [Splice("plan.txt", 1, 1, ("B",))]


LETTERS = st.lists(st.sampled_from("ab"), min_size=1, max_size=6).map("\n".join)


@settings(deadline=None)
@given(LETTERS, LETTERS)
def test_any_text_is_written_by_at_most_one_splice(old, new):
    mem, again = memory(AUTO, status=old), memory(AUTO, status=old)
    mem.set_auto("status.txt", new)
    splices = mem.take_journal()
    assert len(splices) == (old != new)
    assert all(len(splice.inserted) + splice.removed <= (old + new).count("\n") + 2 for splice in splices)
    again.replay(splices)
    assert mem.text("status.txt") == again.text("status.txt") == new


# --- table


def test_a_row_is_put_at_the_end():
    mem = memory(TABLE, map="# map")
    for key, text in [("1,2", "tree"), ("(x=3, y=4)", "water"), ("1 2", "stump")]:
        assert do(mem, "UPSERT", "map.txt", key, text, step=7).changed
    assert mem.text("map.txt") == "# map\n3,4 | water | step 7\n1,2 | stump | step 7"
    assert mem.take_journal()[-1] == Splice("map.txt", 1, 2, ("3,4 | water | step 7", "1,2 | stump | step 7"))


def test_the_same_row_again_changes_nothing():
    mem = memory(TABLE)
    do(mem, "UPSERT", "map.txt", "1,2", "tree", step=1)
    result = do(mem, "UPSERT", "map.txt", "y=2 x=1", "Tree | step 1", step=9)
    assert (result.ok, result.repeat, result.changed) == (True, True, False)
    assert mem.text("map.txt") == "1,2 | tree | step 1"


def test_rows_are_removed_by_key():
    mem = memory(TABLE, map="1,2 | a\n3,4 | b\n5,6 | c")
    assert do(mem, "DELETE", "map.txt", "(3, 4)").changed
    assert do(mem, "UPSERT", "map.txt", "5,6", "d", step=1).changed
    assert mem.text("map.txt") == "1,2 | a | step 0\n5,6 | d | step 1"
    refused = do(mem, "DELETE", "map.txt", "3,4")
    assert not refused.ok
    assert "no row '3,4'" in refused.text


def test_row_text_is_one_line_and_may_hold_bars():
    mem = memory(TABLE)
    do(mem, "UPSERT", "map.txt", "1,2", "a |\n  b | step 3 | step 4", step=9)
    assert mem.text("map.txt") == "1,2 | a | b | step 9"
    do(mem, "UPSERT", "map.txt", "1,2", "step 4", step=10)
    assert mem.text("map.txt") == "1,2 | step 4 | step 10"
    assert not do(mem, "UPSERT", "map.txt", "1,2", "| step 4").ok


def test_levels_do_not_overwrite_each_other():
    mem = memory(FileSpec(name="map.txt", kind="table", key=("level:int", "x:int", "y:int")))
    do(mem, "UPSERT", "map.txt", "1,5,5", "stairs")
    do(mem, "UPSERT", "map.txt", "level=2 x=5 y=5", "altar")
    assert mem.index() == "- map.txt (table, 2 rows)"


def test_a_key_that_does_not_fit_is_refused_aloud():
    result = do(memory(TABLE), "UPSERT", "map.txt", "over there", "tree")
    assert not result.ok
    assert "a key is x,y" in result.text


# --- logic of the scaffold

LOGIC = FileSpec(name="map.txt", kind="table", key=("x:int", "y:int"), logic=True)


def newest_first(file, rows, entry):
    assert file == "map.txt"
    return [entry, *(row for row in rows if row["key"] != entry["key"])]


def test_logic_puts_rows_its_own_way():
    mem = memory(LOGIC, upsert=newest_first, map="# map\n1,2 | a\n3,4 | b")
    result = do(mem, "UPSERT", "map.txt", "x=5, y=6", "c", step=3)
    assert (result.ok, result.changed, result.repeat) == (True, True, False)
    assert mem.text("map.txt") == "# map\n5,6 | c | step 3\n1,2 | a | step 0\n3,4 | b | step 0"
    assert mem.take_journal() == [Splice("map.txt", 1, 0, ("5,6 | c | step 3",))]
    assert do(mem, "UPSERT", "map.txt", "3,4", "b").repeat


def test_logic_may_leave_rows_alone_and_other_tables_do_without():
    mem = memory(LOGIC, TABLE.model_copy(update={"name": "b.txt"}), upsert=lambda file, rows, entry: rows)
    assert not do(mem, "UPSERT", "map.txt", "1,2", "a").changed
    assert do(mem, "UPSERT", "b.txt", "1,2", "a").changed


ROW = {"key": "1,2", "text": "a", "step": 1}


@pytest.mark.parametrize(
    "returned",
    [
        None,
        {"1,2": "a"},
        ["1,2 | a"],
        [{"key": "1,2", "text": "a"}],
        [ROW | {"more": 1}],
        [ROW | {"key": 12}],
        [ROW | {"text": None}],
        [ROW | {"text": " "}],
        [ROW | {"step": "1"}],
        [ROW | {"step": -1}],
        [ROW | {"key": "here"}],
        [ROW, ROW | {"key": "(1, 2)"}],
    ],
)
def test_anything_but_rows_from_logic_is_the_scaffolds_failure(returned):
    mem = memory(LOGIC, upsert=lambda file, rows, entry: returned, map="9,9 | kept")
    with pytest.raises(ScaffoldFailure, match=r"upsert for map.txt"):
        do(mem, "UPSERT", "map.txt", "1,2", "a")
    assert mem.text("map.txt") == "9,9 | kept | step 0"


# --- read-only kinds


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("APPEND", "map.txt", "x"), "map.txt is a table: use UPSERT|map.txt|key|text or DELETE|map.txt|key"),
        (
            ("UPSERT", "events.txt", "k", "x"),
            "events.txt is a log: use APPEND|events.txt|text or WRITE|events.txt|text",
        ),
        (("DELETE", "plan.txt", "k"), "plan.txt is a note: use WRITE|plan.txt|text or APPEND|plan.txt|text"),
        (
            ("WRITE", "status.txt", "x"),
            "status.txt is read-only (auto): write to events.txt, plan.txt, map.txt",
        ),
        (
            ("APPEND", "rules.txt", "x"),
            "rules.txt is read-only (reference): write to events.txt, plan.txt, map.txt",
        ),
    ],
)
def test_a_refusal_says_what_would_work(args, text):
    mem = memory(LOG, NOTE, TABLE, AUTO, RULES)
    result = do(mem, *args)
    assert (result.ok, result.changed, result.text) == (False, False, text)


def test_set_auto_is_the_smallest_splice():
    mem = memory(AUTO, status="a\nb\nc")
    mem.set_auto("status.txt", "a\nB\nc")
    assert mem.take_journal() == [Splice("status.txt", 1, 1, ("B",))]
    mem.set_auto("status.txt", "a\nB\nc\n")
    assert mem.take_journal() == []
    mem.set_auto("status.txt", "")
    assert mem.text("status.txt") == ""


def test_set_auto_is_for_auto_files_of_the_right_size():
    mem = memory(AUTO, NOTE, limits=MemoryLimits(file_chars=10))
    for name, text in [("plan.txt", "x"), ("none.txt", "x"), ("status.txt", "x" * 10)]:
        with pytest.raises(ScaffoldFailure):
            mem.set_auto(name, text)
    assert mem.take_journal() == []


# --- declarations


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "../a", "kind": "log"},
        {"name": "a.txt", "kind": "diary"},
        {"name": "a.txt", "kind": "note", "keep": 3},
        {"name": "a.txt", "kind": "log", "max_lines": 3},
        {"name": "a.txt", "kind": "log", "key": ["x"]},
        {"name": "a.txt", "kind": "note", "logic": True},
        {"name": "a.txt", "kind": "table", "key": ["x:float"]},
        {"name": "a.txt", "kind": "log", "about": "two\nlines"},
        {"name": "a.txt", "kind": "log", "size": 3},
        {"name": "a.txt", "kind": "log", "keep": 0},
    ],
)
def test_bad_declarations(fields):
    with pytest.raises(ValidationError):
        FileSpec.model_validate(fields)


def test_every_field_says_what_it_is():
    for model in (FileSpec, MemoryLimits):
        assert all(field.description for field in model.model_fields.values())


@pytest.mark.parametrize(
    ("spec", "text", "message"),
    [
        (LOG, "a\nb\nc\nd", "4 lines below its header, at most 3"),
        (NOTE, "a\nb\nc", "3 lines below its header, at most 2"),
        (TABLE, "1,2 a tree", "not a row"),
        (TABLE, "here | tree", "a key is x,y"),
        (TABLE, "1,2 | a\n(1,2) | b", "two rows have the key '1,2'"),
        (LOG.model_copy(update={"header": 2}), "a", "fewer than its header"),
        (RULES, "x" * 30_000, "30001 characters, the limit is 20000"),
    ],
)
def test_initial_contents_that_do_not_fit(spec, text, message):
    with pytest.raises(UsageError, match=message):
        Memory([spec], MemoryLimits(), {spec.name: text})


def test_initial_contents_and_specs_belong_together():
    with pytest.raises(UsageError) as error:
        Memory([LOG], MemoryLimits(), {"event.txt": ""})
    assert error.value.hint == "did you mean 'events.txt'?"
    with pytest.raises(UsageError, match="two memory files"):
        Memory([LOG, LOG.model_copy(update={"name": "Events.txt"})], MemoryLimits(), {})
    with pytest.raises(UsageError, match="the limits are 1 and"):
        Memory([LOG, NOTE], MemoryLimits(files=1), {})
    assert Memory([RULES.model_copy(update={"max_chars": 40_000})], MemoryLimits(), {"rules.txt": "x" * 30_000})
