"""docs/scaffolds.md tells what is there, and CHANGES.md of each shipped scaffold claims what its files show."""

from pathlib import Path

import pytest

from automem.evolve import changes
from automem.memory.kinds import ACCEPTS, FileSpec
from automem.scaffold.logic import FUNCTIONS
from automem.scaffold.spec import load

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "scaffolds.md").read_text(encoding="utf-8")
EVOLVED = {"crafter-v5": "crafter-v0", "minihack-v4": "minihack-v0", "nethack-v2": "nethack-v0"}


def test_the_page_names_functions_kinds_and_fields():
    for function, arguments in FUNCTIONS.items():
        assert f"`{function}({', '.join(arguments)})`" in PAGE
    for kind in (*ACCEPTS, *changes.KINDS):
        assert f"`{kind}`" in PAGE
    for field in FileSpec.model_fields.keys() - {"name", "kind", "about", "max_chars"}:
        assert f"`{field}" in PAGE


@pytest.mark.parametrize(("name", "parent"), EVOLVED.items())
def test_what_is_claimed_is_what_changed(name, parent):
    scaffold = load(name)
    assert scaffold.spec.parent == parent and f"### {name}" in PAGE
    claimed = changes.claimed(scaffold)
    kinds = {change.kind for change in claimed}
    assert {"memory-structure", "memory-prompt", "observation-processing", "task-advice"} <= kinds
    assert all(change.why for change in claimed)
    if load(parent).logic is None or "def guard" in (scaffold.logic or ""):
        assert "action-guard" in kinds


@pytest.mark.parametrize(("name", "parent"), EVOLVED.items())
def test_the_page_tells_of_every_kind_that_a_scaffold_claims(name, parent):
    section = PAGE.split(f"### {name}")[1].split("\n### ")[0]
    assert all(f"| {change.kind} |" in section for change in changes.claimed(load(name)))
