"""Kinds of change: what a scaffold's CHANGES.md claims, and what its files show.

The published gains mix memory with task policy in code; here every change names its kind, and the kinds that
can be told from the files are told from the files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from automem.errors import UsageError, did_you_mean
from automem.scaffold.spec import Scaffold

Kind = Literal["memory-structure", "memory-prompt", "observation-processing", "action-guard", "task-advice"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Kinds of which a revision needs at least one: wording alone is not a revision.
STRUCTURAL: frozenset[Kind] = frozenset({"memory-structure", "observation-processing", "action-guard"})

_ENTRY = re.compile(r"^## +([a-z-]+) *: *(\S.*)$", re.MULTILINE)
#: Keys of scaffold.yaml that say how operations are written, not how memory is built.
_WORDING = ("dialect", "constrained", "examples", "plan")
_IGNORED = ("name", "parent", "about", "env")
_OF_FUNCTION: Mapping[str, Kind] = {
    "observe": "observation-processing",
    "upsert": "memory-structure",
    "auto_files": "memory-structure",
    "guard": "action-guard",
    "repair": "action-guard",
}
#: What a template shows beyond its own words.
_SHOWN = re.compile(r"\bmemory\.(?:text|tail)\([^)]*\)|\bblocks\b|\bstate\b|\bhistory\.\w+")


@dataclass(frozen=True)
class Change:
    """One entry of CHANGES.md: `## <kind>: <title>`, and the text below it."""

    kind: Kind
    title: str
    why: str


def claimed(scaffold: Scaffold) -> list[Change]:
    """The changes that CHANGES.md tells of.

    Raises:
        UsageError: an entry names no known kind.
    """
    text = scaffold.texts.get("CHANGES.md", "")
    marks = list(_ENTRY.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    changes = []
    for mark, end in zip(marks, ends, strict=False):
        kind = mark.group(1)
        if kind not in KINDS:
            raise UsageError(f"CHANGES.md: unknown kind of change '{kind}'", did_you_mean(kind, KINDS))
        changes.append(Change(kind, mark.group(2).strip(), text[mark.end() : end].strip()))
    return changes


def found(parent: Scaffold, candidate: Scaffold) -> list[frozenset[Kind]]:
    """The changes that the files show. Each is a set of kinds of which at least one must be claimed.

    A set has several kinds where the files cannot tell: new words in a prompt may be about memory or about
    the game.
    """
    changes = [*_yaml_changes(parent, candidate), *_logic_changes(parent.logic or "", candidate.logic or "")]
    wording: frozenset[Kind] = frozenset({"memory-prompt", "task-advice"})
    for name in sorted({*parent.prompts, *candidate.prompts}):
        before, after = parent.prompts.get(name, ""), candidate.prompts.get(name, "")
        if before != after:
            shows_more = set(_SHOWN.findall(after)) - set(_SHOWN.findall(before))
            changes.append(frozenset({"observation-processing"}) if shows_more else wording)
    if parent.initial != candidate.initial:
        changes.append(_initial_change(parent.initial, candidate.initial))
    return list(dict.fromkeys(changes))


def _yaml_changes(parent: Scaffold, candidate: Scaffold) -> Iterable[frozenset[Kind]]:
    before, after = parent.spec.model_dump(mode="json"), candidate.spec.model_dump(mode="json")
    for key in before:
        if key in _IGNORED or _without_words(before[key]) == _without_words(after[key]):
            continue
        yield frozenset({"memory-prompt" if key in _WORDING else "memory-structure"})
    old, new = _words(before["files"]), _words(after["files"])
    if any(old[name] != new[name] for name in old.keys() & new.keys()):
        yield frozenset({"memory-prompt", "task-advice"})


def _without_words(value: Any) -> Any:
    """A value of scaffold.yaml without the sentences that only prompts show."""
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return [{k: v for k, v in item.items() if k != "about"} for item in value]
    return value


def _words(files: list[dict[str, Any]]) -> dict[str, str]:
    return {file["name"]: file["about"] for file in files}


def _initial_change(before: Mapping[str, str], after: Mapping[str, str]) -> frozenset[Kind]:
    """Prefilled text is advice; headers and emptied files are structure."""
    old = {line.strip() for text in before.values() for line in text.splitlines()}
    new = {line.strip() for text in after.values() for line in text.splitlines()} - old
    advice = any(line and not line.startswith("#") for line in new)
    return frozenset({"task-advice"}) if advice else frozenset({"memory-structure"})


def _logic_changes(before: str, after: str) -> Iterable[frozenset[Kind]]:
    """A function that changed, by its kind; other code that changed counts for every function there is."""
    old, new = _functions(before), _functions(after)
    names = {name for name in {*old, *new} if name in _OF_FUNCTION}
    shared_changed = _rest(old) != _rest(new)
    for name in sorted(names):
        if shared_changed or old.get(name) != new.get(name):
            yield frozenset({_OF_FUNCTION[name]})


def _functions(source: str) -> dict[str, str]:
    """Top-level statements by the name they define (else by position), normalised."""
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise UsageError(f"logic.py, line {error.lineno}: {error.msg}") from error
    return {getattr(node, "name", f"#{number}"): ast.dump(node) for number, node in enumerate(body)}


def _rest(functions: Mapping[str, str]) -> list[str]:
    return [dump for name, dump in functions.items() if name not in _OF_FUNCTION]
