"""The scripted explorer: question by question, map by map, and games through a memory."""

import importlib.util

import pytest

from automem import env as envs
from automem.grammar import Operation, render
from automem.memory.files import Memory, MemoryLimits
from automem.memory.kinds import FileSpec
from automem.models.base import Request
from automem.models.scripted.base import FileEntry, Prompt
from automem.models.scripted.explorer import ExplorerPolicy
from automem.models.scripted.explorer_sight import STEPS, read_sight

LOG, TABLE = FileEntry("map.md", "log", 0), FileEntry("map.md", "table", 0)
ACTIONS = (*STEPS, "down", "more", "esc", "open", "kick", "eat", "pray", "search", "y", "n", "b", "d")
READS, WRITES = {"SEARCH", "ACTION", "DONE"}, {"SEARCH", "APPEND", "UPSERT", "DONE"}
#: A step at which the policy neither wanders nor changes its course.
STEP = 4


def screen(*rows, message="", seen="", status="HP:16(16)", level=1, carried="a: a club", asked=False):
    """An observation with `rows` as the map and the cursor on @, or on the message."""
    y, x = next((y, row.index("@")) for y, row in enumerate(rows, 1) if "@" in row)
    cursor = "\n(x=9, y=0)" if asked else f"Yourself a rogue\n(x={x}, y={y})"
    drawn = "\n".join((*rows, *[""] * (21 - len(rows)), "Agent the Footpad", f"Dlvl:{level} $:0 {status}"))
    parts = {"message": message, "language observation": seen, "cursor": cursor, "map": drawn, "inventory": carried}
    return "\n\n".join(f"{title}:\n{part}".rstrip() for title, part in parts.items())


def reply(phase, observation, files=(), asked=(), results=(), step=STEP, actions=ACTIONS, offered=None):
    offered = frozenset((WRITES if phase == "log" else READS) if offered is None else offered)
    request = Request("memory", phase, "nethack", "default", 1, step, 0, 0)
    prompt = Prompt(phase, observation, offered, tuple(files), actions, "north", tuple(asked), tuple(results), request)
    return [render(operation) for operation in ExplorerPolicy().reply(prompt)]


def action(observation, **told):
    """What it does where it has no memory to ask."""
    (only,) = reply("plan", observation, **told)
    return only.removeprefix("<|ACTION|>").removesuffix("<|END|>")


ROOM = ("-----", "|...|", "|.@.|", "-----")


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("In what direction?", "esc"),
        ("What do you want to eat? [bd or ?*]", "d"),
        ("What do you want to eat? [e or ?*]", "esc"),
        ("Really attack the gnome? [yn] (n)", "n"),
        ("You hear a door open.\nAre you sure you want to pray? [yn] (n)", "y"),
        ("Count: 20", "esc"),
        ("Coins\n$ - gold\n(end)", "esc"),
        ("(1 of 2)", "esc"),
        ("You see here:--More--", "more"),
        ("Call a potion:", "esc"),
    ],
)
def test_answers(message, answer):
    carried = "a: a club\nb: a tripe ration\nd: 2 food rations" if "bd" in message else "a: a club"
    assert action(screen(*ROOM, message=message, carried=carried, asked=True)) == answer
    assert action(screen("-----", "|..>|", "|.@.|", "-----", message=message)) == "northeast", "answered already"


def test_it_answers_with_keys_where_letters_are_no_actions():
    few = (*STEPS, "kick")
    assert action(screen(*ROOM, message="Really attack? [yn] (n)", asked=True), actions=few) == "southeast"


def test_it_kicks_the_door_that_is_beside_it():
    door = "vertical closed door 1 step away (directly reachable) east"
    assert action(screen(*ROOM, message="In what direction?", seen=door, asked=True)) == "east"
    assert action(screen(*ROOM, message="This door is locked.", seen=door)) == "kick"
    assert action(screen(*ROOM, seen=door)) == "open"


def test_it_reads_both_wordings():
    for words in ("jackal adjacent east and west", "jackal 1 step away (directly reachable) east and west"):
        sight = read_sight(screen("---", "d@d", "---", seen=words), ACTIONS, 0)
        assert sight.beside == {"east": "jackal", "west": "jackal"}
    assert read_sight("Room: attic.", ACTIONS, 0) is None
    assert reply("plan", "Room: attic.") == ["<|ACTION|>north<|END|>"]


def test_it_hits_foes_but_not_pets_nor_what_hurts():
    row = ("-----", "|d@.|", "-----")
    assert action(screen(*row, seen="jackal adjacent west")) == "west"
    for name in ("tame little dog", "floating eye"):
        assert action(screen("-----", "|d@>|", "-----", seen=f"{name} adjacent west")) == "east"


@pytest.mark.parametrize(
    ("rows", "way"),
    [
        (("-----", "|>..|", "|.@.|", "-----"), "northwest"),
        (("------", "|.@..#", "------"), "east"),
        (("   #  ", "---.--", "|@...|", "------"), "east"),
        (("-----", "|.@^>|", "-----"), "east"),
    ],
)
def test_it_walks_to_stairs_and_to_what_is_not_known(rows, way):
    assert action(screen(*rows)) == way


def test_it_takes_a_straight_way_when_the_game_refuses_the_diagonal():
    rows = ("    >", "  ?# ", "  @# ", "   # ")
    assert action(screen(*rows)) == "northeast"
    assert action(screen(*rows, message="You can't move diagonally out of an intact doorway.")) in ("north", "east")


def test_without_ways_it_searches():
    assert action(screen("---", "|@|", "---")) == "search"
    assert action(screen("---", "|@|", "---"), actions=tuple(STEPS)) == "north", "the default"


# Memory


def test_plan_asks_for_stairs_and_ends_then_goes():
    corridor = screen("     ", " #@# ", "     ")
    asked = reply("plan", corridor, [LOG])
    assert asked[0] == "<|SEARCH|>map.md|L1 stairs down<|END|>"
    assert set(asked[1:]) >= {"<|SEARCH|>map.md|1,2<|END|>", "<|SEARCH|>map.md|3,2<|END|>"}
    operations = [Operation("SEARCH", tuple(each[2:].split("|>")[1].split("<|")[0].split("|"))) for each in asked]
    for note, way in (("4: L1 done at 1,1,2", "east"), ("1,3,2 | L1 done | step 5", "west")):
        results = ["nothing", *[note] * (len(operations) - 1)]
        assert reply("plan", corridor, [LOG], operations, results) == [f"<|ACTION|>{way}<|END|>"]
    other_level = ["nothing", *["9: L2 done at 2,3,2"] * (len(operations) - 1)]
    assert reply("plan", corridor, [LOG], operations, other_level) == ["<|ACTION|>east<|END|>"]


def test_on_remembered_stairs_it_goes_down():
    asked = [Operation("SEARCH", ("map.md", "L1 stairs down")), Operation("SEARCH", ("map.md", "2,3"))]
    assert reply("plan", screen(*ROOM), [LOG], asked, ["L1 stairs down at 1,2,3", ""]) == ["<|ACTION|>down<|END|>"]
    assert reply("plan", screen(*ROOM), [TABLE], asked, ["1,1,2 | L1 stairs down", ""]) == [
        "<|ACTION|>northwest<|END|>"
    ]


def test_log_writes_what_the_map_will_hide():
    seen = screen("-----", "|..>|", "|.@.|", "-----")
    assert reply("log", seen, [LOG]) == ["<|SEARCH|>map.md|3,2<|END|>"]
    asked = [Operation("SEARCH", ("map.md", "3,2"))]
    note = "<|APPEND|>map.md|L1 stairs down at 1,3,2<|END|>"
    assert reply("log", seen, [LOG], asked, ["no lines match"]) == [note, "<|DONE|>"]
    assert reply("log", seen, [LOG], asked, ["4: L1 stairs down at 1,3,2"]) == ["<|DONE|>"]
    assert reply("log", screen(*ROOM), [LOG]) == ["<|DONE|>"]
    assert reply("log", seen, []) == ["<|DONE|>"]


def test_log_finds_out_how_the_keys_of_a_table_look():
    seen = screen("-----", "|..>|", "|.@.|", "-----")
    asked = [Operation("SEARCH", ("map.md", "3,2"))]
    first = "<|UPSERT|>map.md|1,3,2|L1 stairs down<|END|>"
    assert reply("log", seen, [TABLE], asked, ["none"]) == [first]
    asked.append(Operation("UPSERT", ("map.md", "1,3,2", "L1 stairs down")))
    assert reply("log", seen, [TABLE], asked, ["none", "new row '1,3,2' in map.md"]) == ["<|DONE|>"]
    refused = "'1,3,2' is not a key of this table: a key is x,y, for example 3,3"
    second = "<|UPSERT|>map.md|3,2|L1 stairs down<|END|>"
    assert reply("log", seen, [TABLE], asked, ["none", refused]) == [second]


def test_log_marks_dead_ends_and_boulders_that_do_not_move():
    end = screen("    ", " ##@ ", "    ")
    asked = [Operation("SEARCH", ("map.md", "3,2"))]
    assert reply("log", end, [LOG]) == ["<|SEARCH|>map.md|3,2<|END|>"]
    assert reply("log", end, [LOG], asked, ["none"])[0] == "<|APPEND|>map.md|L1 done at 1,3,2<|END|>"
    stuck = screen("-----", "|.@`|", "-----", message="You try to move the boulder, but in vain.")
    assert reply("log", stuck, [LOG], asked, ["none"])[0] == "<|APPEND|>map.md|L1 done at 1,3,2<|END|>"


# Staying alive

ACTS, STATUS = FileEntry("actions.md", "log", 0), FileEntry("current_status.txt", "auto", 5)
DYING = screen(*ROOM, status="HP:2(16)")


def test_it_looks_up_the_last_prayer_and_prays_when_that_is_long_ago():
    files, asked = [TABLE, ACTS, STATUS], [Operation("SEARCH", ("actions.md", "prayed in turn"))]
    ask = "<|SEARCH|>actions.md|prayed in turn<|END|>"
    assert reply("plan", DYING, files) == [ask, "<|SEARCH|>current_status.txt|turn<|END|>"]
    asked.append(Operation("SEARCH", ("current_status.txt", "turn")))
    pray = ["<|ACTION|>pray<|END|>"]
    for notes, turn, prays in (
        ("no lines match", 250, False),
        ("no lines match", 350, True),
        ("1: prayed in turn 400", 1350, False),
        ("1: prayed in turn 400", 1450, True),
        ("1: prayed in turn 400\n2: prayed in turn 1500", 1900, False),
    ):
        told = reply("plan", DYING, files, asked, [notes, f"1: Level 1, position x=3, turn {turn}, step 4"])
        assert (told == pray) == prays, (notes, turn)


def test_without_a_status_file_the_clock_or_the_step_counts():
    asked = [Operation("SEARCH", ("actions.md", "prayed in turn"))]
    pray = ["<|ACTION|>pray<|END|>"]
    assert reply("plan", DYING, [ACTS], asked, ["no lines match"], step=301) == pray
    assert reply("plan", DYING, [ACTS], asked, ["no lines match"], step=299) != pray
    clocked = screen(*ROOM, status="HP:2(16) T:301")
    assert reply("plan", clocked, [ACTS], asked, ["no lines match"], step=150) == pray


def test_log_keeps_the_turn_of_a_prayer_and_what_was_killed():
    prayed = screen(*ROOM, message="You begin praying to Odin.\nYou finish your prayer.")
    assert reply("log", prayed, [TABLE, ACTS, STATUS]) == ["<|SEARCH|>current_status.txt|turn<|END|>"]
    asked = [Operation("SEARCH", ("current_status.txt", "turn"))]
    note = "<|APPEND|>actions.md|prayed in turn 77<|END|>"
    assert reply("log", prayed, [TABLE, ACTS, STATUS], asked, ["1: turn 77, step 4"]) == [note]
    killed = screen(*ROOM, message="You kill the newt!  You kill the kitten!")
    assert reply("log", killed, [TABLE, ACTS]) == ["<|APPEND|>actions.md|killed newt in step 4<|END|>"]


def test_it_eats_what_it_has_just_killed():
    asked = [Operation("SEARCH", ("actions.md", "killed"))]
    beside = screen(*ROOM, seen="newt corpse adjacent west")
    assert reply("plan", beside, [ACTS]) == ["<|SEARCH|>actions.md|killed<|END|>"]
    here = screen(*ROOM, message="You see here a newt corpse.")
    question = screen(*ROOM, message="There is a newt corpse here; eat it? [ynq] (n)", asked=True)
    for seen, fresh, old in ((beside, "west", None), (here, "eat", None), (question, "y", "n")):
        told = reply("plan", seen, [ACTS], asked, ["3: killed newt in step 38"], step=41)
        assert told == [f"<|ACTION|>{fresh}<|END|>"]
        told = reply("plan", seen, [ACTS], asked, ["3: killed newt in step 4"], step=41)
        assert f"<|ACTION|>{fresh}<|END|>" not in told
        assert old is None or told == [f"<|ACTION|>{old}<|END|>"]


def test_it_picks_food_up_and_eats_it_when_hungry():
    food = "a: a club\nd: a food ration"
    assert action(screen(*ROOM, status="HP:16(16) Hungry", carried=food)) == "eat"
    assert action(screen(*ROOM, status="HP:16(16)", carried=food)) != "eat"
    assert action(screen(*ROOM, status="HP:16(16) Hungry", carried="a: a spear")) != "eat"
    found = screen(*ROOM, message="You see here 2 food rations.")
    assert action(found, actions=(*ACTIONS, "pickup")) == "pickup"


def test_it_leaves_the_peaceful_alone_once_the_game_has_asked():
    row, gnome = ("-----", "|G@>|", "-----"), "gnome adjacent west"
    assert action(screen(*row, seen=gnome)) == "west"
    assert action(screen(*row, seen=gnome, message="Really attack the gnome? [yn] (n)")) == "east"


def test_it_goes_deeper_only_when_strong_enough():
    stairs = ("-----", "|..>|", "|.@.|", "-----")
    assert action(screen(*stairs, status="HP:16(16) Xp:1/0")) == "northeast"
    assert action(screen(*stairs, status="HP:16(16) Xp:1/0", level=2)) != "northeast"
    assert action(screen(*stairs, status="HP:16(16) Xp:4/90", level=2)) == "northeast"
    assert action(screen(*stairs, status="HP:7(16) Xp:4/90")) == "search", "it rests first"


# Games


def play(env, seed, steps, kind="table"):
    """Info, and the map, of a game through a real memory."""
    spec = FileSpec(name="map.md", kind=kind, key=("level:int", "x:int", "y:int") if kind == "table" else ())
    memory = Memory([spec], MemoryLimits(search_results=10), {})
    observation, info = env.reset(seed=seed)
    for step in range(steps):
        ended = False
        for phase in ("log", "plan"):
            asked, results, done = (), (), False
            while not done:
                entry = FileEntry("map.md", kind, len(memory.text("map.md").splitlines()))
                request = Request("memory", phase, "nethack", "default", seed, step, 0, 0)
                offered = frozenset(WRITES if phase == "log" else READS)
                now = Prompt(
                    phase, observation, offered, (entry,), env.actions, env.default_action, asked, results, request
                )
                for op in ExplorerPolicy().reply(now):
                    done = done or op.name in ("DONE", "ACTION")
                    if op.name == "ACTION":
                        observation, _, terminated, truncated, info = env.step(op.args[0])
                        ended = terminated or truncated
                    elif op.name != "DONE":
                        asked += (op,)
                        results += (memory.execute(op, step).text,)
        if ended:
            break
    return info, memory.text("map.md")


needs_games = pytest.mark.skipif(
    importlib.util.find_spec("minihack") is None, reason="needs the packages nle and minihack"
)


@needs_games
@pytest.mark.parametrize(("task", "seed", "kind"), [("mazewalk-9x9", 42, "table"), ("corridor-r3", 46, "log")])
def test_it_solves_tasks_of_minihack(task, seed, kind):
    env = envs.make("minihack", task)
    info, notes = play(env, seed, 100, kind)
    env.close()
    assert info["progress"] == 1
    assert "stairs down" in notes


@needs_games
@pytest.mark.slow
def test_it_descends_in_nethack_and_keeps_its_map_small():
    env = envs.make("nethack")
    deepest = 0
    for seed in (43, 45):
        info, notes = play(env, seed, 2000)
        deepest = max(deepest, info["state"]["dlvl"])
        assert len(notes) < 10 * 2000
    env.close()
    assert deepest >= 2
