"""What a scripted policy sees: one prompt, read as text, exactly as a language model would get it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

from automem.errors import ModelFailure
from automem.grammar import Malformed, Operation, parse, parse_tool_calls, render, render_tool_calls
from automem.messages import Message, Phase
from automem.models.base import Completion, Request, estimate_usage

_HEADING = re.compile(r"^# (Observation|Memory|Actions|LOG|PLAN|GAMEPLAY|SUMMARY)\b.*$", re.MULTILINE)
_FILE = re.compile(r"^- (\S+) \((\w+), (\d+) \w+\)", re.MULTILINE)
_ACTION = re.compile(r"^- (.+?)( \(default\))?$", re.MULTILINE)
_OFFERED = re.compile(r"^Operations now: (.+?)\.?$", re.MULTILINE)
_HANDOFF = re.compile(r"^# GAMEPLAY\b", re.MULTILINE)
_STEP = re.compile(r"^# Step (\d+)$")
_RESULT = re.compile(r"^\[\d+\] ", re.MULTILINE)


@dataclass(frozen=True)
class FileEntry:
    """A line of the memory index: file name, kind (`log`, `note`, `table`, …), lines or rows in it."""

    name: str
    kind: str
    lines: int


@dataclass(frozen=True)
class Prompt:
    """One conversation so far, read by its headings.

    `asked` are the operations the model has made in this conversation and `results` the answers to them,
    in the same order; both are empty in the first round.
    """

    phase: Phase
    observation: str
    offered: frozenset[str]
    files: tuple[FileEntry, ...]
    actions: tuple[str, ...]
    default_action: str
    asked: tuple[Operation, ...]
    results: tuple[str, ...]
    request: Request

    def file(self, *kinds: str) -> FileEntry | None:
        """The first memory file of one of `kinds`, in the order of `kinds`."""
        return next((f for kind in kinds for f in self.files if f.kind == kind), None)


class Policy(Protocol):
    """Decides the operations of one reply from one prompt. Keeps nothing between calls."""

    def reply(self, prompt: Prompt) -> list[Operation] | str:
        """The operations to write, in order; a text is sent as it is."""
        ...


class ScriptedModel:
    """A `Policy` as a `Model`: deterministic, instant, and blind to everything but the messages."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.name = f"scripted:{name}"
        self._policy = policy

    async def generate(self, messages: Sequence[Message], request: Request) -> Completion:
        """Answer with the policy's operations, in the dialect that the request asks for."""
        prompt = read_prompt(messages, request)
        operations = first_lines(messages) if prompt.phase == "summary" else self._policy.reply(prompt)
        if isinstance(operations, str):
            return Completion(operations, estimate_usage(messages, operations))
        if request.tools:
            calls = render_tool_calls(operations)
            return Completion("", estimate_usage(messages, str(calls)), tool_calls=tuple(calls))
        text = "\n".join(render(operation) for operation in operations)
        return Completion(text, estimate_usage(messages, text))

    async def close(self) -> None:
        """Nothing to give back."""


def pick(count: int, *of: int) -> int:
    """A number below `count` that looks random but follows from `of`."""
    return crc32(repr(of).encode()) % count


def leaving(messages: Sequence[Message]) -> list[str]:
    """The lines that a summary is to be made of: those of the summary so far, then those of the steps that leave."""
    lines = messages[-1]["content"].partition("\n# SUMMARY")[0].splitlines()
    return [line.removeprefix("> ") for line in lines]


def first_lines(messages: Sequence[Message]) -> str:
    """A summary without a plan: how each step began and what was done, the newest sixty lines."""
    kept = []
    lines = leaving(messages)
    for before, line in zip(["", *lines], lines, strict=False):
        if step := _STEP.match(before):
            kept.append(f"Step {step[1]}: {line}")
        elif line.startswith(("Step ", "You did: ")):
            kept.append(line)
    return "\n".join(kept[-60:])


def read_prompt(messages: Sequence[Message], request: Request) -> Prompt:
    """Read the conversation: system message, the phase's user message, then rounds of reply and results.

    Raises:
        ModelFailure: no message opens a phase.
    """
    system = "\n".join(m["content"] for m in messages if m["role"] == "system")
    openings = [i for i, m in enumerate(messages) if m["role"] == "user" and _phase(m["content"])]
    if not openings:
        raise ModelFailure("a scripted policy needs a prompt with a heading '# LOG', '# PLAN' or '# GAMEPLAY'")
    user = messages[openings[-1]]["content"]
    phase = _phase(user) or request.phase
    # GAMEPLAY goes on with the conversation that PLAN opened.
    start = openings[-2] if phase == "gameplay" and len(openings) > 1 else openings[-1]
    sections = {**_sections(messages[start]["content"]), **_sections(user)}
    actions = _ACTION.findall(_sections(system).get("Actions", ""))
    offered = _OFFERED.findall(user)
    names = offered[-1].split(", ") if offered else []
    asked, results = _rounds(messages[start + 1 :])
    return Prompt(
        phase=phase,
        observation=sections.get("Observation", ""),
        offered=frozenset(names),
        files=tuple(FileEntry(n, k, int(c)) for n, k, c in _FILE.findall(sections.get("Memory", ""))),
        actions=tuple(name for name, _ in actions),
        default_action=next((name for name, mark in actions if mark), ""),
        asked=asked,
        results=results,
        request=request,
    )


def _sections(text: str) -> dict[str, str]:
    """Heading -> text below it; where a heading stands twice, the later one."""
    marks = list(_HEADING.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return {m.group(1): text[m.end() : end].strip() for m, end in zip(marks, ends, strict=True)}


def _phase(text: str) -> Phase | None:
    found: list[Phase] = []
    for mark in _HEADING.finditer(text):
        match mark.group(1):
            case "LOG":
                found.append("log")
            case "PLAN":
                found.append("plan")
            case "GAMEPLAY":
                found.append("gameplay")
            case "SUMMARY":
                found.append("summary")
    return found[-1] if found else None


def _rounds(messages: Sequence[Message]) -> tuple[tuple[Operation, ...], tuple[str, ...]]:
    asked: list[Operation] = []
    results: list[str] = []
    for message in messages:
        if message["role"] == "assistant":
            calls = message.get("tool_calls")
            parsed = parse_tool_calls(calls) if calls else parse(message["content"])
            asked += [Operation("?", ()) if isinstance(p, Malformed) else p for p in parsed]
        elif message["role"] == "tool":
            results.append(message["content"])
        else:
            answers = _HANDOFF.split(message["content"])[0]
            results += [part.strip() for part in _RESULT.split(answers)[1:]]
    return tuple(asked), tuple(results)
