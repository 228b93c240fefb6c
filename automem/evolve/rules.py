"""`rules`: structural edits that follow from a diagnosis, without any model.

The baseline that a proposer with a model has to beat. One edit per proposal: the first in the order of `RULES`
that fits the diagnosis, is of allowed kinds, and has not been tried on this scaffold yet. Limits stay as they are.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from automem.evolve.base import Assignment, Proposal, Revision
from automem.evolve.changes import Change
from automem.evolve.edits import RULES, Case, Draft, Edit
from automem.results.plays import Cost
from automem.scaffold.spec import Scaffold

_VERSION = re.compile(r"(.+)-r(\d+)")
_LONGEST_NAME = 64


class RulesProposer:
    """Edits that follow from the diagnosis; the same for the same assignment."""

    name = "rules"

    def propose(self, assignment: Assignment) -> Proposal:
        """Write the strongest edit that has not been tried; nothing where there is none, and no repairs."""
        started = time.monotonic()
        edit = None if assignment.failed or assignment.errors else self._choose(assignment)
        if edit is not None:
            _write(edit, assignment)
        analysis = f"{edit.name}\n\n{edit.changes[0].why}" if edit else ""
        return Proposal(analysis, Cost(seconds=time.monotonic() - started))

    def close(self) -> None:
        """Nothing is held."""

    def _choose(self, assignment: Assignment) -> Edit | None:
        tried = set(_tried(assignment.lineage, assignment.scaffold))
        return next((edit for edit in edits(assignment) if edit.name not in tried), None)


def edits(assignment: Assignment) -> Iterator[Edit]:
    """All edits that fit, the strongest first."""
    case = Case(assignment.scaffold, assignment.diagnosis, assignment.allowed)
    for rule in RULES:
        for edit in rule(case):
            if all(change.kind in assignment.allowed for change in edit.changes):
                yield edit


def next_name(parent: str) -> str:
    """The name of the next version: `courier-v0` -> `courier-v0-r1` -> `courier-v0-r2`."""
    found = _VERSION.fullmatch(parent)
    base, number = (found[1], int(found[2])) if found else (parent, 0)
    suffix = f"-r{number + 1}"
    return base[: _LONGEST_NAME - len(suffix)] + suffix


def _tried(lineage: Sequence[Revision], scaffold: Scaffold) -> Iterator[str]:
    """Names of edits made to this very scaffold: the first line of the analysis, and titles of changes."""
    for row in lineage:
        if row.parent_digest == scaffold.digest:
            yield row.diagnosis.partition("\n")[0]
            for change in row.changes:
                yield change.get("title", "")


def _write(edit: Edit, assignment: Assignment) -> None:
    """The candidate, in the assignment's output."""
    parent = assignment.scaffold
    name = next_name(parent.name)
    data: dict[str, Any] = yaml.safe_load(parent.texts["scaffold.yaml"])
    own = {"name": name, "parent": parent.name, "about": f"As {parent.name}; {edit.name}."}
    draft = Draft({**own, **{key: value for key, value in data.items() if key not in own}}, dict(parent.texts))
    edit.apply(draft)
    draft.texts["scaffold.yaml"] = yaml.safe_dump(
        draft.data, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
    )
    draft.texts["CHANGES.md"] = _changes_text(name, edit.changes)
    for path, text in draft.texts.items():
        target = assignment.output / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="\n")


def _changes_text(name: str, changes: Sequence[Change]) -> str:
    """Each reason is one line: wrapped, a text from a trace might come to stand where an entry begins."""
    return (
        "\n\n".join([f"# {name}", *(f"## {change.kind}: {change.title}\n\n{change.why}" for change in changes)]) + "\n"
    )
