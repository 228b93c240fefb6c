"""Which characters there are: NetHack itself plays another one where it does not know or allow what is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

from automem.errors import UsageError, nearest

#: Whom the seed chooses.
ANYONE = "@"
#: A name is known by its first letters, at least so many.
_LETTERS = 3
_RACES = {"human": "law neu cha", "elf": "cha", "dwarf": "law", "gnome": "neu", "orc": "cha"}
_GENDERS = ("male", "female")
_ALIGNMENTS = ("lawful", "neutral", "chaotic")


class _Role(NamedTuple):
    """The races, alignments and genders of a role, by their first letters."""

    races: str
    alignments: str
    genders: str = "mal fem"


_ROLES = {
    "archeologist": _Role("hum dwa gno", "law neu"),
    "barbarian": _Role("hum orc", "neu cha"),
    "caveman": _Role("hum dwa gno", "law neu"),
    "healer": _Role("hum gno", "neu"),
    "knight": _Role("hum", "law"),
    "monk": _Role("hum", "law neu cha"),
    "priest": _Role("hum elf", "law neu cha"),
    "ranger": _Role("hum elf gno orc", "neu cha"),
    "rogue": _Role("hum orc", "cha"),
    "samurai": _Role("hum", "law"),
    "tourist": _Role("hum", "neu"),
    "valkyrie": _Role("hum dwa", "law neu", "fem"),
    "wizard": _Role("hum elf gno orc", "neu cha"),
}
#: Roles that have another name for women, which stands for no gender.
_WOMEN = {"cavewoman": "caveman", "priestess": "priest"}
#: What a part of a character says -> the names there are.
_KINDS: dict[str, tuple[str, ...]] = {
    "role": tuple(_ROLES),
    "race": tuple(_RACES),
    "gender": _GENDERS,
    "alignment": _ALIGNMENTS,
}
_FORM = "write role, race, gender and alignment, or some of them, as in mon-hum-mal-neu; the seed chooses the rest"


def check_character(character: str) -> None:
    """Check that NetHack makes the `character` that is asked: "@", or parts such as "mon-hum-mal-neu", in any order.

    Raises:
        UsageError: a part that is unknown or given twice, or parts that do not go together.
    """
    if character == ANYONE:
        return
    chosen: dict[str, str] = {}
    for part in character.split("-"):
        kind, name = _meaning(character, part)
        if kind in chosen:
            raise UsageError(f"nethack: character '{character}' has two {kind}s: {chosen[kind]} and {name}", _FORM)
        chosen[kind] = name
    if not any(_matches(each, chosen) for each in _everyone()):
        raise UsageError(f"nethack: there is no character '{character}'", _possible(chosen))


def _meaning(character: str, part: str) -> tuple[str, str]:
    """The kind and the full name of `part`."""
    word = part.casefold()
    for kind, names in _KINDS.items():
        for name in (*names, *(_WOMEN if kind == "role" else ())):
            if len(word) >= _LETTERS and name.startswith(word):
                return kind, _WOMEN.get(name, name)
    wrong = f"'{part}' is no role, race, gender or alignment" if part else "a part of it is empty"
    raise UsageError(f"nethack: character '{character}': {wrong}", _FORM if len(word) < _LETTERS else _known(word))


def _known(word: str) -> str:
    names = [name for names in _KINDS.values() for name in names]
    if close := nearest(word, [*names, *(name[:_LETTERS] for name in names)]):
        return f"did you mean '{close}'?"
    return "; ".join(f"{kind}: {_codes(names)}" for kind, names in _KINDS.items())


def _everyone() -> Iterator[dict[str, str]]:
    """All characters that NetHack makes, by the full names of what they are."""
    for role, (races, alignments, genders) in _ROLES.items():
        for race, gender, alignment in product(_RACES, _GENDERS, _ALIGNMENTS):
            allowed = alignment[:_LETTERS] in alignments and alignment[:_LETTERS] in _RACES[race]
            if allowed and race[:_LETTERS] in races and gender[:_LETTERS] in genders:
                yield {"role": role, "race": race, "gender": gender, "alignment": alignment}


def _matches(character: dict[str, str], chosen: dict[str, str]) -> bool:
    return all(character[kind] == name for kind, name in chosen.items())


def _possible(chosen: dict[str, str]) -> str:
    """What goes with the first thing chosen."""
    kind = next(kind for kind in _KINDS if kind in chosen)
    found = [each for each in _everyone() if each[kind] == chosen[kind]]
    rest = (f"{other}: {_codes(dict.fromkeys(each[other] for each in found))}" for other in _KINDS if other != kind)
    return f"{chosen[kind]} goes with {'; '.join(rest)}"


def _codes(names: Iterable[str]) -> str:
    return " ".join(name[:_LETTERS] for name in names)
