"""Whatever a model asks, in whatever order: no exception, no size exceeded, all replayable."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from automem.grammar import OPERATIONS, Operation
from automem.memory import FileSpec, Memory, MemoryLimits

SPECS = (
    FileSpec(name="events.txt", kind="log", keep=4),
    FileSpec(name="plan.txt", kind="note", max_lines=3),
    FileSpec(name="map.txt", kind="table", key=("x:int", "y:int")),
    FileSpec(name="things.txt", kind="table"),
    FileSpec(name="status.txt", kind="auto"),
    FileSpec(name="rules.txt", kind="reference"),
)
LIMITS = MemoryLimits(file_chars=120, memory_chars=250, files=8, line_chars=40, search_results=3, read_lines=4)
HEADER = "# Events\n# newest last"
INITIAL = {"events.txt": f"{HEADER}\nstart", "map.txt": "# map", "rules.txt": "be\nquick"}

names = st.sampled_from(
    [
        *(spec.name for spec in SPECS),
        "EVENTS",
        "map",
        "new.txt",
        "b",
        "c.md",
        "../up",
        "/abs",
        "a\0",
        "",
        "ｎ.txt",
    ]
) | st.text(max_size=8)
keys = st.sampled_from(["1,2", "(x=1, y=2)", "3 4", "the Box", "box.", "1"]) | st.text(max_size=8)
texts = st.text("ab# |\n\r\t\x00\ud800é1", max_size=50) | st.text(max_size=50)
counts = st.sampled_from(["1", "2", "9", "0", "-1", "x", "99999999"])
BY_KIND = {"file": names, "key": keys, "text": texts, "query": texts, "topic": texts, "action": texts, "count": counts}


@st.composite
def operations(draw):
    spec = OPERATIONS[draw(st.sampled_from(list(OPERATIONS)))]
    args = [draw(BY_KIND[param.kind]) for param in spec.params]
    return Operation(spec.name, tuple(args[: draw(st.integers(max(0, len(args) - 1), len(args)))]))


steps = st.lists(operations() | texts.map(lambda text: text[:100]), max_size=30)


def fresh():
    return Memory(SPECS, LIMITS, INITIAL)


def texts_of(memory):
    return {name: memory.text(name) for name in memory.names()}


def check_state(memory):
    files = texts_of(memory)
    assert len(files) <= LIMITS.files
    sizes = {name: len(text) + 1 if text else 0 for name, text in files.items()}
    assert all(size <= LIMITS.file_chars for size in sizes.values())
    assert sum(size for name, size in sizes.items() if name not in ("status.txt", "rules.txt")) <= LIMITS.memory_chars
    assert files["rules.txt"] == INITIAL["rules.txt"]
    assert files["events.txt"].startswith(HEADER)
    assert len(files["events.txt"].split("\n")) <= 2 + 4
    assert len(files["plan.txt"].split("\n")) <= 3
    for table in ("map.txt", "things.txt"):
        rows = [line for line in files[table].split("\n") if line and line != "# map"]
        found = [row.partition(" | ")[0] for row in rows]
        assert len(set(found)) == len(found)
    assert all(len(line) <= LIMITS.line_chars for text in files.values() for line in text.split("\n"))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(steps)
def test_any_sequence_of_operations(asked):
    memory, splices = fresh(), []
    for step, op in enumerate(asked):
        if isinstance(op, Operation):
            before = texts_of(memory)
            result = memory.execute(op, step)
            assert result.text.strip()
            assert result.text.encode()
            assert result.changed or texts_of(memory) == before
            assert result.ok or not (result.changed or result.repeat)
        elif len(op.encode("utf-8", "replace")) < 40:
            memory.set_auto("status.txt", op)
        check_state(memory)
        splices += memory.take_journal()
    again = fresh()
    again.replay(splices)
    assert texts_of(again) == texts_of(memory)
    assert again.index() == memory.index()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
@given(steps)
def test_the_directory_holds_memory_and_nothing_leaves_it(asked):
    with tempfile.TemporaryDirectory() as root:
        target, directory = Path(root, "target"), Path(root, "memory")
        target.write_text("precious")
        directory.mkdir()
        for name in ("events.txt", "b", "stray"):
            (directory / name).symlink_to(target)
        memory = fresh()
        for step, op in enumerate(asked):
            if isinstance(op, Operation):
                memory.execute(op, step)
            if step % 3 == 0:
                memory.sync(directory)
        memory.sync(directory)
        on_disk = {path.name: path.read_text(encoding="utf-8") for path in directory.iterdir()}
        assert on_disk == {name: f"{text}\n" if text else "" for name, text in texts_of(memory).items()}
        assert target.read_text() == "precious"
        assert {path.name for path in Path(root).iterdir()} == {"target", "memory"}
