"""What a terminal is not told."""

from __future__ import annotations

from automem.text import printable


def test_control_characters_are_shown_and_not_obeyed():
    assert printable("a\x1b]0;title\x07 \x9b2J b") == "a\\x1b]0;title\\x07 \\x9b2J b"


def test_lines_tabs_and_other_alphabets_stay():
    assert printable("é\n\t漢字 ±") == "é\n\t漢字 ±"


def test_direction_overrides_are_shown():
    assert printable("a\u202eb") == "a\\x202eb"
