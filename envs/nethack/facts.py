"""What the game tells, as JSON values: `info["state"]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from nle import nethack as nh

from . import language
from .glyphs import DOORS, IS_GROUND, IS_LANDMARK, KINDS, NAMES, PASSABLE, STAIRS
from .language import HEIGHT, WIDTH
from .screen import Screen

#: The eight neighbours: columns east, rows south.
SIDES = {
    "north": (0, -1),
    "northeast": (1, -1),
    "east": (1, 0),
    "southeast": (1, 1),
    "south": (0, 1),
    "southwest": (-1, 1),
    "west": (-1, 0),
    "northwest": (-1, -1),
}
_HUNGER = ("satiated", "not hungry", "hungry", "weak", "fainting", "fainted", "starved")
_BURDEN = ("unencumbered", "burdened", "stressed", "strained", "overtaxed", "overloaded")
_CONDITIONS = {
    nh.BL_MASK_STONE: "stoned",
    nh.BL_MASK_SLIME: "slimed",
    nh.BL_MASK_STRNGL: "strangled",
    nh.BL_MASK_FOODPOIS: "food poisoning",
    nh.BL_MASK_TERMILL: "terminally ill",
    nh.BL_MASK_BLIND: "blind",
    nh.BL_MASK_DEAF: "deaf",
    nh.BL_MASK_STUN: "stunned",
    nh.BL_MASK_CONF: "confused",
    nh.BL_MASK_HALLU: "hallucinating",
    nh.BL_MASK_LEV: "levitating",
    nh.BL_MASK_FLY: "flying",
    nh.BL_MASK_RIDE: "riding",
}

Place = tuple[int, int]


class Landmarks:
    """Stairs and doors seen in this game, by level: NetHack hides them under whoever stands there."""

    def __init__(self) -> None:
        self._levels: dict[tuple[int, int], dict[Place, str]] = {}

    def look(self, screen: Screen) -> dict[Place, str]:
        """Take in what `screen` shows; returns place -> kind for this level, places as the text has them."""
        level = (int(screen.blstats[nh.NLE_BL_DNUM]), int(screen.blstats[nh.NLE_BL_DLEVEL]))
        known = self._levels.setdefault(level, {})
        for x, y in list(known):
            if IS_GROUND[screen.glyphs[y - 1, x]]:
                del known[x, y]
        flat = screen.glyphs.ravel()
        for place in np.flatnonzero(IS_LANDMARK[flat]).tolist():
            known[place % WIDTH, place // WIDTH + 1] = KINDS[flat[place]]
        return known


def player(screen: Screen) -> Place:
    """Column and row of the player; the row is the screen's, so that the map's first row is row 1."""
    return int(screen.blstats[nh.NLE_BL_X]), int(screen.blstats[nh.NLE_BL_Y]) + 1


def gather(screen: Screen, landmarks: Landmarks) -> dict[str, Any]:
    """The facts of a screen."""
    known = landmarks.look(screen)
    here = player(screen)
    return {
        "message": screen.message,
        "prompt": screen.asks,
        "position": list(here),
        "here": known.get(here),
        **_status(screen.blstats.tolist()),
        "adjacent": _adjacent(screen, here),
        "stairs": _places(known, STAIRS),
        "doors": _places(known, DOORS),
        "inventory": dict(language.inventory(screen.inv_strs, screen.inv_letters)),
        "over": None,
    }


def _status(numbers: list[int]) -> dict[str, Any]:
    """The status lines."""
    mask = numbers[nh.NLE_BL_CONDITION]
    return {
        "dlvl": numbers[nh.NLE_BL_DEPTH],
        "gold": numbers[nh.NLE_BL_GOLD],
        "hp": numbers[nh.NLE_BL_HP],
        "max_hp": numbers[nh.NLE_BL_HPMAX],
        "power": numbers[nh.NLE_BL_ENE],
        "max_power": numbers[nh.NLE_BL_ENEMAX],
        "ac": numbers[nh.NLE_BL_AC],
        "xl": numbers[nh.NLE_BL_XP],
        "turn": numbers[nh.NLE_BL_TIME],
        "score": numbers[nh.NLE_BL_SCORE],
        "hunger": _HUNGER[numbers[nh.NLE_BL_HUNGER]],
        "burden": _BURDEN[numbers[nh.NLE_BL_CAP]],
        "conditions": [name for bit, name in _CONDITIONS.items() if mask & bit],
    }


def _adjacent(screen: Screen, here: Place) -> dict[str, dict[str, Any]]:
    """The eight squares around, by direction; outside of the map there is wall."""
    told = {}
    for side, (dx, dy) in SIDES.items():
        x, y = here[0] + dx, here[1] - 1 + dy
        inside = 0 <= x < WIDTH and 0 <= y < HEIGHT
        glyph = int(screen.glyphs[y, x]) if inside else nh.GLYPH_CMAP_OFF + 1
        kind = KINDS[glyph]
        told[side] = {"kind": kind, "name": NAMES[glyph], "passable": kind in PASSABLE}
    return told


def _places(known: dict[Place, str], kinds: tuple[str, ...]) -> list[dict[str, Any]]:
    """From north to south, row by row."""
    rows = sorted(known.items(), key=lambda item: (item[0][1], item[0][0]))
    return [{"kind": kind, "position": list(place)} for place, kind in rows if kind in kinds]
