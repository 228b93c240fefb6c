"""The scripted courier: what it writes, asks and does, prompt by prompt, and whole games through a memory."""

import pytest

from automem.env import make
from automem.grammar import Operation, render
from automem.models.base import Request
from automem.models.scripted.base import FileEntry, Prompt, ScriptedModel, read_prompt
from automem.models.scripted.courier import CourierPolicy

SEEN = """\
Room: attic at 3,1 in a grid of 6 by 4.
Here: tin cup, iron book.
Carrying: nothing.
Order: brass lamp to study.
News: the golden ring is now in 0,2."""
CARRIED = """\
Room: attic at 3,1 in a grid of 6 by 4.
Here: nothing.
Carrying: brass lamp.
Order: brass lamp to study."""

LOG, TABLE = FileEntry("notes.md", "log", 9), FileEntry("facts.md", "table", 9)
READS = {"SEARCH", "READ", "TAIL", "COUNT", "DONE", "ACTION"}
WRITES = {"SEARCH", "READ", "TAIL", "APPEND", "UPSERT", "DONE"}


def prompt(phase, observation, files=(), offered=None, asked=(), results=()):
    offered = frozenset((WRITES if phase == "log" else READS) if offered is None else offered)
    request = Request("memory", phase, "courier", "small", 1, 5, 0, 0)
    actions = ("north", "south", "east", "west", "take", "deliver", "wait")
    return Prompt(phase, observation, offered, tuple(files), actions, "wait", asked, results, request)


def reply(*args, **kwargs):
    return [render(operation) for operation in CourierPolicy().reply(prompt(*args, **kwargs))]


def after_search(result, observation=SEEN, file=TABLE):
    """The action after one search that was answered with `result`."""
    asked = (Operation("SEARCH", (file.name, "brass lamp")),)
    return reply("plan", observation, [file], asked=asked, results=(result,))


def act(name):
    return [f"<|ACTION|>{name}<|END|>"]


def test_log_writes_all_it_sees_into_a_log():
    assert reply("log", SEEN, [LOG]) == [
        "<|APPEND|>notes.md|attic at 3,1, no brass lamp<|END|>",
        "<|APPEND|>notes.md|tin cup at 3,1<|END|>",
        "<|APPEND|>notes.md|iron book at 3,1<|END|>",
        "<|APPEND|>notes.md|golden ring at 0,2<|END|>",
        "<|DONE|>",
    ]


def test_log_prefers_a_table_and_uses_names_as_keys():
    assert reply("log", SEEN, [LOG, TABLE]) == [
        "<|UPSERT|>facts.md|attic|3,1, no brass lamp<|END|>",
        "<|UPSERT|>facts.md|tin cup|3,1<|END|>",
        "<|UPSERT|>facts.md|iron book|3,1<|END|>",
        "<|UPSERT|>facts.md|golden ring|0,2<|END|>",
        "<|DONE|>",
    ]


@pytest.mark.parametrize(("kind", "operation"), [("table", "UPSERT"), ("log", "APPEND")])
def test_log_chooses_files_by_name(kind, operation):
    files = [FileEntry(name, kind, 0) for name in ("other.md", "places.md", "parcels.md")]
    written = [line.split("|")[1:4] for line in reply("log", SEEN, files)[:-1]]
    assert {name for name, _, _ in written} == {operation}
    assert [file.removeprefix(">") for _, file, _ in written] == ["places.md"] + ["parcels.md"] * 4
    assert [text.removesuffix(" at 3,1<") for _, _, text in written][:1] == ["attic"]


def test_log_falls_back_to_the_log_where_rows_cannot_be_put_in():
    assert reply("log", SEEN, [TABLE, LOG], offered={"APPEND", "DONE"})[0].startswith("<|APPEND|>notes.md|")


@pytest.mark.parametrize(("files", "offered"), [((), None), ([LOG], {"DONE"}), ([FileEntry("a.md", "note", 1)], None)])
def test_log_without_a_place_to_write_is_done(files, offered):
    assert reply("log", SEEN, files, offered) == ["<|DONE|>"]


def test_log_ends_when_asked_again():
    asked = (Operation("APPEND", ("notes.md", "attic at 3,1")),)
    assert reply("log", SEEN, [LOG], asked=asked, results=("ok",)) == ["<|DONE|>"]


def test_log_marks_a_miss_only_while_it_looks_for_the_parcel():
    assert reply("log", CARRIED, [TABLE])[0] == "<|UPSERT|>facts.md|attic|3,1<|END|>"
    found = SEEN.replace("tin cup", "brass lamp")
    assert reply("log", found, [TABLE])[0] == "<|UPSERT|>facts.md|attic|3,1<|END|>"


@pytest.mark.parametrize("phase", ["plan", "gameplay"])
def test_it_takes_and_delivers_without_asking(phase):
    assert reply(phase, SEEN.replace("tin cup", "brass lamp"), [TABLE]) == act("take")
    assert reply(phase, CARRIED.replace("attic", "study"), [TABLE]) == act("deliver")


def test_it_searches_for_what_it_needs_now():
    assert reply("plan", SEEN, [TABLE]) == ["<|SEARCH|>facts.md|brass lamp<|END|>"]
    assert reply("plan", CARRIED, [LOG]) == ["<|SEARCH|>notes.md|study<|END|>"]
    files = [FileEntry("rooms.md", "table", 3), FileEntry("parcels.md", "table", 3)]
    assert reply("plan", SEEN, files) == ["<|SEARCH|>parcels.md|brass lamp<|END|>"]
    assert reply("gameplay", CARRIED, files) == ["<|SEARCH|>rooms.md|study<|END|>"]


@pytest.mark.parametrize(
    ("place", "action"),
    [("5,1", "east"), ("0,1", "west"), ("3,3", "north"), ("3,0", "south"), ("0,3", "west")],
)
def test_it_walks_to_what_it_finds(place, action):
    assert after_search(f"12: brass lamp at {place}") == act(action)
    assert after_search(f"brass lamp | {place} | step 40") == act(action)


def test_the_last_line_of_a_log_is_the_newest():
    assert after_search("3: brass lamp at 0,1\n40: brass lamp at 5,1", file=LOG) == act("east")


def test_the_highest_step_is_the_newest():
    rows = "1: brass lamp | 5,1 | step 90\n2: brass lamp | 0,1 | step 7"
    assert after_search(rows) == act("east")


def test_a_place_where_the_parcel_was_missed_since_is_not_believed():
    toured = act("west")
    assert after_search("7: brass lamp at 3,3\n9: vault at 3,3, no brass lamp", file=LOG) == toured
    assert after_search("1: vault | 3,3, no brass lamp | step 9\n2: brass lamp | 3,3 | step 7") == toured
    assert after_search("7: vault at 3,3, no brass lamp\n9: brass lamp at 3,3", file=LOG) == act("north")
    assert after_search("1: brass lamp | 3,3 | step 9\n2: vault | 3,3, no brass lamp | step 7") == act("north")
    assert after_search("1: brass lamp | 3,3 | step 7\n2: vault | 5,1, no brass lamp | step 9") == act("north")


@pytest.mark.parametrize("answer", ["", "no match", "facts.md: 0 lines with 'brass lamp'", "4: brass lamp at 3,1"])
def test_it_explores_when_memory_knows_nothing_better(answer):
    assert after_search(answer) == act("west")


def test_it_explores_when_memory_answers_nothing_at_all():
    asked = (Operation("SEARCH", ("facts.md", "brass lamp")),)
    assert reply("plan", SEEN, [TABLE], asked=asked) == act("west")


@pytest.mark.parametrize(("files", "offered"), [((), None), ([TABLE], {"ACTION"})])
def test_it_plays_from_the_observation_alone_where_nothing_can_be_searched(files, offered):
    assert reply("plan", SEEN, files, offered) == act("west")


def test_news_of_the_ordered_parcel_need_no_search():
    assert reply("plan", SEEN.replace("golden ring", "brass lamp").replace("0,2", "3,3"), [TABLE]) == act("north")


def test_it_waits_when_there_is_no_order_or_nothing_it_understands():
    done = "Room: attic at 3,1 in a grid of 6 by 4.\nHere: nothing.\nCarrying: nothing.\nOrder: none."
    assert reply("plan", done, [TABLE]) == act("wait")
    assert reply("plan", "You see a door.", [TABLE]) == act("wait")
    assert reply("log", "You see a door.", [TABLE]) == ["<|DONE|>"]
    assert reply("log", done, [TABLE])[0] == "<|UPSERT|>facts.md|attic|3,1<|END|>"


@pytest.mark.parametrize(("width", "height"), [(w, h) for w in range(2, 10) for h in range(2, 10) if w * h % 2 == 0])
def test_the_tour_comes_through_every_room_and_back(width, height):
    steps = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
    x = y = 0
    visited = []
    for _ in range(width * height):
        visited.append((x, y))
        seen = SEEN.replace("3,1", f"{x},{y}").replace("6 by 4", f"{width} by {height}")
        (operation,) = CourierPolicy().reply(prompt("plan", seen))
        dx, dy = steps[operation.args[0]]
        x, y = x + dx, y + dy
    assert (x, y) == (0, 0)
    assert sorted(visited) == [(x, y) for x in range(width) for y in range(height)]


async def test_as_a_model_it_reads_the_conversation_and_answers_in_tags():
    messages = [
        {"role": "system", "content": "Rules.\n\n# Actions\n- north\n- east\n- wait (default)"},
        {
            "role": "user",
            "content": f"# Observation\n{SEEN}\n\n# Memory\n- facts.md (table, 9 rows)\n\n"
            "# PLAN\nOperations now: SEARCH, ACTION.",
        },
    ]
    request = prompt("plan", SEEN).request
    model = ScriptedModel("courier", CourierPolicy())
    first = await model.generate(messages, request)
    assert first.text == "<|SEARCH|>facts.md|brass lamp<|END|>"
    messages += [
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "[1] brass lamp | 5,1 | step 3"},
    ]
    assert read_prompt(messages, request).results == ("brass lamp | 5,1 | step 3",)
    assert (await model.generate(messages, request)).text == "<|ACTION|>east<|END|>"


class Lines:
    """A file of the newest `limit` lines; as a table it keeps the newest line of each key."""

    def __init__(self, kind, limit):
        self.files = (FileEntry("facts.md", kind, 0),) if kind else ()
        self.limit = limit
        self.lines = {}
        self.written = 0

    def do(self, operation, step):
        match operation.name, operation.args:
            case "APPEND", (_, text):
                self.lines[self.written] = text
            case "UPSERT", (_, key, text):
                self.lines.pop(key, None)
                self.lines[key] = f"{key} | {text} | step {step}"
            case "SEARCH", (_, keyword):
                return "\n".join(line for line in self.lines.values() if keyword in line)
        self.written += 1
        while len(self.lines) > self.limit:
            del self.lines[next(iter(self.lines))]
        return "ok"


def game(seed, memory):
    """Progress of one game of `small` with LOG and PLAN at every step."""
    env, policy = make("courier"), CourierPolicy()
    observation, info = env.reset(seed=seed)
    for step in range(env.max_steps):
        for operation in policy.reply(prompt("log", observation, memory.files)):
            memory.do(operation, step)
        operations = policy.reply(prompt("plan", observation, memory.files))
        if operations[0].name == "SEARCH":
            results = tuple(memory.do(operation, step) for operation in operations)
            asked = tuple(operations)
            operations = policy.reply(prompt("plan", observation, memory.files, asked=asked, results=results))
        (action,) = operations
        observation, _, terminated, _, info = env.step(action.args[0])
        if terminated:
            break
    return info["progress"]


def mean(kind, limit=60):
    return sum(game(seed, Lines(kind, limit)) for seed in range(10)) / 10


def test_memory_helps_and_a_table_helps_more_than_a_log_of_the_same_length():
    none, log, table = mean(None), mean("log"), mean("table")
    assert none < 0.45
    assert none + 0.2 < log
    assert log + 0.08 < table < 0.99


def test_it_is_the_same_game_every_time():
    assert game(4, Lines("table", 60)) == game(4, Lines("table", 60))
