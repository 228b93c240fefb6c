"""Rendering prompts: a bounded, sandboxed subset of Jinja2 with undefined variables refused.

Templates see `observation`, `state`, `history`, `memory`, `blocks`, `budget`, `phase`, `operations` and
`step`; the system prompt sees only what is the same for the whole episode: `instructions`, `actions`,
`default_action`, `files`, `operations_help`. Partials under `automem/` (observation, memory, actions,
operations) carry the headings that scripted policies and trace readers look for.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Template, TemplateError, TemplateNotFound, TemplateSyntaxError

from automem.errors import ScaffoldFailure
from automem.memory.files import Memory
from automem.scaffold.template import BoundedEnvironment, PromptTooLong

#: `prompts/summary.j2` of scaffolds that have none of their own; it sees `leaving` and `limit` besides.
_SUMMARY = '{% include "automem/summary.j2" %}'

#: What a template at fault may raise, when it is parsed, compiled or rendered.
_RAISED = (
    TemplateError,
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
    SyntaxError,
)


class MemoryView:
    """What a template may see of memory: the index and the text of a file. Nothing that writes."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @property
    def index(self) -> str:
        """One line per file."""
        return self._memory.index()

    def text(self, name: str) -> str:
        """The contents of file `name`."""
        return self._memory.text(name)

    def tail(self, name: str, lines: int) -> str:
        """The last `lines` lines of file `name`."""
        return "\n".join(self._memory.text(name).splitlines()[-lines:])


class Prompts:
    """The templates of one scaffold."""

    def __init__(self, scaffold: str, sources: Mapping[str, str]) -> None:
        self._scaffold = scaffold
        self._environment = BoundedEnvironment({**_partials(), "summary.j2": _SUMMARY, **sources})
        self._templates: dict[str, Template] = {}

    def render(self, name: str, variables: Mapping[str, Any], step: int) -> str:
        """Template `name` with `variables`, without surrounding blank lines.

        Raises:
            ScaffoldFailure: names template, line and step.
        """
        try:
            if name not in self._templates:
                self._templates[name] = self._environment.get_template(name)
            return self._environment.render(self._templates[name], variables).strip()
        except _RAISED as error:
            template, line = _place(error, name)
            hint = "show less: budget.history, or context with a policy and a budget"
            raise ScaffoldFailure(
                f"scaffold '{self._scaffold}': prompts/{template}, line {line}, step {step}: {_what(error)}",
                hint if isinstance(error, PromptTooLong) else None,
            ) from error


@cache
def _partials() -> dict[str, str]:
    folder = resources.files("automem.scaffold") / "partials"
    return {f"automem/{file.name}": file.read_text(encoding="utf-8") for file in folder.iterdir()}


def _place(error: Exception, rendered: str) -> tuple[str, int | str]:
    """The template, perhaps an included one, and the line that raised; Jinja2 rewrites tracebacks to such lines."""
    if isinstance(error, TemplateSyntaxError):
        return error.name or rendered, error.lineno
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(".j2")]
    return (frames[-1].filename, frames[-1].lineno or "?") if frames else (rendered, "?")


def _what(error: Exception) -> str:
    if isinstance(error, TemplateNotFound):
        return f"no template '{error.name}'"
    if isinstance(error, TemplateSyntaxError):
        return error.message or "not a template"
    return str(error) or type(error).__name__
