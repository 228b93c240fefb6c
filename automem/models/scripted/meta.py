"""`scripted:meta`: a meta-model that reads traces and rewrites a scaffold, through the tools of a proposer.

It follows one plan: the diagnosis, the episodes, a step, the scaffold, what its memory files held; then one
structural edit that follows from what it has seen there. It knows nothing but the conversation: with each call
the plan starts anew, is given the answers so far, and the next call it makes is the reply.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from automem.errors import ModelFailure
from automem.messages import Message, ToolCall
from automem.models.base import Completion, Request, estimate_usage

#: A tool to call, with its arguments.
Call = tuple[str, dict[str, Any]]
Plan = Generator[Call, str, None]

#: Memory files that are looked into, lines of one key that make it a recurring one, values of one subject
#: beyond which it does not serve as a key, and lines that an unbounded log may keep.
_FILES = 6
_RECURRING = 3
_VALUES = 3
_KEEP = 200
#: Sorts of subjects that may get a table of their own, and how an empty file is shown.
_SUBJECTS = ("place", "thing")
_EMPTY = "(empty)"

_EPISODE = re.compile(r"\bs\d+-[0-9a-f]{12}\b")
_STEP = re.compile(r"\bstep (\d+)\b")
_STEPS = re.compile(r"\b(\d+) steps\b")
_MORE = re.compile(r"\n\(lines \d+-\d+ of \d+(?:; line=(\d+) for more)?\)$")
_LINE = re.compile(r"^(?:no )?(.+?)(?: at |: | = | is | \| )(.+?)(?: \| step \d+)?$")
_PLACE = re.compile(r"-?\d+ ?, ?-?\d+")
_ALLOWED = re.compile(r"kinds of change are allowed here: ([a-z, -]+)\.")
_TRIED = re.compile(r"^- (\S+) from ", re.MULTILINE)
_CHECK = "# What the check found wrong\n"
_RAISED = re.compile(r"\b(memory|budget)\.(\w+) is \S+ above the (\d+) it was")
_UNKNOWN_KEY = re.compile(r"unknown key '([\w.-]+)'")
_UNCLAIMED = re.compile(r"change of kind ([a-z-]+)(?: or [a-z-]+)*, which CHANGES.md does not claim")


class MetaModel:
    """The plan as a `Model`: deterministic, and blind to everything but the messages."""

    name = "scripted:meta"

    async def generate(self, messages: Sequence[Message], request: Request) -> Completion:
        """The next tool call of the plan.

        Raises:
            ModelFailure: no tools are offered.
        """
        if not request.tools:
            raise ModelFailure(f"{self.name} works by tools, and none were offered")
        opening = "\n\n".join(m["content"] for m in messages if m["role"] in ("system", "user"))
        answers = [m["content"] for m in messages if m["role"] == "tool"]
        call = _next(opening, answers)
        if call is None:
            return Completion("That is all.", estimate_usage(messages, "That is all."))
        name, arguments = call
        text = json.dumps(arguments, ensure_ascii=False)
        made: ToolCall = {"id": f"call_{len(answers)}", "name": name, "arguments": text}
        return Completion("", estimate_usage(messages, text), finish_reason="tool_calls", tool_calls=(made,))

    async def close(self) -> None:
        """Nothing to give back."""


@dataclass(frozen=True)
class _Idea:
    """A structural edit: the new scaffold.yaml, what to call it, and why."""

    spec: dict[str, Any]
    suffix: str
    title: str
    why: str


def _next(opening: str, answers: Iterable[str]) -> Call | None:
    """The call that follows on `answers`; None after the last."""
    _, _, errors = opening.partition(_CHECK)
    plan = _repair(errors) if errors else _improve(opening)
    try:
        call = next(plan)
        for answer in answers:
            call = plan.send(answer)
    except StopIteration:
        return None
    return call


def _improve(opening: str) -> Plan:
    """Look, decide, write."""
    report = yield "diagnosis", {}
    listed = yield from _whole("list_episodes", {})
    episode, step, last = _place(report, listed)
    yield "show_step", {"episode": episode, "step": step}
    spec = yaml.safe_load((yield from _whole("read_scaffold", {"path": "scaffold.yaml"})))
    prefilled = yield "list_scaffold", {}
    held = {}
    for file in _writable(spec)[:_FILES]:
        asked = {"episode": episode, "step": last, "file": file["name"]}
        held[file["name"]] = (yield from _whole("memory_at", asked)).splitlines()
    seen = f"I read episode {episode}, step {step}, and its memory at step {last}."
    ideas = _ideas(spec, held, prefilled) if "memory-structure" in _allowed(opening) else ()
    tried = _TRIED.findall(opening)
    named = ((f"{spec['name'][:50]}-{idea.suffix}", idea) for idea in ideas)
    name, idea = next((pair for pair in named if pair[0] not in tried), ("", None))
    if idea is None:
        yield "finish", {"analysis": f"{seen} I found no change of memory structure to propose."}
        return
    yield "start_from_current", {}
    rest = {key: value for key, value in idea.spec.items() if key not in ("name", "parent")}
    yield "write_file", _yaml_file({"name": name, "parent": spec["name"], **rest})
    changes = f"# {name}\n\n## memory-structure: {idea.title}\n\n{idea.why} Seen in episode {episode}, step {last}.\n"
    yield "write_file", {"path": "CHANGES.md", "text": changes}
    yield "finish", {"analysis": f"{seen} {idea.why} So: {idea.title}."}


def _repair(errors: str) -> Plan:
    """Mend what the errors name: raised limits, unknown keys, unclaimed changes."""
    source = {"which": "candidate", "path": "scaffold.yaml"}
    spec = yaml.safe_load((yield from _whole("read_scaffold", source)))
    changes = yield from _whole("read_scaffold", {"which": "candidate", "path": "CHANGES.md"})
    mended = []
    for group, key, limit in _RAISED.findall(errors):
        spec[group][key] = int(limit)
        mended.append(f"{group}.{key}")
    for key in _UNKNOWN_KEY.findall(errors):
        _remove_key(spec, key)
        mended.append(key)
    if mended:
        yield "write_file", _yaml_file(spec)
    kinds = [match[1] for match in _UNCLAIMED.finditer(errors)]
    if "has no entry" in errors and not kinds:
        kinds = ["memory-structure"]
    if kinds:
        entries = "".join(f"\n\n## {kind}: what goes with this change\n\nTold by the check." for kind in kinds)
        yield "write_file", {"path": "CHANGES.md", "text": f"{changes.rstrip()}{entries}\n"}
    yield "finish", {"analysis": f"Mended: {', '.join([*mended, *kinds]) or 'nothing that I know how to'}."}


def _whole(tool: str, arguments: dict[str, Any]) -> Generator[Call, str, str]:
    """All pages of an answer."""
    text = yield tool, arguments
    while more := _MORE.search(text):
        text = text[: more.start()]
        if more[1] is None:
            break
        text += "\n" + (yield tool, {**arguments, "line": int(more[1])})
    return text


def _place(report: str, listed: str) -> tuple[str, int, int]:
    """An episode and step that the report names, else the middle of the first; and the episode's last step."""
    episodes = {found[0]: line for line in listed.splitlines() if (found := _EPISODE.search(line))}
    for line in report.splitlines():
        episode, step = _EPISODE.search(line), _STEP.search(line)
        if episode and step and episode[0] in episodes:
            return episode[0], int(step[1]), _last_step(episodes[episode[0]])
    if not episodes:
        return "", 0, 0
    first = next(iter(episodes))
    last = _last_step(episodes[first])
    return first, last // 2, last


def _last_step(line: str) -> int:
    steps = _STEPS.search(line)
    return max(0, int(steps[1]) - 1) if steps else 0


def _allowed(opening: str) -> set[str]:
    allowed = _ALLOWED.search(opening)
    return set(allowed[1].split(", ")) if allowed else {"memory-structure"}


def _writable(spec: Any) -> list[dict[str, Any]]:
    """The declared files that the model writes entries to in LOG."""
    logs = isinstance(spec, dict) and spec.get("operations", {}).get("log")
    files = spec.get("files", []) if logs else []
    return [file for file in files if file["kind"] in ("log", "table")]


def _ideas(spec: Any, held: Mapping[str, Sequence[str]], prefilled: str) -> Iterator[_Idea]:
    """The edits that what was seen speaks for, the most promising first."""
    files = _writable(spec)
    logs = [file for file in files if file["kind"] == "log" and f"memory/{file['name']}" not in prefilled]
    recurring = {file["name"]: _recurring(held.get(file["name"], ())) for file in logs}
    for file in sorted(logs, key=lambda file: -recurring[file["name"]])[:1]:
        if recurring[file["name"]]:
            yield _keyed(spec, file, held[file["name"]])
    unused = [file for file in logs if list(held.get(file["name"], ())) == [_EMPTY]]
    if unused and len(unused) < len(files):
        yield _dropped(spec, unused)
    for file in logs:
        if "keep" not in file:
            yield _capped(spec, file)
    names = " ".join(file["name"] for file in files)
    for file in files:
        rows = len(held.get(file["name"], ()))
        subject = next((subject for subject in _SUBJECTS if subject not in names), None)
        if file["kind"] == "table" and rows >= _RECURRING and subject:
            yield _split(spec, file, rows, subject)


def _keyed(spec: dict[str, Any], file: dict[str, Any], lines: Sequence[str]) -> _Idea:
    """The log becomes a table."""
    key = _key(lines)
    table = {k: v for k, v in file.items() if k not in ("kind", "keep")} | {"kind": "table", "key": key}
    files = [table if other is file else other for other in spec["files"]]
    offered = spec["operations"]["log"]
    gone = set() if any(other["kind"] in ("log", "note") for other in files) else {"APPEND", "WRITE"}
    at = offered.index("APPEND") if "APPEND" in offered else len(offered)
    log = [name for name in [*offered[:at], "UPSERT", *offered[at:]] if name not in gone]
    counts = Counter(subject for subject, _ in _entries(lines))
    subject, count = counts.most_common(1)[0]
    return _Idea(
        {**spec, "files": files, "operations": {**spec["operations"], "log": list(dict.fromkeys(log))}},
        "keyed",
        f"{file['name']} becomes a table keyed by {','.join(key)}",
        f"{file['name']} held {len(lines)} lines about {len(counts)} subjects, {count} of them about '{subject}': "
        "repeated and outdated lines stand beside the newest and push others out.",
    )


def _capped(spec: dict[str, Any], file: dict[str, Any]) -> _Idea:
    """The log keeps its newest lines only."""
    files = [{**other, "keep": _KEEP} if other is file else other for other in spec["files"]]
    why = f"{file['name']} grows without bound, until its size limit refuses what is new."
    return _Idea({**spec, "files": files}, "capped", f"{file['name']} keeps its newest {_KEEP} lines", why)


def _dropped(spec: dict[str, Any], unused: Sequence[dict[str, Any]]) -> _Idea:
    """Logs that nothing was written to go."""
    names = ", ".join(file["name"] for file in unused)
    files = [file for file in spec["files"] if file not in unused]
    why = f"{names} stayed empty to the end: offering them only hides where things are."
    return _Idea({**spec, "files": files}, "lean", f"{names} dropped", why)


def _split(spec: dict[str, Any], file: dict[str, Any], rows: int, subject: str) -> _Idea:
    """A second table, for one sort of subject."""
    files = [*spec["files"], {"name": f"{subject}s.txt", "kind": "table", "key": ["name"]}]
    why = f"{file['name']} holds {rows} rows of all sorts, and one search brings them all."
    return _Idea({**spec, "files": files}, "split", f"{subject}s get a table of their own", why)


def _entries(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Subject and value of the lines of the form `subject at value`."""
    return [(match[1].casefold(), match[2].casefold()) for line in lines if (match := _LINE.match(line))]


def _recurring(lines: Iterable[str]) -> int:
    """How many lines are about a subject that others are about, too; 0 where no subject comes often."""
    counts = Counter(subject for subject, _ in _entries(lines))
    return sum(count for count in counts.values() if count >= _RECURRING)


def _key(lines: Iterable[str]) -> list[str]:
    """The subject; or the place, where subjects stand for kinds of things that are in many places."""
    values = defaultdict(set)
    for subject, value in _entries(lines):
        values[subject].add(value)
    mean = sum(map(len, values.values())) / len(values)
    placed = all(_PLACE.search(value) for found in values.values() for value in found)
    return ["x:int", "y:int"] if mean > _VALUES and placed else ["name"]


def _yaml_file(spec: dict[str, Any]) -> dict[str, Any]:
    return {"path": "scaffold.yaml", "text": yaml.safe_dump(spec, sort_keys=False, allow_unicode=True)}


def _remove_key(data: Any, key: str) -> None:
    """Remove `key` wherever it stands in nested data, in place."""
    if isinstance(data, dict):
        data.pop(key, None)
    for inner in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        _remove_key(inner, key)
