"""What each glyph of NetHack is called, and what kind of thing it is: tables by glyph number.

The names are those of the language wrapper that the literature uses, slips such as "alter" included, so that
texts compare. They come from the glyph alone: what the game calls "a cloudy potion" in one game and "a milky
potion" in the next has one name here.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from nle import nethack as nh


@dataclass(frozen=True)
class Terrain:
    """A map symbol: its name, its kind, where it is told (afar, ahead, never), and whether a look ends there."""

    name: str
    kind: str
    told: str
    opaque: bool


def _terrain() -> list[Terrain]:
    """The map symbols, in the order of the game's own table."""
    with Path(__file__).with_name("terrain.csv").open(encoding="utf-8") as file:
        return [Terrain(row["name"], row["kind"], row["told"], row["opaque"] == "yes") for row in csv.DictReader(file)]


TERRAIN = _terrain()
_SWALLOWS = [symbol.name for symbol in TERRAIN if symbol.name.startswith("swallow ")]
_EXPLOSIONS = [symbol.name for symbol in TERRAIN if symbol.name.startswith("explosion ")]
_BEAMS = ["horizontal zap beam", "vertical zap beam", "left slant zap beam", "right slant zap beam"]
_WARNINGS = ["worry", "concern", "anxiety", "disquiet", "alarm", "dread"]
_BOULDER = "boulder"

STAIRS = ("stairs up", "stairs down", "ladder up", "ladder down")
DOORS = ("doorway", "open door", "closed door")
_GROUND = ("floor", "corridor", "altar", "grave", "throne", "sink", "fountain", "ice", "bridge", "air")
#: Kinds that can be walked onto; traps can too, at a price. A pet changes places with you.
PASSABLE = frozenset([*_GROUND, *STAIRS, "doorway", "open door", "object", "pet", "effect"])


def _object_name(number: int) -> str:
    """What an object looks like, or is, by the class it belongs to."""
    thing = nh.objdescr.from_idx(number)
    name, look = thing.oc_name or "", thing.oc_descr or ""
    match ord(nh.objclass(number).oc_class):
        case nh.ARMOR_CLASS | nh.TOOL_CLASS:
            return look or name
        case nh.RING_CLASS:
            return f"{look} ring"
        case nh.AMULET_CLASS:
            return look if "Amulet" in look else f"{look} amulet"
        case nh.FOOD_CLASS:
            return name + look
        case nh.POTION_CLASS:
            return f"{look} potion"
        case nh.SCROLL_CLASS:
            return f"scroll labeled {look}"
        case nh.SPBOOK_CLASS:
            return f"{look} spellbook"
        case nh.WAND_CLASS:
            return f"{look} wand"
        case nh.GEM_CLASS:
            return name if look in name else f"{look} {name}"
        case nh.VENOM_CLASS:
            return f"splash of {name}"
        case _:
            return name


def _tables() -> tuple[list[str], list[str]]:
    """Name and kind of every glyph."""
    monsters = [nh.permonst(number).mname for number in range(nh.NUMMONS)]
    objects = [_object_name(number) for number in range(nh.NUM_OBJECTS)]
    groups = (
        (nh.GLYPH_MON_OFF, monsters, "monster"),
        (nh.GLYPH_PET_OFF, [f"tame {name}" for name in monsters], "pet"),
        (nh.GLYPH_INVIS_OFF, ["invisible creature"], "monster"),
        (nh.GLYPH_DETECT_OFF, [f"detected {name}" for name in monsters], "monster"),
        (nh.GLYPH_BODY_OFF, [f"{name} corpse" for name in monsters], "object"),
        (nh.GLYPH_RIDDEN_OFF, [f"ridden {name}" for name in monsters], "monster"),
        (nh.GLYPH_OBJ_OFF, objects, "object"),
        (nh.GLYPH_CMAP_OFF, [symbol.name for symbol in TERRAIN], ""),
        (nh.GLYPH_EXPLODE_OFF, _EXPLOSIONS, "effect"),
        (nh.GLYPH_ZAP_OFF, _BEAMS, "effect"),
        (nh.GLYPH_SWALLOW_OFF, _SWALLOWS, "wall"),
        (nh.GLYPH_WARNING_OFF, [f"unknown creature causing you {fear}" for fear in _WARNINGS], "monster"),
        (nh.GLYPH_STATUE_OFF, [f"{name} statue" for name in monsters], "statue"),
    )
    ends = [start for start, _, _ in groups[1:]] + [nh.MAX_GLYPH]
    names: list[str] = []
    kinds: list[str] = []
    for (start, group, kind), end in zip(groups, ends, strict=True):
        # The wrapper's groups repeat: one swallow for each monster, one explosion and beam for each sort.
        names += [group[place % len(group)] for place in range(end - start)]
        kinds += [kind or TERRAIN[place].kind for place in range(end - start)]
    return names, [_BOULDER if name == _BOULDER else kind for name, kind in zip(names, kinds, strict=True)]


def _symbol(glyph: int) -> Terrain | None:
    """The map symbol of a glyph; None for creatures, things and effects."""
    return TERRAIN[glyph - nh.GLYPH_CMAP_OFF] if nh.GLYPH_CMAP_OFF <= glyph < nh.GLYPH_EXPLODE_OFF else None


NAMES, KINDS = _tables()
_SYMBOLS = [_symbol(glyph) for glyph in range(nh.MAX_GLYPH)]
_TOLD = [symbol.told if symbol else "afar" for symbol in _SYMBOLS]
#: Names that are told from anywhere on the map; "" for the rest.
FAR_NAMES = [name if told == "afar" else "" for name, told in zip(NAMES, _TOLD, strict=True)]
#: Names that are told only where a straight look meets them; "" for the rest.
NEAR_NAMES = [name if told == "ahead" else "" for name, told in zip(NAMES, _TOLD, strict=True)]
#: Whether a straight look ends at a glyph.
OPAQUE = [symbol is not None and symbol.opaque for symbol in _SYMBOLS]
#: Whether a glyph says what the ground is: no creature, thing or effect hides it.
IS_GROUND = [symbol is not None and symbol.kind not in ("unknown", "effect") for symbol in _SYMBOLS]
#: Masks over glyph numbers, for whole maps.
IS_FAR = np.array([bool(name) for name in FAR_NAMES])
IS_LANDMARK = np.array([kind in STAIRS or kind in DOORS for kind in KINDS])
