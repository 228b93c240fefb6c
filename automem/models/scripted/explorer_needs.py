"""Staying alive, for `scripted:explorer`: prayers that come not too often, fights, food, rest, and when to go deeper.

Memory is what makes it possible: the turn of the last prayer, and what has just been killed and is still fresh.
"""

from __future__ import annotations

import re

from automem.grammar import Operation
from automem.models.scripted.base import FileEntry, Prompt
from automem.models.scripted.explorer_sight import ASIDE, Sight

#: Turns before the first prayer and between two; the game's own clock is mostly, not always, below that.
FIRST_PRAYER, BETWEEN_PRAYERS = 300, 1000
#: Steps for which a corpse counts as fresh: it is harmless for 30 turns at least.
FRESH = 12
#: Hit points, of the maximum, below which it rests before it goes on.
RESTED = 0.6
PRAYED, KILLED = "prayed in turn", "killed"

#: What can be eaten by anyone, whoever it was; never dogs, cats, or what may be of the player's own race.
_SAFE = (
    r"newts?|jackals?|(?:sewer |giant )?rats?|geckos?|lichens?|fox(?:es)?|coyotes?|iguanas?|lizards?|rothes?"
    r"|cave spiders?|giant beetles?|pon(?:y|ies)|horses?|wol(?:f|ves)|jaguars?|lynx(?:es)?|giant ants?|hobbits?"
    r"|crocodiles?|baby crocodiles?|rock piercers?|gnome lords?|acid blobs?|garter snakes?|goblins?"
)
_KILL = re.compile(rf"You kill (?:the |an? )?(?:poor )?({_SAFE})!")
_CORPSE = re.compile(rf"^(?:You see here |There is )?(?:an? )?(?:partly eaten )?({_SAFE}) corpse(?: here; eat it|\.|$)")
_FOOD = re.compile(
    r"\b(?:(?:food|cram) rations?|lembas wafers?|pancakes?|fortune cookies?|candy bars?|cream pies?|apples?|pears?"
    r"|melons?|bananas?|carrots?|slime molds?|lumps? of royal jelly|gunyoki|cloves? of garlic|sprigs? of wolfsbane)\b"
)
_NO_MEAL = re.compile(r"Satiated|You don't have anything to eat|You cannot eat that")
_CARRIED = re.compile(r"^(\w): (.+)$", re.M)
_PRAYER = re.compile(r"You (?:begin praying|finish your prayer)")
_CLOCK = re.compile(r"\bT:(\d+)|\bturn (\d+)")


def urgent(prompt: Prompt, sight: Sight) -> list[Operation] | str | None:
    """What cannot wait: an action, or what to look up first."""
    if _in_need(sight) and "pray" in prompt.actions and (wanted := _pray(prompt, sight)):
        return wanted
    # A peaceful creature looks like any other until the game asks; the question stays in view when it is answered.
    if sight.foes and "Really attack" not in sight.message:
        return sight.foes[0]
    if "eat" in prompt.actions and (wanted := _eat(prompt, sight)):
        return wanted
    if door_beside(sight) and "kick" in prompt.actions and ("locked" in sight.message or "WHAM" in sight.message):
        return "kick"
    health, most = sight.health
    if health < RESTED * most and "search" in prompt.actions and not sight.foes:
        return "search"
    return None


def answer(prompt: Prompt, line: str) -> list[Operation] | str | None:
    """The answer to a question about food or prayer; None for other questions."""
    if "want to pray" in line:
        return key(prompt, "y")
    if (corpse := _CORPSE.search(line)) and "[yn" in line:
        fresh = _fresh(prompt, corpse[1])
        return fresh if isinstance(fresh, list) else key(prompt, "y" if fresh else "n")
    if line.startswith("What do you want to eat"):
        return next(iter(_carried_food(prompt)), "esc")
    return None


def may_descend(sight: Sight) -> bool:
    """Whether the player is strong enough for the next level."""
    health, most = sight.health
    return health >= RESTED * most and sight.experience >= 3 * sight.level - 2


def notes(prompt: Prompt, sight: Sight) -> list[Operation]:
    """What LOG writes down of prayers and kills, once for each step; a SEARCH where it must know the turn first."""
    file = _file(prompt)
    if file is None or "APPEND" not in prompt.offered or any(op.name == "APPEND" for op in prompt.asked):
        return []
    if _PRAYER.search(sight.message):
        clock = _questions_of_time(prompt, sight)
        return clock or [Operation("APPEND", (file.name, f"{PRAYED} {_turn(prompt, sight)}"))]
    kills = [] if prompt.asked else dict.fromkeys(_KILL.findall(sight.message))
    return [Operation("APPEND", (file.name, f"{KILLED} {name} in step {sight.step}")) for name in kills]


def key(prompt: Prompt, letter: str) -> str:
    """The action that presses y or n, where letters are no actions too."""
    return letter if letter in prompt.actions else {"y": "northwest", "n": "southeast"}[letter]


def door_beside(sight: Sight) -> str | None:
    """Where a door to open or kick is; during a question the cursor is elsewhere, so its place is not known."""
    return next((name for name in ASIDE if "closed door" in sight.beside.get(name, "")), None)


# Prayer


def _in_need(sight: Sight) -> bool:
    health, most = sight.health
    return health < max(6, most // 7 + 1) or any(word in sight.status for word in ("Weak", "Faint"))


def _pray(prompt: Prompt, sight: Sight) -> list[Operation] | str | None:
    """Pray if the last time is long enough ago; without a memory, seldom."""
    file = _file(prompt)
    if file is None or "SEARCH" not in {*prompt.offered, *(op.name for op in prompt.asked)}:
        return "pray" if sight.step > FIRST_PRAYER and sight.chance(25) else None
    if not _asked(prompt, file.name, PRAYED):
        return [Operation("SEARCH", (file.name, PRAYED)), *_questions_of_time(prompt, sight)]
    prayers = [int(turn) for turn in re.findall(rf"{PRAYED} (\d+)", "\n".join(prompt.results))]
    allowed = max(prayers) + BETWEEN_PRAYERS if prayers else FIRST_PRAYER
    return "pray" if _turn(prompt, sight) > allowed else None


def _questions_of_time(prompt: Prompt, sight: Sight) -> list[Operation]:
    """Where to look up the turn, unless the screen tells it or it has been looked up."""
    file = next((file for file in prompt.files if file.kind == "auto" and "status" in file.name), None)
    if file is None or "T:" in sight.status or _asked(prompt, file.name, "turn"):
        return []
    return [Operation("SEARCH", (file.name, "turn"))]


def _turn(prompt: Prompt, sight: Sight) -> int:
    """The turn, told by the screen or a status file; else the step, as a step takes a turn or more."""
    told = [sight.status] + [
        result for op, result in zip(prompt.asked, prompt.results, strict=False) if op.args[-1] == "turn"
    ]
    found = next((match for text in told if (match := _CLOCK.search(text))), None)
    return int(found[1] or found[2]) if found else sight.step


# Food


def _eat(prompt: Prompt, sight: Sight) -> list[Operation] | str | None:
    """Fresh corpses first, then what is found and what is carried."""
    if _NO_MEAL.search(sight.status + sight.message):
        return None
    here = _CORPSE.search(sight.message.rsplit("\n", 1)[-1])
    beside = [(way, corpse[1]) for way, what in sight.beside.items() if (corpse := _CORPSE.search(what))]
    for way, name in [*([("eat", here[1])] if here else []), *beside]:
        fresh = _fresh(prompt, name)
        if fresh:
            return fresh if isinstance(fresh, list) else way
    if "pickup" in prompt.actions and sight.message.startswith("You see here") and _FOOD.search(sight.message):
        return "pickup"
    hungry = any(word in sight.status for word in ("Hungry", "Weak", "Faint"))
    return "eat" if hungry and _carried_food(prompt) else None


def _fresh(prompt: Prompt, name: str) -> list[Operation] | bool:
    """Whether the player has just killed this, as memory has it, or what to look up."""
    file = _file(prompt)
    if file is None:
        return False
    if not _asked(prompt, file.name, KILLED):
        return [Operation("SEARCH", (file.name, KILLED))] if "SEARCH" in prompt.offered else False
    killed = re.findall(rf"{KILLED} {name} in step (\d+)", "\n".join(prompt.results))
    return any(int(step) > prompt.request.step - FRESH for step in killed)


def _carried_food(prompt: Prompt) -> list[str]:
    """Letters of what keeps and can be eaten safely."""
    carried = prompt.observation.rpartition("\ninventory:")[2]
    return [letter for letter, thing in _CARRIED.findall(carried) if _FOOD.search(thing)]


# Memory


def _file(prompt: Prompt) -> FileEntry | None:
    """The file for notes on what was done: a log of actions, else the first log."""
    logs = [file for file in prompt.files if file.kind == "log"]
    return next(iter([file for file in logs if "action" in file.name] or logs), None)


def _asked(prompt: Prompt, file: str, keyword: str) -> bool:
    return Operation("SEARCH", (file, keyword)) in prompt.asked
