"""Kinds of change: what a scaffold's CHANGES.md claims, and what its files show.

The published gains mix memory with task policy in code; here every change names its kind, and the kinds that
can be told from the files are told from the files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from jinja2 import Environment, TemplateSyntaxError, nodes

from automem.errors import UsageError, did_you_mean
from automem.scaffold.spec import Scaffold

Kind = Literal["memory-structure", "memory-prompt", "observation-processing", "action-guard", "task-advice"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Kinds of which a revision needs at least one: wording alone is not a revision.
STRUCTURAL: frozenset[Kind] = frozenset({"memory-structure", "observation-processing", "action-guard"})

_WORDS: frozenset[Kind] = frozenset({"memory-prompt", "task-advice"})
_ENTRY = re.compile(r"^## +([^:\n]+?) *: *(\S.*)$", re.MULTILINE)
#: Keys of scaffold.yaml that say how operations are written, not how memory is built.
_WORDING = ("dialect", "constrained", "plan")
_IGNORED = ("name", "parent", "about", "env")
_OF_FUNCTION: Mapping[str, Kind] = {
    "observe": "observation-processing",
    "upsert": "memory-structure",
    "auto_files": "memory-structure",
    "guard": "action-guard",
    "repair": "action-guard",
}
_PROMPTS = ("system.j2", "log.j2", "plan.j2", "gameplay.j2")
#: Stands for top-level code of which it cannot be told what it is about.
_ANY = ""
#: What a template shows beyond its own words: these variables, and these of the shipped partials.
_SHOWING = frozenset({"observation", "state", "history", "memory", "blocks"})
_PARTIALS = frozenset({"automem/observation.j2", "automem/memory.j2"})


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
    changes += _prompt_changes(parent.prompts, candidate.prompts)
    if parent.initial != candidate.initial:
        changes.append(_initial_change(parent.initial, candidate.initial))
    return list(dict.fromkeys(changes))


def _yaml_changes(parent: Scaffold, candidate: Scaffold) -> Iterable[frozenset[Kind]]:
    before, after = parent.spec.model_dump(mode="json"), candidate.spec.model_dump(mode="json")
    for key in before:
        if key in _IGNORED or _without_words(before[key]) == _without_words(after[key]):
            continue
        if key == "examples":
            yield _WORDS
        else:
            yield frozenset({"memory-prompt" if key in _WORDING else "memory-structure"})
    old, new = _words(before["files"]), _words(after["files"])
    if any(old[name] != new[name] for name in old.keys() & new.keys()):
        yield _WORDS


def _prompt_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[frozenset[Kind]]:
    """Each prompt that changed: it shows something that it did not show before, or it words things otherwise."""
    revealing: set[str] = set()
    for name in _PROMPTS:
        old, new = _Sight(before, name), _Sight(after, name)
        if new.shown - old.shown:
            revealing |= new.files
    for name in sorted({*before, *after}):
        if before.get(name, "") != after.get(name, ""):
            yield frozenset({"observation-processing"}) if name in revealing else _WORDS


class _Sight:
    """What a prompt shows, the partials that it includes taken together with it."""

    def __init__(self, prompts: Mapping[str, str], name: str) -> None:
        self.files: set[str] = set()
        self.shown: set[str] = set()
        self._prompts = prompts
        self._read(name)

    def _read(self, name: str) -> None:
        if name in _PARTIALS:
            self.shown.add(name)
        if name in self.files or name not in self._prompts:
            return
        self.files.add(name)
        try:
            tree = Environment().parse(self._prompts[name])
            self.shown.update(filter(None, map(_shown, tree.find_all(nodes.Expr))))
        except (TemplateSyntaxError, RecursionError, ValueError):
            return  # the check will say so
        for include in tree.find_all(nodes.Include):
            if isinstance(include.template, nodes.Const):
                self._read(include.template.value)


def _shown(node: nodes.Node) -> str | None:
    """`memory.text('notes.txt')` and the like, as it stands in a template; None for anything else."""
    match node:
        case nodes.Name(name=name):
            return name if name in _SHOWING else None
        case nodes.Getattr(node=inner, attr=attribute):
            told = f".{attribute}"
        case nodes.Getitem(node=inner, arg=argument):
            told = f"[{_constant(argument)}]"
        case nodes.Call(node=inner, args=arguments):
            told = f"({', '.join(map(_constant, arguments))})"
        case _:
            return None
    base = _shown(inner)
    return f"{base}{told}" if base else None


def _constant(node: nodes.Node) -> str:
    return repr(node.value) if isinstance(node, nodes.Const) else "…"


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
    """A function that changed, or of which code that it uses changed, by its kind."""
    old, new = _functions(before), _functions(after)
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield frozenset({_OF_FUNCTION[name]})


def _functions(source: str) -> dict[str, dict[str, list[str]]]:
    """Each function of the scaffold with the top-level code that it can reach by name, normalised."""
    try:
        body = _without_docstrings(ast.parse(source)).body
    except SyntaxError as error:
        raise UsageError(f"logic.py, line {error.lineno}: {error.msg}") from error
    except (ValueError, MemoryError, RecursionError) as error:
        raise UsageError(f"logic.py cannot be read as Python: {str(error) or 'nested too deep'}") from error
    parts: dict[str, list[ast.stmt]] = {}
    for node in body:
        for name in _defined(node):
            parts.setdefault(name, []).append(node)
    return {name: _reached(name, parts) for name in parts if name in _OF_FUNCTION}


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)):
            node.body = [line for line in node.body if not _is_text(line)]
    return tree


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _reached(function: str, parts: Mapping[str, list[ast.stmt]]) -> dict[str, list[str]]:
    reached: dict[str, list[str]] = {}
    rest = [function, _ANY]
    while rest:
        name = rest.pop()
        if name in parts and name not in reached:
            reached[name] = [ast.dump(node) for node in parts[name]]
            rest += [used.id for node in parts[name] for used in ast.walk(node) if isinstance(used, ast.Name)]
    return reached


def _defined(node: ast.stmt) -> list[str]:
    """The names that a top-level statement is about; `_ANY` where that cannot be told."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return [alias.asname or alias.name.partition(".")[0] for alias in aliases]
        case ast.Assign(targets=targets):
            return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return [_ANY]
