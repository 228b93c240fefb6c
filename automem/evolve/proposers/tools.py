"""The tools of a proposer's conversation: what it may read and write, each declared once.

A tool is a pydantic model: its docstring and fields are the function schema that the model sees, its
validation is what checks the model's arguments, and `_answer` is what it says. Reading covers the current scaffold
and its run, a failed candidate and its run, and the candidate in the making; writing, the candidate alone.
Whatever a model asks is answered with a text of bounded length; mistakes are answered as `error: …`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from automem.errors import AutoMemError, UsageError, did_you_mean
from automem.evolve.base import Assignment
from automem.evolve.proposers import candidate, views
from automem.models.wire import problem
from automem.play.folder import RunFolder
from automem.scaffold.spec import MAX_FILE, MAX_FILES, load_folder

#: Characters of an answer, and of one line in it.
ANSWER_CHARS = 6_000
LINE_CHARS = 2_000

Which = Literal["current", "failed"]
Written = Literal["current", "failed", "candidate"]
_WHICH = "current: the scaffold to improve; failed: the earlier candidate that did not make it."


class ToolError(Exception):
    """What was wrong with a tool call, as the answer to it."""


class Desk:
    """What the tools of one session work on. `analysis` is set once `finish` has been called."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.output = assignment.output
        self.analysis: str | None = None
        self._overviews: dict[Which, str] = {}

    def run(self, which: Which) -> RunFolder:
        """The run that shows how a scaffold played."""
        if which == "current":
            return self.assignment.run
        failed = self.assignment.failed
        if failed is None:
            raise ToolError("there is no failed candidate in this assignment")
        if failed.run is None:
            raise ToolError(f"the failed candidate was not played: {failed.reason}")
        return failed.run

    def files(self, which: Written) -> dict[str, str]:
        """The texts of a scaffold by path."""
        if which == "current":
            return dict(self.assignment.scaffold.texts)
        if which == "candidate":
            return candidate.texts(self.output)
        if self.assignment.failed is None:
            raise ToolError("there is no failed candidate in this assignment")
        return candidate.texts(self.assignment.failed.folder)

    def overview(self, which: Which) -> str:
        """The episodes of a run; it takes a pass over all traces, so it is kept."""
        run = self.run(which)
        if which not in self._overviews:
            self._overviews[which] = views.episodes(run)
        return self._overviews[which]

    def file(self, which: Written, path: str) -> str:
        """One text of a scaffold."""
        files = self.files(which)
        if path not in files:
            raise ToolError(f"there is no file '{path}': {did_you_mean(path, files)}")
        return files[path]

    def write(self, path: str, text: str) -> str:
        """Write a file of the candidate, whole."""
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise ToolError("the text holds characters that are not Unicode") from None
        if len(data) > MAX_FILE:
            raise ToolError(f"{len(data)} bytes are too many: a file has at most {MAX_FILE}")
        target = self.output / self._own(path)
        if not target.exists() and len(self.files("candidate")) >= MAX_FILES:
            raise ToolError(f"a scaffold has at most {MAX_FILES} files")
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
        return f"wrote {path}, {len(data)} bytes"

    def delete(self, path: str) -> str:
        """Remove a file of the candidate."""
        self.file("candidate", self._own(path))
        (self.output / path).unlink()
        return f"deleted {path}"

    def _own(self, path: str) -> str:
        if not candidate.belongs(path):
            raise ToolError(f"{path[:100]!a} is not a file of a scaffold: write {candidate.LAYOUT}")
        return path


class Tool(BaseModel):
    """A tool: arguments as fields, and what is done with them."""

    model_config = ConfigDict(extra="forbid")

    def _answer(self, desk: Desk) -> str:
        raise NotImplementedError


class _Paged(Tool):
    line: int = Field(1, ge=1, description="The line to start from: long answers come in pages.")


class Diagnosis(Tool):
    """The report on how the current scaffold played."""

    def _answer(self, desk: Desk) -> str:
        return page(desk.assignment.diagnosis.text())


class ListEpisodes(_Paged):
    """All episodes of a run, with their outcome and how memory was used."""

    which: Which = Field("current", description=_WHICH)

    def _answer(self, desk: Desk) -> str:
        return page(desk.overview(self.which), self.line)


class ShowStep(_Paged):
    """One step: what the agent saw, wrote to and read from memory, and did."""

    episode: str = Field(description="Id of the episode, as listed, or its seed.")
    step: int = Field(ge=0, description="Number of the step, from 0.")
    which: Which = Field("current", description=_WHICH)

    def _answer(self, desk: Desk) -> str:
        return page(views.step(desk.run(self.which), self.episode, self.step), self.line)


class SearchTrace(_Paged):
    """The lines of an episode (observations, replies, answers from memory, actions) that contain a text."""

    episode: str = Field(description="Id of the episode, as listed, or its seed.")
    text: str = Field(min_length=1, description="What to look for; case does not matter.")
    which: Which = Field("current", description=_WHICH)

    def _answer(self, desk: Desk) -> str:
        return page(views.search(desk.run(self.which), self.episode, self.text), self.line)


class MemoryAt(_Paged):
    """A memory file as it was when the agent chose its action in a step."""

    episode: str = Field(description="Id of the episode, as listed, or its seed.")
    step: int = Field(ge=0, description="Number of the step, from 0.")
    file: str = Field("", description="Name of the memory file; empty: the list of all files.")
    which: Which = Field("current", description=_WHICH)

    def _answer(self, desk: Desk) -> str:
        return page(views.memory(desk.run(self.which), self.episode, self.step, self.file), self.line)


class ListScaffold(Tool):
    """The files of a scaffold, with their sizes."""

    which: Written = Field("current", description=f"{_WHICH} candidate: what you have written.")

    def _answer(self, desk: Desk) -> str:
        files = desk.files(self.which)
        listed = [f"{path}  {len(text)} characters, {len(text.splitlines())} lines" for path, text in files.items()]
        return page("\n".join(listed) or "(no files)")


class ReadScaffold(_Paged):
    """A file of a scaffold."""

    path: str = Field(description="For example scaffold.yaml or prompts/log.j2.")
    which: Written = Field("current", description=f"{_WHICH} candidate: what you have written.")

    def _answer(self, desk: Desk) -> str:
        return page(desk.file(self.which, self.path), self.line)


class StartFromCurrent(Tool):
    """Make the candidate a copy of the current scaffold, so that you write only what differs."""

    def _answer(self, desk: Desk) -> str:
        candidate.empty(desk.output)
        for path, text in desk.files("current").items():
            desk.write(path, text)
        return f"the candidate is now a copy of {desk.assignment.scaffold.name}: give it a name and parent of its own"


class CopyFile(Tool):
    """Copy one file of the current scaffold into the candidate."""

    path: str = Field(description="For example prompts/plan.j2.")

    def _answer(self, desk: Desk) -> str:
        return desk.write(self.path, desk.file("current", self.path))


class WriteFile(Tool):
    """Write a file of the candidate, whole; one that is there is replaced."""

    path: str = Field(description=f"One of {candidate.LAYOUT}.")
    text: str = Field(description="All that the file is to contain.")

    def _answer(self, desk: Desk) -> str:
        return desk.write(self.path, self.text)


class DeleteFile(Tool):
    """Remove a file from the candidate."""

    path: str = Field(description="For example logic.py.")

    def _answer(self, desk: Desk) -> str:
        return desk.delete(self.path)


class Finish(Tool):
    """The candidate is complete (or, without any file, there is nothing to propose). Ends the session."""

    analysis: str = Field(description="What you saw, with episodes and steps, and why this change answers it.")

    def _answer(self, desk: Desk) -> str:
        if desk.files("candidate"):
            try:
                load_folder(desk.output)
            except UsageError as error:
                told = str(error).replace(f"{desk.output.resolve()}/", "")
                raise ToolError(f"not finished, the candidate does not load: {told}") from None
        desk.analysis = self.analysis
        return "finished"


_TOOLS = (
    Diagnosis, ListEpisodes, ShowStep, SearchTrace, MemoryAt, ListScaffold, ReadScaffold,
    StartFromCurrent, CopyFile, WriteFile, DeleteFile, Finish,
)  # fmt: skip
TOOLS: dict[str, type[Tool]] = {re.sub(r"(?<!^)(?=[A-Z])", "_", tool.__name__).lower(): tool for tool in _TOOLS}
"""Every tool by the name that models call it by."""


def schemas() -> tuple[dict[str, Any], ...]:
    """The OpenAI function schemas of all tools."""
    return tuple(_schema(name, tool) for name, tool in TOOLS.items())


def call(desk: Desk, name: str, arguments: str) -> str:
    """The answer to one tool call as a model wrote it; never raises for what the model got wrong."""
    try:
        answer = _parse(name, arguments)._answer(desk)
    except (ToolError, AutoMemError) as error:
        answer = f"error: {error}"
    return answer if len(answer) <= ANSWER_CHARS + LINE_CHARS else f"{answer[:ANSWER_CHARS]}…"


def page(text: str, first: int = 1) -> str:
    """As many lines of `text` from line `first` (of 1) on as an answer holds; says where to go on."""
    lines = text.split("\n")
    if first > len(lines):
        raise ToolError(f"there are only {len(lines)} lines")
    shown: list[str] = []
    size = 0
    for line in lines[first - 1 :]:
        told = line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]}… (line cut, it has {len(line)} characters)"
        size += len(told) + 1
        if shown and size > ANSWER_CHARS:
            break
        shown.append(told)
    last = first - 1 + len(shown)
    if first == 1 and last == len(lines):
        return "\n".join(shown)
    more = f"; line={last + 1} for more" if last < len(lines) else ""
    return "\n".join([*shown, f"(lines {first}-{last} of {len(lines)}{more})"])


def _parse(name: str, arguments: str) -> Tool:
    if name not in TOOLS:
        raise ToolError(f"there is no tool '{name[:100]}': {did_you_mean(name[:100], TOOLS)}")
    try:
        given = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{name}: the arguments are not valid JSON ({error})") from None
    if not isinstance(given, dict):
        raise ToolError(f"{name}: the arguments must be one JSON object")
    try:
        return TOOLS[name].model_validate(given)
    except ValidationError as error:
        raise ToolError(f"{name}: {_problems(error.errors(include_input=False, include_url=False))}") from None


def _problems(errors: Iterable[Any]) -> str:
    return "; ".join(problem(error) for error in errors)


def _schema(name: str, tool: type[Tool]) -> dict[str, Any]:
    schema = tool.model_json_schema()
    properties = {
        field: {key: value for key, value in described.items() if key != "title"}
        for field, described in schema.get("properties", {}).items()
    }
    parameters = {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": tool.__doc__, "parameters": parameters}}
