"""The operations: each declared once, and rendered from there into prompt, parser, grammar and tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from automem.errors import did_you_mean
from automem.messages import Phase, ToolCall

Dialect = Literal["tags", "tools"]
ParamKind = Literal["file", "text", "count", "key", "action", "query", "topic"]

_COUNT = re.compile(r"[0-9]{1,9}")
_SURROGATES = re.compile("[\ud800-\udfff]")
# Every repetition is bounded, so that hostile input costs linear time.
_TAG = re.compile(r"<[ \t]{0,3}(\|?)[ \t]{0,3}([A-Za-z]\w{0,30})[ \t]{0,3}(\|?)[ \t]{0,3}([>}\])])", re.ASCII)


@dataclass(frozen=True)
class Operation:
    """One well-formed request of the model: name in upper case, arguments in declared order."""

    name: str
    args: tuple[str, ...]


@dataclass(frozen=True)
class Malformed:
    """A request that cannot be executed: `error` is the answer to the model, `source` what it wrote."""

    error: str
    source: str


@dataclass(frozen=True)
class Located:
    """What `parse` found, and where: it is the reply from `start` up to `end`."""

    found: Operation | Malformed
    start: int
    end: int


@dataclass(frozen=True)
class Param:
    """One argument. `default` is what leaving it out means; None: it must be given."""

    name: str
    kind: ParamKind
    default: str | None = None


@dataclass(frozen=True)
class OperationSpec:
    """An operation as declared. `about` is shown to the model; `phases` are those that may offer it."""

    name: str
    params: tuple[Param, ...]
    about: str
    phases: tuple[Phase, ...]
    reads: bool = False
    writes: bool = False

    @property
    def on_file(self) -> bool:
        """Whether it is about a memory file, which its first argument names."""
        return bool(self.params) and self.params[0].kind == "file"

    def forms(self, dialect: Dialect = "tags") -> str:
        """How to write it, with and without its optional argument."""
        shortest = sum(param.default is None for param in self.params)
        names = [param.name for param in self.params]
        ends = range(shortest, len(names) + 1)
        if dialect == "tools":
            return " or ".join(f"{self.name}({', '.join(names[:end])})" for end in ends)
        return " or ".join(_tag(self.name, names[:end]) for end in ends)


def reads(name: str) -> bool:
    """Whether the operation called `name` asks memory or the archive; `?`, a malformed one, does not."""
    return name in OPERATIONS and OPERATIONS[name].reads


def _declared() -> Iterator[OperationSpec]:
    file, text, key = Param("file", "file"), Param("text", "text"), Param("key", "key")
    keyword, count = Param("keyword", "query"), Param("n", "count")
    line, action = Param("line", "count", default="1"), Param("action", "action")
    always: tuple[Phase, ...] = ("log", "plan", "gameplay")

    def read(name: str, *params: Param, about: str) -> OperationSpec:
        return OperationSpec(name, params, about, always, reads=True)

    def write(name: str, *params: Param, about: str) -> OperationSpec:
        return OperationSpec(name, params, about, ("log",), writes=True)

    yield read("SEARCH", file, keyword, about="the lines of a file that contain the keyword")
    yield read("READ", file, line, about="a file from its first line, or from the given line, on")
    yield read("TAIL", file, count, about="the last n lines of a file")
    yield read("COUNT", file, keyword, about="how many lines of a file contain the keyword")
    yield write("APPEND", file, text, about="add text at the end of a file")
    yield write("WRITE", file, text, about="replace what a file holds by text")
    yield write("CREATE", file, about="start a new empty file")
    yield write("UPSERT", file, key, text, about="put text into the row of a table with this key")
    yield write("DELETE", file, key, about="remove the row of a table with this key")
    yield read("RECALL", Param("query", "topic"), about="past steps that are no longer shown, found by words in them")
    yield OperationSpec("DONE", (), "nothing more to do in this phase", ("log", "plan"))
    yield OperationSpec("ACTION", (action,), "commit this action in the game", ("plan", "gameplay"))


def parse(text: str) -> list[Operation | Malformed]:
    """All operations of a reply in the tags dialect, in written order; prose around them is ignored."""
    return [located.found for located in locate(text)]


def locate(text: str) -> list[Located]:
    """The operations of `parse`, each with its place in the reply."""
    found: list[Located] = []
    opened: re.Match[str] | None = None
    after_done = False
    for tag in _tags(text):
        name = tag[2].upper()
        if name == "END":
            if opened:
                body, source = text[opened.end() : tag.start()], text[opened.start() : tag.end()]
                found.append(Located(_closed(opened, body, source), opened.start(), tag.end()))
            elif after_done:
                if not text[found[-1].end : tag.start()].strip():
                    found[-1] = replace(found[-1], end=tag.end())
            else:
                stray = Malformed("<|END|> closes nothing: no operation is open before it", tag[0])
                found.append(Located(stray, tag.start(), tag.end()))
            opened, after_done = None, False
            continue
        if opened:
            found.append(_cut_short(opened, text[: tag.start()]))
        after_done = name in OPERATIONS and not OPERATIONS[name].params
        opened = None if after_done else tag
        if after_done:
            found.append(Located(Operation(name, ()), tag.start(), tag.end()))
    if opened:
        found.append(_cut_short(opened, text))
    return found


def without(text: str, name: str) -> str:
    """A reply in the tags dialect with every operation called `name` cut out, the rest untouched."""
    kept, position, opened = [], 0, False
    for tag in _tags(text):
        found = tag[2].upper()
        if opened:
            position = tag.end() if found == "END" else tag.start()
        if not opened or found != "END":
            opened = found == name
            if opened:
                kept.append(text[position : tag.start()])
        else:
            opened = False
    return "".join([*kept, "" if opened else text[position:]])


def parse_tool_calls(calls: Sequence[ToolCall]) -> list[Operation | Malformed]:
    """One result for each native tool call, in order; names and JSON arguments are not trusted."""
    return [_from_tool_call(call) for call in calls]


def render(op: Operation) -> str:
    """An operation as tags.

    Raises:
        ValueError: it would not parse back to itself, e.g. because a text looks like a tag.
    """
    plain = Operation(op.name.upper(), tuple(arg.strip() for arg in op.args))
    text = f"<|{plain.name}|>" if not plain.args else _tag(plain.name, plain.args)
    if parse(text) != [plain]:
        raise ValueError(f"cannot be written as tags: {plain}")
    return text


def render_tool_calls(ops: Iterable[Operation]) -> list[ToolCall]:
    """Operations as native tool calls with the ids call_0, call_1, …"""
    calls: list[ToolCall] = []
    for number, op in enumerate(ops):
        pairs = zip(OPERATIONS[op.name].params, op.args, strict=False)
        arguments = {param.name: int(arg) if param.kind == "count" else arg for param, arg in pairs}
        text = json.dumps(arguments, ensure_ascii=False)
        calls.append({"id": f"call_{number}", "name": op.name, "arguments": text})
    return calls


def check(op: Operation) -> str | None:
    """What is wrong with the name or the arguments of an operation, as an answer to the model, or None."""
    spec = OPERATIONS.get(op.name)
    if spec is None:
        return _unknown(op.name)
    if len(op.args) > len(spec.params):
        return f"{op.name} takes {len(spec.params)} arguments, not {len(op.args)}"
    given = (*op.args, *[""] * (len(spec.params) - len(op.args)))
    for param, value in zip(spec.params, given, strict=True):
        if not value.strip():
            if param.default is None or value:
                return f"{op.name} needs {param.name}"
        elif param.kind == "count" and not (_COUNT.fullmatch(value) and int(value)):
            return f"{op.name}: {param.name} must be a positive whole number"
        elif param.kind in ("file", "key") and "|" in value:
            return f"{op.name}: {param.name} may not contain '|'"
    return None


def help_text(names: Iterable[str], dialect: Dialect) -> str:
    """One line for each operation, for the system prompt."""
    return "\n".join(f"{OPERATIONS[name].forms(dialect)}: {OPERATIONS[name].about}" for name in names)


def tool_schemas(names: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """OpenAI function schemas of these operations."""
    return tuple(_schema(OPERATIONS[name]) for name in names)


def reply_pattern(names: Iterable[str], actions: Sequence[str] = ()) -> str:
    r"""A regular expression for replies of one or more of these operations, one a line, and nothing else.

    Plain enough for constrained decoding (no look-around, no back-references, no class escapes). It is
    stricter than `parse`: canonical tags, file names as memory allows them, no `<` inside arguments.
    ACTION takes one of `actions`; with none given, any text.
    """
    one = "|".join(_pattern(OPERATIONS[name], actions) for name in names)
    return f"(?:{one})(?:\\n(?:{one}))*"


@lru_cache(maxsize=64)
def _unknown(name: str) -> str:
    return f"unknown operation {name}: {did_you_mean(name, OPERATIONS)}"


def _tag(name: str, args: Iterable[str]) -> str:
    inner = "|".join(args)
    return f"<|{name}|>{inner}<|END|>" if inner else f"<|{name}|>"


def _tags(text: str) -> Iterator[re.Match[str]]:
    """Everything that opens or closes an operation, sloppily written or with an unknown name."""
    for tag in _TAG.finditer(text):
        before, name, after, brace = tag.groups()
        known = name.upper() in OPERATIONS or name.upper() == "END"
        if (known and (before or brace == ">")) or (before and after and brace == ">"):
            yield tag


def _closed(opening: re.Match[str], body: str, source: str) -> Operation | Malformed:
    name = opening[2].upper()
    spec = OPERATIONS.get(name)
    parts = [part.strip() for part in body.split("|", len(spec.params) - 1)] if spec else []
    while parts and not parts[-1]:
        parts.pop()
    op = Operation(name, tuple(parts))
    error = check(op)
    if error:
        return Malformed(_with_form(error, spec, "tags"), source)
    return op


def _cut_short(opening: re.Match[str], before: str) -> Located:
    """An operation that the end of `before` comes upon unclosed."""
    return Located(_unclosed(opening, before[opening.start() :]), opening.start(), len(before))


def _unclosed(opening: re.Match[str], source: str) -> Malformed:
    name = opening[2].upper()
    spec = OPERATIONS.get(name)
    error = f"{name} is not closed by <|END|>" if spec else _unknown(name)
    return Malformed(_with_form(error, spec, "tags"), source.rstrip())


def _with_form(error: str, spec: OperationSpec | None, dialect: Dialect) -> str:
    return f"{error}. Write {spec.forms(dialect)}" if spec else error


def _from_tool_call(call: ToolCall) -> Operation | Malformed:
    name = call["name"].strip().upper()
    spec = OPERATIONS.get(name)
    source = f"{call['name']}({call['arguments']})"
    if spec is None:
        return Malformed(_unknown(name), source)
    try:
        values = _arguments(spec, call["arguments"])
    except ValueError as error:
        return Malformed(_with_form(f"{name}: {error}", spec, "tools"), source)
    op = Operation(name, values)
    problem = check(op)
    return Malformed(_with_form(problem, spec, "tools"), source) if problem else op


def _arguments(spec: OperationSpec, text: str) -> tuple[str, ...]:
    """The arguments in declared order; ValueError says what is wrong with them."""
    try:
        given = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        raise ValueError("the arguments are not valid JSON") from None
    if not isinstance(given, dict):
        raise ValueError("the arguments must be one JSON object")
    unknown = given.keys() - {param.name for param in spec.params}
    if unknown:
        raise ValueError(f"unknown argument '{min(unknown)}'")
    values = [_value(param, given.get(param.name, param.default or "")) for param in spec.params]
    while values and spec.params[len(values) - 1].name not in given:
        values.pop()
    return tuple(values)


def _value(param: Param, value: object) -> str:
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value).strip()
    # An int key such as a level number is what a careful model would write, whatever the schema says.
    if isinstance(value, int) and not isinstance(value, bool) and param.kind in ("count", "key"):
        return str(value)
    raise ValueError(f"{param.name} must be {'a whole number' if param.kind == 'count' else 'a string'}")


def _schema(spec: OperationSpec) -> dict[str, Any]:
    properties: dict[str, dict[str, Any]] = {}
    for param in spec.params:
        properties[param.name] = {"type": "string", "description": _DESCRIPTIONS[param.kind]}
        if param.kind == "count":
            properties[param.name] |= {"type": "integer", "minimum": 1}
        if param.default is not None:
            properties[param.name]["default"] = int(param.default) if param.kind == "count" else param.default
    parameters = {
        "type": "object",
        "properties": properties,
        "required": [param.name for param in spec.params if param.default is None],
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": spec.name, "description": spec.about, "parameters": parameters},
    }


def _pattern(spec: OperationSpec, actions: Sequence[str]) -> str:
    inner = ""
    for number, param in enumerate(spec.params):
        pattern = _PATTERNS[param.kind]
        if param.kind == "action" and actions:
            pattern = f"(?:{'|'.join(_literal(action) for action in actions)})"
        part = f"\\|{pattern}" if number else pattern
        inner += part if param.default is None else f"(?:{part})?"
    return f"<\\|{spec.name}\\|>{inner}<\\|END\\|>" if inner else f"<\\|{spec.name}\\|>"


def _literal(text: str) -> str:
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


_DESCRIPTIONS: dict[ParamKind, str] = {
    "file": "name of a memory file",
    "text": "what to write down",
    "count": "a positive whole number",
    "key": "which row of the table",
    "action": "one of the game's actions",
    "query": "letters to look for; case does not matter",
    "topic": "names and words that stand in what you look for",
}
_BLANK = r"\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_FREE = f"[^<{_BLANK}][^<]*"
_PATTERNS: dict[ParamKind, str] = {
    "file": "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
    "text": _FREE,
    "count": "[1-9][0-9]{0,8}",
    "key": f"[^<|{_BLANK}][^<|\\n]*",
    "action": _FREE,
    "query": _FREE,
    "topic": _FREE,
}
OPERATIONS: dict[str, OperationSpec] = {spec.name: spec for spec in _declared()}
"""Every operation by name, in the order in which prompts list them."""
