"""Reading what people write: YAML files, `-s` overrides, seed lists. Errors name file, line and key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.reader import ReaderError

from automem.errors import UsageError, nearest
from automem.problems import Problem, first_problem, kind_of

#: Seeds of one run at most; more is a typing error.
MOST_SEEDS = 100_000

M = TypeVar("M", bound=BaseModel)


#: Nodes in a YAML file with every alias written out, and characters in a value that is not text.
_NODES = 100_000
_SCALAR = 100
#: What a key may be: text, or the mark that merges another mapping in.
_KEYS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")
#: What an escape in a YAML text can make and no file can hold.
_HALF = re.compile("[\ud800-\udfff]")


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping.

    Raises:
        UsageError: unreadable, not YAML, or not a mapping; names file and line.
    """
    try:
        data = _load(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"{path}, line {line}: {_told(error)}", _yaml_hint(error)) from error
    except ReaderError as error:
        raise UsageError(f"{path}: the character #x{error.character:04x} is not allowed", "take it out") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deep") from error
    if not isinstance(data, dict):
        found = "it is empty" if data is None else f"expected keys and values, here is {kind_of(data)}"
        raise UsageError(f"{path}: {found}", "start with a line such as `name: …`")
    return data


def _told(error: yaml.MarkedYAMLError) -> str:
    """What is wrong, and from which line on where that is another one."""
    here, there = error.problem_mark, error.context_mark
    if error.context and here and there and here.line != there.line:
        return f"{error.problem} ({error.context} that begins in line {there.line + 1})"
    return str(error.problem)


def _yaml_hint(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or ""
    if error.note:
        return error.note
    if "'\\t'" in problem:
        return "indent with spaces, not with tabs"
    if "another document" in problem:
        return "a file has one document: take the line --- out"
    if "mapping values are not allowed" in problem or "cannot start any token" in problem:
        return "a value with a colon in it, or one that begins with a sign, stands in quotes"
    return "this is not valid YAML"


class _Loader(yaml.SafeLoader):
    """Names the line of what looks like a number or a date and is none."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, OverflowError) as error:
            raise _refused(node, f"'{node.value}' is no number or date", "put it in quotes") from error


def _load(text: str) -> Any:
    """The contents of a YAML file, whose aliases must not make it huge and whose keys must stand once."""
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _check_nodes(root)
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _check_nodes(root: yaml.Node) -> None:
    rest, count = [root], 0
    while rest:
        node, count = rest.pop(), count + 1
        if count > _NODES:
            raise _refused(root, f"with its aliases written out it has more than {_NODES} values", "write less")
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
            rest += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            rest += node.value
        elif _HALF.search(node.value):
            raise _refused(node, "an escape such as \\ud800 is half a character", "write the character itself")
        elif len(node.value) > _SCALAR and node.tag.rpartition(":")[2] not in ("str", "binary"):
            raise _refused(node, f"a value of {len(node.value)} characters that is not text", "put it in quotes")


def _check_keys(node: yaml.MappingNode) -> None:
    """Of two equal keys the later one would silently win."""
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _refused(key, "a key is a word", "a value that begins with a bracket or brace stands in quotes")
        if key.tag not in _KEYS:
            raise _refused(key, f"the key {key.value} is no text to YAML", "put it in quotes")
        if key.value in seen:
            raise _refused(key, f"key '{key.value}' stands twice", f"it stands in line {seen[key.value]}, too")
        seen[key.value] = key.start_mark.line + 1


def _refused(node: yaml.Node, what: str, hint: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark, note=hint)


def validate(model: type[M], data: Mapping[str, Any], source: Path | str, before: Mapping[str, Any] | None = None) -> M:
    """`data` as a `model`. `before` is what the source itself has, where `-s` has changed it.

    Raises:
        UsageError: names the source, the line where it is a YAML file, the key, and the nearest known key.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = first_problem(error, model, data)
        hint = (_misspelled(problem, before) if before else None) or problem.hint
        raise UsageError(f"{_describe(source, problem)}: {problem.what}", hint) from error


def _misspelled(problem: Problem, before: Mapping[str, Any]) -> str | None:
    """A hint where a key is missing from something that was only made by a misspelled `-s`."""
    if not problem.missing:
        return None
    here: Any = before
    for number, part in enumerate(problem.place[:-1]):
        if number and isinstance(here, Mapping) and part not in here:
            close = nearest(str(part), map(str, here))
            group = ".".join(map(str, problem.place[:number]))
            return f"there was no '{part}' in {group}: did you mean '{close}'?" if close else None
        here = here.get(part) if isinstance(here, Mapping) else None
    return None


def parse_seeds(text: str, option: str = "--seeds") -> list[int]:
    """Seeds such as `0-9`, `42,43` or `0-3,10`; errors name the `option` that they were given by.

    Raises:
        UsageError: not of that form, or a range that runs backwards.
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"{option} '{text}': '{part}' is not a seed", "write seeds as 0-9 or 42,43 or 0-3,10")
        start, end = int(first), int(last) if dash else int(first)
        if end < start:
            raise UsageError(f"{option} '{text}': the range {part.strip()} runs backwards", f"write {end}-{start}")
        if len(seeds) + end - start >= MOST_SEEDS:
            raise UsageError(f"{option} '{text}': more than {MOST_SEEDS:,} seeds")
        seeds += range(start, end + 1)
    if len(set(seeds)) < len(seeds):
        raise UsageError(f"{option} '{text}': a seed stands twice")
    return seeds


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """`key=value` texts as a mapping of dotted keys; values are read as YAML."""
    overrides: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"-s '{pair}': expected key=value", "for example -s budget.log_rounds=3")
        if key in overrides:
            raise UsageError(f"-s {key}: set twice")
        try:
            overrides[key] = _load(value)
        except (yaml.YAMLError, RecursionError) as error:
            if isinstance(error, yaml.MarkedYAMLError) and error.note:
                raise UsageError(f"-s '{pair}': {error.problem}", error.note) from error
            hint = "a value with a colon or bracket in it stands in quotes, and those in quotes of the shell"
            raise UsageError(f"-s '{pair}': the value is not valid YAML", hint) from error
    return overrides


def overridden(data: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of nested `data` with dotted keys set.

    Raises:
        UsageError: a key leads through a value.
    """
    changed: dict[str, Any] = _unshared(data)
    for key, value in overrides.items():
        _override(changed, key, value)
    return changed


def _unshared(data: Any) -> Any:
    """A copy in which what YAML aliases share stands twice, so that setting a key changes one place."""
    if isinstance(data, Mapping):
        return {key: _unshared(value) for key, value in data.items()}
    return [_unshared(value) for value in data] if isinstance(data, list) else data


def _override(data: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        inner = data.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise UsageError(f"-s {key}: '{parent}' is a value, not a group of keys")
        data = inner
    data[last] = value


def _describe(source: Path | str, problem: Problem) -> str:
    line = _line_of(source, problem.place) if isinstance(source, Path) else None
    place = f"{source}, line {line}" if line else str(source)
    return f"{place}: {problem.key}" if problem.key else place


def _line_of(path: Path, loc: tuple[int | str, ...]) -> int | None:
    """The line on which `loc` stands in a YAML file; the nearest enclosing one if it is missing."""
    node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    line = None
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == str(part)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
