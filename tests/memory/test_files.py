import time

import pytest

from automem.errors import RunError
from automem.grammar import Operation
from automem.memory import FileSpec, Memory, MemoryLimits, Splice

LOG = FileSpec(name="events.txt", kind="log", about="what happened")
TABLE = FileSpec(name="map.txt", kind="table", about="places")
AUTO = FileSpec(name="status.txt", kind="auto")


def memory(events="", limits=None, specs=(LOG, TABLE, AUTO)):
    return Memory(specs, limits or MemoryLimits(), {"events.txt": events})


def do(mem, name, *args, step=0):
    return mem.execute(Operation(name, args), step)


def lines(number):
    return "\n".join(f"line {i}" for i in range(1, number + 1))


# --- reading


def test_index():
    mem = memory("# Events\na\nb")
    do(mem, "UPSERT", "map.txt", "home", "red door")
    assert mem.index() == (
        "- events.txt (log, 3 lines): what happened\n- map.txt (table, 1 rows): places\n- status.txt (auto, 0 lines)"
    )
    do(mem, "APPEND", "events.txt", "c")
    assert mem.index().startswith("- events.txt (log, 4 lines)")


def test_search():
    mem = memory("A tree\nwater\nTREES\n")
    result = do(mem, "SEARCH", "events.txt", "tree")
    assert (result.ok, result.hits, result.changed) == (True, 2, False)
    assert result.text == "2 lines match 'tree':\n1: A tree\n3: TREES"


@pytest.mark.parametrize("name", ["events.txt", "map.txt", "status.txt"])
def test_a_miss_has_a_fixed_answer(name):
    result = do(memory("a"), "SEARCH", name, "zebra")
    assert (result.ok, result.hits, result.text) == (True, 0, "no lines match 'zebra'")


def test_search_shows_the_newest():
    mem = memory(lines(23), MemoryLimits(search_results=2))
    result = do(mem, "SEARCH", "events.txt", "LINE")
    assert result.hits == 23
    assert result.text == "newest 2 of 23 lines match 'LINE':\n22: line 22\n23: line 23"


def test_newest_rows_are_those_written_last():
    mem = memory(limits=MemoryLimits(search_results=2))
    for step, key in enumerate(["a", "b", "c", "a"]):
        do(mem, "UPSERT", "map.txt", f"place {key}", f"seen {step}", step=step)
    shown = do(mem, "SEARCH", "map.txt", "place").text.splitlines()
    assert shown[1:] == ["2: place c | seen 2 | step 2", "3: place a | seen 3 | step 3"]


def test_count():
    mem = memory(lines(23), MemoryLimits(search_results=2))
    result = do(mem, "COUNT", "events.txt", "line 2")
    assert (result.hits, result.text) == (5, "5 lines match 'line 2' in events.txt")
    assert do(mem, "COUNT", "events.txt", "none").hits == 0


def test_read_goes_page_by_page():
    mem = memory(lines(5), MemoryLimits(read_lines=2))
    first = do(mem, "READ", "events.txt").text
    assert first == "line 1\nline 2\n(lines 1-2 of 5; READ|events.txt|3 for more)"
    assert do(mem, "READ", "events.txt", "5").text == "line 5\n(lines 5-5 of 5)"
    assert "has only 5 lines" in do(mem, "READ", "events.txt", "6").text
    assert do(mem, "TAIL", "events.txt", "4").text == "line 4\nline 5\n(lines 4-5 of 5)"
    assert do(mem, "TAIL", "events.txt", "1").text == "line 5\n(lines 5-5 of 5)"


def test_read_whole_and_unbounded():
    mem = memory(lines(500), MemoryLimits(read_lines=None, search_results=None))
    assert do(mem, "READ", "events.txt").text == lines(500)
    assert do(mem, "TAIL", "events.txt", "600").text == lines(500)
    assert len(do(mem, "SEARCH", "events.txt", "line").text.splitlines()) == 501
    assert do(mem, "READ", "status.txt").text == "status.txt is empty"
    assert do(mem, "TAIL", "status.txt", "3").text == "status.txt is empty"


# --- names


@pytest.mark.parametrize("name", ["events.txt", "events", "EVENTS.TXT", "Events"])
def test_the_name_that_is_meant(name):
    assert do(memory("a"), "READ", name).text == "a"


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../events.txt",
        "..",
        ".",
        ".hidden",
        "a/b",
        "a\\b",
        "a\0b",
        "a b",
        "a\nb",
        "-rf",
        "x" * 65,
        "x" * 100_000,
        "ｅvents.txt",
        "еvents.txt",
        "eventſ.txt",
        "\ud800",
    ],
)
@pytest.mark.parametrize("op", ["READ", "CREATE"])
def test_hostile_names_are_refused(op, name):
    mem = memory("a")
    result = do(mem, op, name)
    assert not result.ok
    assert "cannot be a file name" in result.text
    assert len(result.text) < 300
    assert result.text.encode()
    assert mem.names() == ["events.txt", "map.txt", "status.txt"]


def test_unknown_file():
    result = do(memory(), "APPEND", "event.txt", "x")
    assert not result.ok
    assert result.text == (
        "there is no file 'event.txt', did you mean 'events.txt'? Files: events.txt, map.txt, status.txt"
    )


def test_create():
    mem = memory(limits=MemoryLimits(files=4))
    assert do(mem, "CREATE", "ideas.txt").changed
    assert mem.take_journal() == [Splice("ideas.txt", 0, 0, ())]
    assert mem.index().splitlines()[-1] == "- ideas.txt (log, 0 lines)"
    assert "exists already" in do(mem, "CREATE", "Ideas").text
    assert "at most 4 files" in do(mem, "CREATE", "more.txt").text
    assert do(mem, "APPEND", "ideas", "x").ok


@pytest.mark.parametrize(
    "op",
    [
        Operation("DONE", ()),
        Operation("ACTION", ("north",)),
        Operation("?", ()),
        Operation("TAIL", ("events.txt",)),
    ],
)
def test_what_is_no_operation_on_memory(op):
    result = memory().execute(op, 0)
    assert not result.ok
    assert result.text


# --- sizes and characters


def test_line_breaks_and_control_characters():
    mem = memory()
    do(mem, "APPEND", "events.txt", "a\r\nb\rc\u2028d\x00e\tf\x1b[0m\ud800")
    assert mem.text("events.txt") == "a\nb\nc\nd\ufffde\tf\ufffd[0m\ufffd"


def test_long_lines_are_refused():
    mem = memory()
    result = do(mem, "APPEND", "events.txt", "short\n" + "x" * 501)
    assert result.text == "a line has 501 characters, at most 500 are allowed: write shorter lines"
    assert mem.text("events.txt") == ""


def test_full_file_and_full_memory():
    other = FileSpec(name="other.txt", kind="log", max_chars=100)
    mem = memory(limits=MemoryLimits(file_chars=10, memory_chars=20), specs=(LOG, TABLE, other))
    assert do(mem, "APPEND", "events.txt", "x" * 9).ok
    refused = do(mem, "APPEND", "events.txt", "y")
    assert refused.text == (
        "events.txt would have 12 characters, at most 10 are allowed: "
        "make room with WRITE|events.txt|text with a summary"
    )
    assert "memory would have 21 characters" in do(mem, "APPEND", "other.txt", "y" * 10).text
    assert do(mem, "APPEND", "other.txt", "y" * 9).ok
    assert do(mem, "WRITE", "events.txt", "short").ok
    assert do(mem, "APPEND", "events.txt", "x" * 3).ok


def test_a_full_table_asks_for_deletes():
    mem = memory(limits=MemoryLimits(file_chars=20))
    assert do(mem, "UPSERT", "map.txt", "a", "b").ok
    assert "make room with DELETE|map.txt|key" in do(mem, "UPSERT", "map.txt", "c", "d" * 9).text


# --- journal


def test_replay_rebuilds_memory():
    mem, again = memory("# e\na"), memory("# e\na")
    do(mem, "CREATE", "ideas.txt")
    for step, (name, *args) in enumerate(
        [("APPEND", "ideas.txt", "x\ny"), ("WRITE", "events.txt", "b"), ("UPSERT", "map.txt", "k", "v")]
    ):
        do(mem, name, *args, step=step)
    mem.set_auto("status.txt", "hp 3")
    again.replay(mem.take_journal())
    assert {name: again.text(name) for name in again.names()} == {name: mem.text(name) for name in mem.names()}
    assert again.index() == mem.index()
    assert again.take_journal() == []
    assert do(again, "APPEND", "ideas.txt", "X").repeat
    assert do(again, "UPSERT", "map.txt", "K", "V").repeat


@pytest.mark.parametrize(
    "splice",
    [
        Splice("../x", 0, 0, ("a",)),
        Splice("events.txt", 2, 0, ("a",)),
        Splice("events.txt", 0, 2, ()),
        Splice("events.txt", -1, 0, ()),
        Splice("events.txt", 0, -1, ()),
        Splice("new.txt", 1, 0, ("a",)),
    ],
)
def test_a_splice_that_does_not_fit_is_an_error(splice):
    with pytest.raises(RunError, match="does not fit"):
        memory("a").replay([splice])


# --- on disk


def contents(directory):
    return {path.name: path.read_text() for path in directory.iterdir()}


def test_sync_writes_what_changed(tmp_path):
    mem, directory = memory("a"), tmp_path / "memory"
    mem.sync(directory)
    assert contents(directory) == {"events.txt": "a\n", "map.txt": "", "status.txt": ""}
    before = {path.name: path.stat().st_ino for path in directory.iterdir()}
    do(mem, "APPEND", "events.txt", "é")
    mem.sync(directory)
    after = {path.name: path.stat().st_ino for path in directory.iterdir()}
    assert {name for name in after if after[name] != before[name]} == {"events.txt"}
    assert (directory / "events.txt").read_text(encoding="utf-8") == "a\né\n"


def test_first_sync_removes_what_an_earlier_try_left(tmp_path):
    for name in ("old.txt", ".events.txt.part", "events.txt"):
        (tmp_path / name).write_text("from before")
    memory("a").sync(tmp_path)
    assert contents(tmp_path) == {"events.txt": "a\n", "map.txt": "", "status.txt": ""}


def test_links_are_never_followed(tmp_path):
    target, directory = tmp_path / "target", tmp_path / "memory"
    target.write_text("precious")
    directory.mkdir()
    for name in ("events.txt", ".map.txt.part", "stray"):
        (directory / name).symlink_to(target)
    (directory / "folder").symlink_to(tmp_path)
    mem = memory("a")
    mem.sync(directory)
    (directory / ".events.txt.part").symlink_to(target)
    (directory / "events.txt").unlink()
    (directory / "events.txt").symlink_to(target)
    do(mem, "APPEND", "events.txt", "b")
    mem.sync(directory)
    assert target.read_text() == "precious"
    assert contents(directory) == {"events.txt": "a\nb\n", "map.txt": "", "status.txt": ""}
    assert not any(path.is_symlink() for path in directory.iterdir())


def test_a_directory_in_the_way_is_an_error_and_nothing_is_lost(tmp_path):
    (tmp_path / "events.txt").mkdir()
    mem = memory("a")
    with pytest.raises(RunError, match="cannot write memory"):
        mem.sync(tmp_path)
    (tmp_path / "events.txt").rmdir()
    mem.sync(tmp_path)
    assert contents(tmp_path)["events.txt"] == "a\n"


def test_another_directory_gets_everything(tmp_path):
    mem = memory("a")
    mem.sync(tmp_path / "one")
    mem.sync(tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


# --- cost


def test_a_long_episode_costs_the_same_at_every_step():
    mem = Memory([LOG.model_copy(update={"keep": 200})], MemoryLimits(), {"events.txt": "# Events"})

    def play(steps):
        started = time.process_time()
        for step in steps:
            mem.index()
            do(mem, "APPEND", "events.txt", f"step {step}: went north and saw a tree", step=step)
            do(mem, "SEARCH", "events.txt", "tree")
            mem.take_journal()
        return (time.process_time() - started) / len(steps)

    play(range(500))
    early = play(range(500, 1500))
    play(range(1500, 9000))
    late = play(range(9000, 10_000))
    assert late < 3 * early
    assert late < 0.001
