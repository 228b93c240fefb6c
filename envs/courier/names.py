"""The words of Courier: enough rooms for a grid of 8 by 9 and enough parcels for the largest task.

A task uses the first names of each list, so that a small task needs few words. No word is in two lists.
"""

from __future__ import annotations

_ROOM_WORDS = """
    kitchen library attic cellar study garden chapel stable bakery armory gallery nursery
    pantry parlor vault laundry workshop kennel orchard tower bedroom bathroom dairy forge
    office theater museum school market harbor prison clinic tavern smithy brewery mill
    barn shed porch balcony corridor hallway lobby lounge closet wardrobe dungeon crypt
    temple shrine archive classroom studio salon ballroom courtyard terrace veranda greenhouse aviary
    boathouse gatehouse guardroom scullery larder storeroom treasury throne observatory cloister infirmary
    refectory
"""
ROOMS = tuple(_ROOM_WORDS.split())

_MATERIALS = ("brass", "wooden", "silver", "paper", "glass", "woolen", "iron", "clay", "golden")
_THINGS = ("lamp", "box", "cup", "map", "ring", "bell", "book", "drum")

#: Nine materials and eight things have no common divisor: going round both lists gives 72 different pairs.
PARCELS = tuple(
    f"{_MATERIALS[i % len(_MATERIALS)]} {_THINGS[i % len(_THINGS)]}" for i in range(len(_MATERIALS) * len(_THINGS))
)
