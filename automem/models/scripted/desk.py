"""`scripted:desk`: plays the environment `desk`, knowing only what stands in its prompt.

It reads the whole conversation as one text and looks for what a command needs by the label before it: `Token for desk:
…`, `Case of Marta Quill: …`, a row of the register or of a listing. The latest such line counts. What is not there has
to be asked for again, at the price of a step and of a long answer: log in anew, go through the register page by page,
list documents; where RECALL is offered, it tries that first. It keeps nothing between calls, so what it can do is what
its context holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from automem.grammar import Operation
from automem.messages import Message
from automem.models.base import Completion, Request, estimate_usage
from automem.models.scripted.base import Prompt, ScriptedModel, leaving, read_prompt

_REQUEST = re.compile(r"^Request \d+ of \d+: (?:open a case for|(attach) the (\w+) of|(\w+) the case of) (.+)\.$", re.M)
_PAGE = re.compile(r"^Register, page (\d+) of (\d+)\.$", re.M)
_NEEDS = re.compile(r"(\w+(?:, \w+)*): with the token of (\w+)\.")
_RULES_END = "\nGoal: "
_PASSWORD = "Your password: "
_LABELS = ("Token for ", "Case of ", "Folder of ", _PASSWORD)
_REFUSED = "error: the token is not valid for "


@dataclass(frozen=True)
class Asked:
    """The request of now: `work` (`open`, `attach`, `approve`, …), for whom, and the kind of document."""

    work: str
    name: str
    document: str | None


class DeskModel(ScriptedModel):
    """The clerk as a model: the policy sees the conversation from its first message to its last."""

    def __init__(self) -> None:
        super().__init__("desk", DeskPolicy(""))

    async def generate(self, messages: Sequence[Message], request: Request) -> Completion:
        """Answer with one command, or with a summary of what commands may need."""
        if read_prompt(messages, request).phase == "summary":
            text = summary(leaving(messages))
            return Completion(text, estimate_usage(messages, text))
        # The marks of a summary are no part of its lines.
        policy = DeskPolicy("\n".join(message["content"] for message in messages).replace("\n> ", "\n"))
        return await ScriptedModel("desk", policy).generate(messages, request)


class DeskPolicy:
    """Decides the next command from `context`, the text of everything in the prompt."""

    def __init__(self, context: str) -> None:
        self._context = context

    def reply(self, prompt: Prompt) -> list[Operation]:
        """DONE in LOG, else the command."""
        if prompt.phase == "log":
            return [Operation("DONE", ())]
        wanted = command(self._context, prompt.observation)
        if "RECALL" in prompt.offered and (query := lost(wanted, prompt.observation)):
            recalled = Operation("RECALL", (query,))
            if recalled not in prompt.asked:
                return [recalled]
        return [Operation("ACTION", (wanted,))]


def summary(lines: Sequence[str]) -> str:
    """The lines by which commands are written, of each label the latest: tokens, cases, folders, the password."""
    kept: dict[str, str] = {}
    for line in lines:
        if line.startswith(_LABELS):
            label = line.partition(": ")[0]
            kept.pop(label, None)
            kept[label] = line
    return "\n".join(kept.values())


def command(context: str, observation: str) -> str:
    """The next command of a clerk who sees `context`, which ends with `observation`."""
    asked = read_request(observation)
    if asked is None:
        return "wait"
    form = _form(context, observation, asked)
    service = _service(context, form.split()[0])
    token = _told(context, f"Token for {service}: ")
    if token is not None and f"{_REFUSED}{service}" not in observation:
        return form.format(token)
    password = _told(context, _PASSWORD)
    return f"login {service} {password}" if password else "letter"


def lost(wanted: str, observation: str) -> str | None:
    """What to RECALL before a command asks the office again for a token, a case or a list; None: nothing is lost."""
    asked = read_request(observation)
    name, *words = wanted.split()
    if asked is None:
        return None
    if name == "login" and f"{_REFUSED}{words[0]}" not in observation:
        return f"Token for {words[0]}"
    return {"cases": f"Case Folder of {asked.name}", "find": f"{asked.document} {asked.name}"}.get(name)


def read_request(observation: str) -> Asked | None:
    """The request in an observation; None when all are served."""
    found = _REQUEST.search(observation)
    return Asked(found[1] or found[3] or "open", found[4], found[2]) if found else None


def _form(context: str, observation: str, asked: Asked) -> str:
    """The command that serves the request, or that asks for what it lacks; `{}` stands for the token."""
    if asked.work == "open":
        return f"open {{}} {asked.name}"
    case = _case(context, asked.name)
    if case is None:
        return f"cases {{}} {_next_page(observation)}"
    form = f"{asked.work} {{}} {' '.join(case)}"
    if asked.document is None:
        return form
    row = _row(context, f" | {asked.document} | {asked.name} | ")
    return f"{form} {row[0]}" if row else f"find {{}} {asked.name}"


def _service(context: str, name: str) -> str:
    """Whose token command `name` needs, by the rules at the beginning of the context."""
    rules = context.partition(_RULES_END)[0]
    needs = {work: match[2] for match in _NEEDS.finditer(rules) for work in match[1].split(", ")}
    return needs.get(name, "desk")


def _case(context: str, name: str) -> tuple[str, str] | None:
    """Number and folder of the case of `name`, as they were issued, or as the register has them."""
    number, folder = (_told(context, f"{what} of {name}: ") for what in ("Case", "Folder"))
    if number and folder:
        return number, folder
    row = _row(context, f" | {name} | /")
    return (row[0], row[2]) if row else None


def _next_page(observation: str) -> int:
    """The page of the register to read next: the one after that in sight, else the first."""
    page = _PAGE.search(observation)
    return int(page[1]) % int(page[2]) + 1 if page else 1


def _told(context: str, label: str) -> str | None:
    """What stands behind the last line that begins with `label`, without its full stop."""
    start = context.rfind(f"\n{label}")
    return _line(context, start + 1).removeprefix(label).removesuffix(".") if start >= 0 else None


def _row(context: str, part: str) -> list[str] | None:
    """The cells of the last row with `part` in it."""
    found = context.rfind(part)
    return _line(context, context.rfind("\n", 0, found) + 1).split(" | ") if found >= 0 else None


def _line(context: str, start: int) -> str:
    end = context.find("\n", start)
    return context[start : end if end >= 0 else len(context)]
