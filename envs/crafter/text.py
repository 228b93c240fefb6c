"""Facts of a step as the text that the agent reads."""

from __future__ import annotations

from typing import Any


def describe(state: dict[str, Any]) -> str:
    """The observation for `state` (see `view.facts`), at most about 150 words."""
    lines = _notice(state)
    if "position" in state:
        lines.append("Position: {},{}".format(*state["position"]))
    lines.append("Facing {direction}: {name}".format(**state["facing"]))
    lines.append("In view, nearest of each kind:")
    lines += [f"- {_place(thing)}" for thing in state["nearby"]]
    lines.append("Status: " + ", ".join(f"{name} {value}/9" for name, value in state["status"].items()))
    carried = ", ".join(f"{_plain(name)} {count}" for name, count in state["inventory"].items())
    lines.append(f"Inventory: {carried or 'nothing'}")
    return "\n".join(lines)


def _notice(state: dict[str, Any]) -> list[str]:
    if state["dead"]:
        return ["You are dead."]
    if state["sleeping"]:
        return ["You are asleep: until energy is full or you are hurt, every action is Sleep."]
    return []


def _place(thing: dict[str, Any]) -> str:
    distance = thing["distance"]
    return f"{thing['name']}: {distance} step{'s' if distance > 1 else ''} {thing['direction']}"


def _plain(name: str) -> str:
    return name.replace("_", " ")
