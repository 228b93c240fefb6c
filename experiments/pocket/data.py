"""The teacher's games as conversations: played by `NoviceCourierPolicy` under several scaffolds.

Every conversation stands in a trace, word for word. Besides the shipped scaffolds there are variations of them,
so that the pocket model follows the prompt and not the name of a scaffold: other file names and kinds, another
order of phases (`plan: handoff`), memory shown in the prompt.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml
from novice import Habits, NoviceCourierPolicy

from automem.env import make
from automem.episode import Limits, ModelSpec
from automem.messages import Message
from automem.models.base import Request
from automem.models.scripted.base import ScriptedModel, read_prompt
from automem.models.scripted.courier import _tour, _toward
from automem.play.folder import RunConfig
from automem.play.run import play_run
from automem.scaffold.spec import Scaffold, load
from automem.trace import Call, TraceReader

#: Seeds of the teacher's games: far from those of runs, gates and reports, which start at 0.
FIRST_SEED = 1_000_000

#: The log of the games that are trained on; `courier-v0` itself keeps fewer lines.
_LOG = {"keep": 60}
_TABLE = {"kind": "table", "key": ["name"]}
_HANDOFF = "# GAMEPLAY\nMemory has been consulted. Commit one ACTION.\n{% include 'automem/offered.j2' %}\n"
_SHOWN = '# From {name}\n{{{{ memory.tail("{name}", 12) }}}}\n\n# PLAN'
_FILES = (
    "notes.txt (log, 60 lines): what was seen where, newest last",
    "places.txt (table, 36 rows): where each room and parcel was seen last",
)
_WALK = ("north", "south", "east", "west")
_ACTIONS: Message = {"role": "system", "content": "# Actions\n- wait (default)"}
_SEEN = "# Observation\n{observed}\n\n# Memory\n- {file}\n\n"
_GLANCE = (
    f"{_SEEN}# PLAN\n"
    "Search memory for the parcel you need, or for the room if you carry it. Then commit one ACTION.\n"
    "Operations now: SEARCH, READ, TAIL, ACTION."
)
_NOTE = (
    f"{_SEEN}# LOG\n"
    "Write down where this room is, where the parcels lie that you see, and the news. Then DONE.\n"
    "Operations now: SEARCH, READ, TAIL, {write}, DONE."
)
_ALONE = "{past}# Observation\n{observed}\n\n# PLAN\nCommit one ACTION.\nOperations now: ACTION."
#: Share that is kept of conversations that teach little: a PLAN that finds nothing, a LOG.
_KEPT = {"nowhere": 0.4, "log": 0.7}
#: Name of a variation -> scaffold it is made from, its share of the games, steps played, and what differs.
VARIATIONS: dict[str, tuple[str, float, int, dict[str, Any]]] = {
    "v0": ("courier-v0", 0.26, 200, {"file": _LOG}),
    "v1": ("courier-v1", 0.25, 200, {}),
    "v0-as-table": (
        "courier-v0",
        0.12,
        200,
        {"file": {**_TABLE, "about": "what was seen where; one row for each name"}, "log": "UPSERT, DELETE"},
    ),
    "v0-short": ("courier-v0", 0.05, 200, {"file": {"name": "log.txt", "keep": 30, "about": "what was seen"}}),
    "v0-shown": ("courier-v0", 0.04, 200, {"file": _LOG, "shown": True}),
    "v1-named": ("courier-v1", 0.05, 200, {"file": {"name": "facts.txt", "about": ""}}),
    "v1-shown": ("courier-v1", 0.04, 200, {"shown": True}),
    "v1-handoff": ("courier-v1", 0.08, 200, {"handoff": True}),
    "v0-handoff": ("courier-v0", 0.04, 200, {"file": _LOG, "handoff": True}),
    "window": ("window", 0.07, 60, {}),
}


@dataclass(frozen=True)
class Chat:
    """A conversation, and which of its messages the model shall learn to say."""

    messages: list[Message]
    said: frozenset[int]


def scaffold(name: str, folder: Path) -> Scaffold:
    """The scaffold of a variation, written to `folder` and loaded from there."""
    parent, _, _, differs = VARIATIONS[name]
    made = load(parent)
    made.save(folder)
    data = yaml.safe_load(made.texts["scaffold.yaml"])
    data["name"] = name
    if "file" in differs:
        data["files"][0] = _without_nothing({**data["files"][0], "keep": None, **differs["file"]})
    if "log" in differs:
        data["operations"]["log"] = ["SEARCH", "READ", "TAIL", *differs["log"].split(", "), "DONE"]
    if "handoff" in differs:
        data["plan"] = "handoff"
        data["operations"]["gameplay"] = ["SEARCH", "READ", "TAIL", "ACTION"]
        (folder / "prompts/gameplay.j2").write_text(_HANDOFF)
    if "shown" in differs:
        plan = folder / "prompts/plan.j2"
        plan.write_text(plan.read_text().replace("# PLAN", _SHOWN.format(name=data["files"][0]["name"])))
    (folder / "scaffold.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    return load(str(folder))


def conversations(games: int, first_seed: int = FIRST_SEED) -> Iterator[Chat]:
    """Whole conversations of about `games` games, variation by variation; the same every time."""
    for number, (name, (_, share, steps, _)) in enumerate(VARIATIONS.items()):
        start = first_seed + 10_000 * number
        count = max(1, round(share * games * 200 / steps))
        with tempfile.TemporaryDirectory() as folder:
            made = scaffold(name, Path(folder) / "scaffold")
            yield from _played(made, list(range(start, start + count)), steps, Path(folder) / "run")


def steps(times: int) -> list[str]:
    """Reasons for a step with the step, for every two places of the grid: what is walked when, without a game."""
    places = [(x, y) for x in range(6) for y in range(4)]
    texts = []
    for here in places:
        ends = f" from {here[0]},{here[1]}\n<|ACTION|>"
        texts += [f"nowhere{ends}{_tour(here, (6, 4))}<|END|>"]
        for there in places:
            step = _toward(here, there) if there != here else _tour(here, (6, 4))
            texts += [f"{there[0]},{there[1]}{ends}{step}<|END|>"]
    return texts * times


def glances(count: int, seed: int, answered: bool = False) -> Iterator[Chat]:
    """First replies of PLAN to made-up observations, in which taking and delivering are as frequent as searching.

    `answered`: a search is answered, and replied to as well.
    """
    chance, policy = Random(seed), NoviceCourierPolicy(Habits(skips=0))
    rooms, parcels = _names()
    request = Request("gameplay", "plan", "courier", "small", 0, 0, 0, 0)
    for _ in range(count):
        file = chance.choice(_FILES)
        said = _said(_GLANCE.format(observed=_observed(rooms, parcels, chance), file=file))
        chat = [said, _reply(policy, [said], request)]
        wanted, _, rest = str(chat[1]["content"]).partition("\n")
        if answered and "SEARCH" in rest:
            chat += [_said(_answer(wanted, file, rooms, parcels, chance))]
            chat += [_reply(policy, chat, request)]
        yield Chat(chat, frozenset(range(1, len(chat), 2)))


def notes(count: int, seed: int) -> Iterator[Chat]:
    """LOGs of made-up observations, more crowded ones than the game has, in which the fact is always written."""
    chance, policy = Random(seed), NoviceCourierPolicy(Habits(idle=0))
    rooms, parcels = _names()
    for number in range(count):
        file = chance.choice(_FILES)
        request = Request("gameplay", "log", "courier", "small", seed, 0, 0, number)
        observed = _observed(rooms, parcels, chance)
        if chance.random() < 0.3:
            observed += f"\nNews: the {chance.choice(parcels)} is now in {_place(chance)}."
        write = "UPSERT" if "table" in file else "APPEND"
        chat = [_said(_NOTE.format(observed=observed, file=file, write=write))]
        chat += [_reply(policy, chat, request)]
        if "SEARCH" in str(chat[1]["content"]):
            room = observed.partition(" at ")[0].removeprefix("Room: ")
            chat += [_said(_answer(room, file, rooms, parcels, chance))]
            chat += [_reply(policy, chat, request)]
        yield Chat(chat, frozenset(range(1, len(chat), 2)))


def windows(count: int, seed: int) -> Iterator[Chat]:
    """PLANs without memory below up to sixteen earlier observations, of which the teacher makes no use."""
    chance, policy = Random(seed), NoviceCourierPolicy()
    rooms, parcels = _names()
    request = Request("gameplay", "plan", "courier", "small", 0, 0, 0, 0)
    for _ in range(count):
        shown, first = chance.randrange(17), chance.randrange(180)
        past = "".join(
            f"# Step {first + n}\n{_observed(rooms, parcels, chance)}\nYou did: {chance.choice(_WALK)}\n\n"
            for n in range(shown)
        )
        chat = [_said(_ALONE.format(past=past, observed=_observed(rooms, parcels, chance)))]
        chat += [_reply(policy, chat, request)]
        yield Chat(chat, frozenset([1]))


def _names() -> tuple[list[str], list[str]]:
    """The rooms and the parcels of the game."""
    env = make("courier", "small")
    env.reset(seed=0)
    world: Any = vars(env)["world"]
    return sorted(world.rooms.values()), sorted(world.parcels)


def _said(content: str) -> Message:
    return {"role": "user", "content": content}


def _reply(policy: NoviceCourierPolicy, chat: Sequence[Message], request: Request) -> Message:
    return {"role": "assistant", "content": policy.reply(read_prompt([_ACTIONS, *chat], request))}


def _observed(rooms: Sequence[str], parcels: Sequence[str], chance: Random) -> str:
    """An observation: the ordered parcel lies here, or is carried, or its room is this one, or none of these."""
    room, goal = chance.sample(rooms, 2)
    here = chance.sample(parcels, chance.choice([0, 1, 1, 2, 3]))
    ordered, carrying = chance.choice([parcel for parcel in parcels if parcel not in here]), "nothing"
    match chance.choice(["take", "take", "search", "carry", "deliver"]):
        case "take" if here:
            ordered = chance.choice(here)
        case "carry":
            carrying = ordered
        case "deliver":
            carrying, goal = ordered, room
    return (
        f"Room: {room} at {_place(chance)} in a grid of 6 by 4.\nHere: {', '.join(here) or 'nothing'}.\n"
        f"Carrying: {carrying}.\nOrder: {ordered} to {goal}."
    )


def _answer(wanted: str, file: str, rooms: Sequence[str], parcels: Sequence[str], chance: Random) -> str:
    """What a search for `wanted` finds: none to three lines of a log or rows of a table."""
    count, table, name = chance.choice([0, 1, 1, 2, 3]), "table" in file, file.partition(" ")[0]
    lines, step = [], 0
    for number in sorted(chance.sample(range(1, 60), count)):
        step += chance.randrange(1, 40)
        others = chance.sample([parcel for parcel in parcels if parcel != wanted], chance.choice([0, 0, 1, 2]))
        things = chance.sample([*others, wanted], len(others) + 1) if wanted in parcels else others
        room = chance.choice(rooms) if wanted in parcels else wanted
        what = f"{_place(chance)}: {', '.join(things) or 'nothing'}"
        lines.append(f"{number}: {room} | {what} | step {step}" if table else f"{number}: {room} at {what}")
    matches = {0: "no lines match", 1: "1 line matches"}.get(count, f"{count} lines match")
    return "\n".join([f"[1] SEARCH {name} {wanted}: {matches} '{wanted}'{':' if count else ''}", *lines])


def _place(chance: Random) -> str:
    return f"{chance.randrange(6)},{chance.randrange(4)}"


def _played(made: Scaffold, seeds: list[int], steps: int, out: Path) -> Iterator[Chat]:
    config = RunConfig(
        env="courier",
        tasks=["small"],
        seeds=seeds,
        scaffold=made.name,
        scaffold_digest=made.digest,
        models={"gameplay": ModelSpec(name="scripted:novice")},
        limits=Limits(max_steps=steps),
    )
    played = play_run(out, config, made, {"gameplay": ScriptedModel("novice", NoviceCourierPolicy())}, jobs=4)
    chance = Random(seeds[0])
    for spec in played.folder.config.specs():
        for step in TraceReader(played.folder.trace_path(spec)).steps():
            yield from _whole(step.calls, chance)


def _whole(calls: list[Call], chance: Random) -> Iterator[Chat]:
    """The conversations of a step; one that a later call goes on with is part of that one.

    In `plan: handoff` a reply stands shortened in the conversation that goes on: as such nobody said it, so it
    is not learned.
    """
    replies = {call.reply for call in calls}
    chats: list[list[Message]] = [[*call.messages, {"role": "assistant", "content": call.reply}] for call in calls]
    for call, chat, later in zip(calls, chats, [*chats[1:], []], strict=True):
        if later[: len(chat)] != chat:
            said = [n for n, m in enumerate(chat) if m["role"] == "assistant" and m["content"] in replies]
            if chance.random() < _kept(call, chat):
                yield Chat(chat, frozenset(said))


def _kept(call: Call, chat: Sequence[Message]) -> float:
    if call.phase == "log":
        return _KEPT["log"]
    return _KEPT["nowhere"] if "nowhere" in chat[-1]["content"] else 1.0


def _without_nothing(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value is not None}
