"""The scripted player of Crafter: prompt by prompt, and a game through a memory."""

import pytest

from automem import env as envs
from automem.grammar import Operation, render
from automem.memory.files import Memory, MemoryLimits
from automem.memory.kinds import FileSpec
from automem.models.base import Request
from automem.models.scripted.base import FileEntry, Prompt
from automem.models.scripted.crafter import CrafterPolicy
from automem.models.scripted.crafter_sight import Thing, read_sight

MAP, LOG, TABLE = (
    FileEntry("map_notes.md", "log", 3),
    FileEntry("actions.md", "log", 3),
    FileEntry("places.md", "table", 3),
)
READS = {"SEARCH", "READ", "TAIL", "DONE", "ACTION"}
WRITES = {"SEARCH", "READ", "TAIL", "APPEND", "UPSERT", "DONE"}
FED = "health 9/9, food 9/9, drink 9/9, energy 9/9"


def sight(*things, facing="north: grass", status=FED, items="nothing", notice="", position="Position: 4,-2\n"):
    told = "".join(f"- {thing}\n" for thing in things)
    view = f"In view, nearest of each kind:\n{told}"
    return f"{notice}{position}Facing {facing}\n{view}Status: {status}\nInventory: {items}"


def prompt(phase, observation, files=(), offered=None, asked=(), results=(), step=300):
    offered = frozenset((WRITES if phase == "log" else READS) if offered is None else offered)
    request = Request("memory", phase, "crafter", "default", 1, step, 0, 0)
    return Prompt(phase, observation, offered, tuple(files), ("Noop", "Do"), "Noop", asked, results, request)


def reply(*args, **kwargs):
    return [render(operation) for operation in CrafterPolicy().reply(prompt(*args, **kwargs))]


def action(*things, step=300, **told):
    """What it does where it has no memory to ask."""
    (only,) = CrafterPolicy().reply(prompt("plan", sight(*things, **told), step=step))
    assert only.name == "ACTION"
    return only.args[0]


def test_it_reads_what_the_environment_writes():
    env = envs.make("crafter", area=16)
    observation, info = env.reset(seed=3)
    read, state = read_sight(observation, 0), info["state"]
    assert read.place == tuple(state["position"])
    assert (read.facing, read.ahead) == tuple(state["facing"].values())
    assert read.status == state["status"]
    assert read.items == state["inventory"]
    assert read.things == {t["name"]: Thing(t["distance"], t["direction"]) for t in state["nearby"]}
    assert read_sight("Room: attic.", 0) is None


@pytest.mark.parametrize(
    ("thing", "offset"),
    [
        (Thing(3, "west"), (-3, 0)),
        (Thing(1, "south"), (0, 1)),
        (Thing(2, "north-east"), (1, -1)),
        (Thing(3, "south-west"), None),
    ],
)
def test_places_are_known_only_where_the_text_is_exact(thing, offset):
    assert thing.offset == offset


@pytest.mark.parametrize(
    ("told", "done"),
    [
        ({"facing": "north: tree"}, "Do"),
        ({"facing": "north: stone"}, "Move"),
        ({"facing": "north: stone", "items": "wood pickaxe 1"}, "Do"),
        ({"facing": "north: iron", "items": "wood pickaxe 1"}, "Move"),
        ({"facing": "north: water", "status": "health 9/9, food 9/9, drink 8/9, energy 9/9"}, "Do"),
        ({"items": "wood 4"}, "Place Table"),
        ({"items": "wood 3"}, "Move"),
        ({"items": "sapling 1"}, "Place Plant"),
        ({"status": "health 9/9, food 9/9, drink 9/9, energy 4/9"}, "Sleep"),
        ({"notice": "You are asleep: wait.\n"}, "Sleep"),
    ],
)
def test_what_it_does_with_the_square_ahead(told, done):
    assert action(**told).startswith(done)


def test_it_crafts_beside_a_table_only():
    assert action("table: 2 steps north-west", items="wood 1") == "Make Wood Pickaxe"
    assert action("table: 2 steps north", items="wood 1") == "Move North"
    tools = "wood 1, stone 1, wood pickaxe 1"
    assert action("table: 1 step west", items=tools) == "Make Stone Pickaxe"


def test_it_turns_to_what_bites_and_hits_it():
    assert action("zombie: 1 step east") == "Move East"
    assert action("zombie: 1 step east", facing="east: zombie") == "Do"


def test_it_never_walks_into_lava_it_sees():
    for step in range(300, 500):
        assert action("lava: 1 step east", facing="south: water", step=step) != "Move East"
        assert action("lava: 1 step north", facing="north: lava", step=step) != "Move North"


def test_it_goes_round_what_it_cannot_take_away():
    moves = {action("water: 1 step north", facing="north: water", step=step) for step in range(300, 700)}
    assert "Do" not in moves
    assert moves >= {"Move West", "Move East"}


def test_without_memory_or_position_it_plays_on():
    assert action(position="").startswith("Move")
    assert reply("plan", "no game", []) == ["<|ACTION|>Noop<|END|>"]


# Memory

THIRSTY = sight(status="health 9/9, food 9/9, drink 3/9, energy 9/9")


def remembered(*lines, step=310):
    asked = (Operation("SEARCH", (MAP.name, "water at")), Operation("SEARCH", (MAP.name, "tree at")))
    return reply("plan", THIRSTY, [MAP], asked=asked, results=("\n".join(lines), "none"), step=step)


def test_plan_asks_the_map_for_what_it_needs_and_does_not_see():
    asked = ["<|SEARCH|>map_notes.md|water at<|END|>", "<|SEARCH|>map_notes.md|tree at<|END|>"]
    assert reply("plan", THIRSTY, [LOG, MAP]) == asked
    assert reply("plan", THIRSTY, [LOG])[0] == "<|SEARCH|>actions.md|water at<|END|>"
    assert reply("plan", THIRSTY, [FileEntry("map", "note", 1)])[0].startswith("<|ACTION|>")


def test_it_walks_to_the_newest_place_that_still_stands():
    assert remembered("3: water at 4,-30", "9: water at 30,-2") == ["<|ACTION|>Move East<|END|>"]
    assert remembered("water at 4,-30", "water at 30,-2", "no water at 30,-2") == ["<|ACTION|>Move North<|END|>"]
    assert remembered("water at 4,-30", "water at 5,-2") == ["<|ACTION|>Move North<|END|>"], "5,-2 is in view"


def test_log_looks_before_it_writes():
    seen = sight("water: 3 steps west", "tree: 5 steps north-east")
    search = ["<|SEARCH|>map_notes.md|water at<|END|>"]
    assert reply("log", seen, [MAP]) == search
    asked = (Operation("SEARCH", (MAP.name, "water at")),)
    note = "<|APPEND|>map_notes.md|water at 1,-2<|END|>"
    assert reply("log", seen, [MAP], asked=asked, results=("nothing",)) == [note, "<|DONE|>"]
    assert reply("log", seen, [MAP], asked=asked, results=("water at 3,-5",)) == ["<|DONE|>"]
    assert reply("log", seen, [MAP], asked=asked, results=("water at 9,9",)) == [note, "<|DONE|>"]
    assert reply("log", seen, [MAP], step=301) == ["<|DONE|>"], "not at every step"
    assert reply("log", seen, []) == ["<|DONE|>"]


def test_log_strikes_out_what_is_gone():
    asked = (Operation("SEARCH", (MAP.name, "tree at")),)
    told = reply("log", sight(), [MAP], asked=asked, results=("tree at 3,-3\ntree at 9,-2",))
    assert told == ["<|APPEND|>map_notes.md|no tree at 3,-3<|END|>", "<|DONE|>"]


def test_a_table_takes_rows():
    seen = sight("cow: 1 step south")
    asked = (Operation("SEARCH", (TABLE.name, "cow at")),)
    told = reply("log", seen, [TABLE], asked=asked, results=("nothing",))
    assert told == ["<|UPSERT|>places.md|4,-1|cow at 4,-1<|END|>", "<|DONE|>"]
    only_reads = reply("log", seen, [TABLE], offered={"SEARCH", "DONE"}, asked=asked, results=("nothing",))
    assert only_reads == ["<|DONE|>"]


# A game


def play(seed, steps, kind):
    """Achievements, and the lines of the map, of a game through a real memory."""
    env = envs.make("crafter", area=40)
    spec = FileSpec(name="map.md", kind=kind, key=("x:int", "y:int") if kind == "table" else ())
    memory = Memory([spec], MemoryLimits(), {})
    observation, info = env.reset(seed=seed)
    ended = False
    for step in range(steps):
        for phase in ("log", "plan"):
            asked, results, done = (), (), False
            while not done:
                entry = FileEntry("map.md", kind, len(memory.text("map.md").splitlines()))
                now = prompt(phase, observation, [entry], asked=asked, results=results, step=step)
                for op in CrafterPolicy().reply(now):
                    done = done or op.name in ("DONE", "ACTION")
                    if op.name == "ACTION":
                        observation, _, ended, _, info = env.step(op.args[0])
                    elif op.name != "DONE":
                        asked += (op,)
                        results += (memory.execute(op, step).text,)
        if ended:
            break
    return info["state"]["achievements"], memory.text("map.md").splitlines()


@pytest.mark.parametrize("kind", ["log", "table"])
def test_it_gets_to_its_tools_and_keeps_a_map(kind):
    achievements, lines = play(2, 150, kind)
    assert {"collect_wood", "place_table", "make_wood_pickaxe", "collect_sapling"} <= set(achievements)
    assert len(achievements) >= 8
    assert 3 <= len(lines) <= 60
