"""Reading what people write: YAML files, `-s` overrides, seed lists. Errors name file, line and key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from automem.errors import UsageError, nearest
from automem.problems import Problem, first_problem

#: Seeds of one run at most; more is a typing error.
MOST_SEEDS = 100_000

M = TypeVar("M", bound=BaseModel)


#: Nodes in a YAML file with every alias written out, and characters in a value that is not text.
_NODES = 100_000
_SCALAR = 100


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping.

    Raises:
        UsageError: unreadable, not YAML, or not a mapping; names file and line.
    """
    try:
        data = _load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"{path}, line {line}: {error.problem}", "this is not valid YAML") from error
    except (yaml.YAMLError, ValueError, KeyError) as error:  # the last two: a number or date that is none
        raise UsageError(f"{path}: not valid YAML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deep") from error
    if not isinstance(data, dict):
        raise UsageError(f"{path}: expected keys and values", "start with a line such as `name: …`")
    return data


def _load(text: str) -> Any:
    """The contents of a YAML file, whose aliases must not make it huge and whose keys must stand once."""
    loader = yaml.SafeLoader(text)
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
            raise _refused(root, f"with its aliases written out it has more than {_NODES} values")
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
            rest += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            rest += node.value
        elif len(node.value) > _SCALAR and node.tag.rpartition(":")[2] not in ("str", "binary"):
            raise _refused(node, f"a value of {len(node.value)} characters that is not text")


def _check_keys(node: yaml.MappingNode) -> None:
    """Of two equal keys the later one would silently win."""
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _refused(key, "a key is a word")
        if key.value in seen:
            raise _refused(key, f"key '{key.value}' stands twice")
        seen.add(key.value)


def _refused(node: yaml.Node, what: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark)


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
        except (yaml.YAMLError, ValueError, KeyError, RecursionError) as error:
            raise UsageError(f"-s '{pair}': the value is not valid YAML") from error
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
