"""What pydantic found wrong, in plain words: the key as it stands in the file, and the nearest that there is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from automem.errors import did_you_mean, nearest

Place = tuple[int | str, ...]

#: Marks that pydantic puts before what the validators of a model themselves say.
_PREFIXES = ("Value error, ", "Assertion failed, ")
_QUOTED = re.compile(r"'([^']*)'")
#: Errors about what kind of value it is -> what it should be; pydantic's words name classes.
_WANTED = {
    "dict_type": "keys and values",
    "mapping_type": "keys and values",
    "model_type": "keys and values",
    "model_attributes_type": "keys and values",
    "dataclass_type": "keys and values",
    "union_tag_not_found": "keys and values",
    "list_type": "a list",
    "tuple_type": "a list",
    "string_type": "text",
}
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (dict, "keys and values"),
    ((list, tuple, set), "a list"),
    (str, "text"),
    (bool, "true or false"),
    ((int, float), "a number"),
    (type(None), "nothing"),
)


@dataclass(frozen=True)
class Problem:
    """What is wrong at one `place` of some data; of what stands there it tells no more than the kind."""

    place: Place
    what: str
    hint: str | None = None
    missing: bool = False

    @property
    def key(self) -> str:
        """The place as a dotted key; empty for the data as a whole."""
        return ".".join(map(str, self.place))

    def __str__(self) -> str:
        return f"{self.key}: {self.what}" if self.place else self.what


def said(entry: Mapping[str, Any]) -> str:
    """The message of one entry of a pydantic error, without the mark that a validator of our own said it."""
    message = str(entry["msg"])
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    return message


def first_problem(error: ValidationError, model: type[BaseModel] | None = None, data: Any = None) -> Problem:
    """What to mend first. `model` and `data`, where at hand, tell known keys and which parts of a place are keys."""
    entries = error.errors(include_url=False)
    # A misspelled key makes two errors, and the one that it is missing would hide its cause.
    chosen = next((entry for entry in entries if entry["type"] in ("extra_forbidden", "invalid_key")), None)
    return _problem(chosen or _deepest(entries, data), model, data)


def kind_of(value: Any) -> str:
    """What a value is, for people: a list, text, a number, …"""
    return next((word for kind, word in _KINDS if isinstance(value, kind)), type(value).__name__)


def _deepest(entries: list[Any], data: Any) -> Any:
    """The first entry; of a value that fits no arm of a union, that about the arm which it fits best."""
    first = _place(entries[0], data)
    about_it = [entry for entry in entries if _place(entry, data)[: len(first)] == first]
    return max(about_it, key=lambda entry: len(_place(entry, data)))


def _place(entry: Mapping[str, Any], data: Any) -> Place:
    """Where an entry is about, without the names that pydantic puts in for the arms of a union."""
    loc: Place = entry["loc"]
    if data is None:
        return loc
    place: list[int | str] = []
    for number, part in enumerate(loc):
        if _has(data, part):
            data = data[part]
        elif not (entry["type"] == "missing" and number == len(loc) - 1):
            continue
        place.append(part)
    return tuple(place)


def _has(data: Any, part: int | str) -> bool:
    if isinstance(data, Mapping):
        return part in data
    return isinstance(data, list | tuple) and isinstance(part, int) and part < len(data)


def _problem(entry: Mapping[str, Any], model: type[BaseModel] | None, data: Any) -> Problem:
    place, kind, context = _place(entry, data), entry["type"], entry.get("ctx", {})
    if kind == "extra_forbidden":
        wrong = str(entry["loc"][-1])
        known = _known_keys(model, entry["loc"][:-1])
        return Problem(place, f"unknown key '{wrong}'", did_you_mean(wrong, known) if known else None)
    if kind == "missing":
        return Problem(place, "this key is missing", missing=True)
    if kind in ("union_tag_invalid", "union_tag_not_found") and isinstance(entry["input"], Mapping):
        return _of_tag(place, context, model, entry)
    if kind in _WANTED:
        found = kind_of(entry["input"])
        quotes = "write it in quotes" if kind == "string_type" and found in ("a number", "true or false") else None
        return Problem(place, f"expected {_WANTED[kind]}, here is {found}", quotes)
    if kind == "too_short":
        return Problem(place, f"it needs at least {context['min_length']}")
    if kind == "invalid_key" or entry["loc"][-1:] == ("[key]",):
        return Problem(place, f"this is no name here: {_lower(said(entry))}")
    return Problem(place, _lower(said(entry)), _nearest_choice(entry) or _meaning(model, entry["loc"]))


def _of_tag(
    place: Place, context: Mapping[str, Any], model: type[BaseModel] | None, entry: Mapping[str, Any]
) -> Problem:
    """The key that decides which of several models is meant is missing, or has a value of none."""
    key = str(context["discriminator"]).strip("'")
    if entry["input"].get(key) is not None:
        tag = str(context["tag"])
        return Problem(
            (*place, key), f"unknown value '{tag}'", did_you_mean(tag, _QUOTED.findall(context["expected_tags"]))
        )
    tags = [tag for arm in _at(model, entry["loc"]) for tag in _tags(arm, key)]
    return Problem(
        (*place, key), "this key is missing", f"it is one of {', '.join(tags)}" if tags else None, missing=True
    )


def _nearest_choice(entry: Mapping[str, Any]) -> str | None:
    """A hint for a value that is none of those that there are, where one is near."""
    if entry["type"] not in ("literal_error", "enum") or not isinstance(entry["input"], str):
        return None
    close = nearest(entry["input"], _QUOTED.findall(entry["ctx"]["expected"]))
    return f"did you mean '{close}'?" if close else None


def _meaning(model: type[BaseModel] | None, loc: Place) -> str | None:
    """What the field at `loc` below `model` says of itself."""
    fields = [arm.model_fields.get(loc[-1]) for arm in _at(model, loc[:-1]) if _is_model(arm)] if loc else []
    return next((field.description for field in fields if field and field.description), None)


def _known_keys(model: type[BaseModel] | None, loc: Place) -> list[str]:
    """The keys that are known at `loc` below `model`."""
    return [name for arm in _at(model, loc) if _is_model(arm) for name in arm.model_fields]


def _at(model: type[BaseModel] | None, loc: Place) -> list[Any]:
    """The types that may stand at `loc` below `model`."""
    found: list[Any] = [model]
    for part in loc:
        found = [arm for one in found for below in _below(one, part) for arm in _arms(below)]
    return found


def _below(annotation: Any, part: int | str) -> Iterator[Any]:
    if _is_model(annotation):
        if part in annotation.model_fields:
            yield annotation.model_fields[part].annotation
        elif part == annotation.__name__ or part in _tags(annotation):
            yield annotation
    elif get_origin(annotation) is dict:
        yield get_args(annotation)[1]
    elif get_origin(annotation) in (list, tuple):
        yield get_args(annotation)[0]


def _arms(annotation: Any) -> Iterator[Any]:
    """The types that a union is of; a type that is none by itself."""
    if get_origin(annotation) is Annotated:
        yield from _arms(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for arm in get_args(annotation):
            yield from _arms(arm)
    else:
        yield annotation


def _tags(model: Any, key: str | None = None) -> list[str]:
    """The values of a model's literal fields, or of its field `key`: by one of them it is told from others."""
    if not _is_model(model):
        return []
    fields = [field for name, field in model.model_fields.items() if key in (None, name)]
    return [tag for field in fields if get_origin(field.annotation) is Literal for tag in get_args(field.annotation)]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]
