"""What the clerk reads: the rules once, then the request and the answer of the last command, with much noise."""

from __future__ import annotations

from random import Random

from .names import CHATTER, DOCUMENTS, NOTICES
from .tasks import PAGE, SERVICES, DeskTask
from .world import Case, Request, World, document_id

_INSTRUCTIONS = """\
You are a clerk at a desk with commands. Requests come one after the other: serve the one that is shown.
Services: {services}. A service wants the token that `login` gave, exactly. A new login ends the token before it.
First all cases are opened. Opening one tells its number and its folder; all later work on it wants both, exactly.
open, {desk}: with the token of desk. {others}
find lists documents of a person, cases lists a page of the register of all open cases, letter shows your \
password again. wait: do nothing.
A name is first name and last name. Arguments are separated by spaces.
Goal: serve all {requests} requests in {horizon} steps."""

_LETTER = """\
Welcome to the office.
Your password: {password}.
It is the same for all services. Keep it to yourself, and keep your workplace tidy. Office hours are from nine to \
five. The archive is in the cellar, the ledger on the second floor, the desk is where you sit. Lunch is at noon. \
Questions about pay go to your superior, questions about paper to the printer. Fire drills are on the first Monday \
of the month; leave by the stairs. Lost keys cost thirty. Dogs are welcome on Fridays if the others agree."""


def instructions(task: DeskTask, works: list[str]) -> str:
    """The rules of `task`, for the system prompt."""
    services = SERVICES[: task.services]
    by_service = {service: [work for work in works if task.service(work) == service] for service in services}
    archive = by_service.setdefault("archive" if task.services > 1 else "desk", [])
    archive[:0] = ["find"]
    others = [f"{', '.join(names)}: with the token of {s}." for s, names in by_service.items() if s != "desk"]
    return _INSTRUCTIONS.format(
        services=", ".join(services),
        desk=", ".join(["cases", *by_service["desk"]]),
        others=" ".join(others),
        requests=task.cases * (1 + task.works),
        horizon=task.horizon,
    )


def letter(world: World) -> str:
    """The letter of welcome, with the password in it."""
    return _LETTER.format(password=world.password)


def observation(world: World, answer: str) -> str:
    """The request of now, then the answer of the last command."""
    total = len(world.requests)
    if world.request is None:
        return f"All {total} requests are served.\n{answer}"
    return f"Request {world.served + 1} of {total}: {_asked(world.request)}.\n{answer}"


def _asked(request: Request) -> str:
    if request.work == "open":
        return f"open a case for {request.name}"
    if request.document:
        return f"attach the {request.document} of {request.name}"
    return f"{request.work} the case of {request.name}"


def issued(case: Case) -> str:
    """What opening a case tells."""
    return f"Case of {case.name}: {case.number}.\nFolder of {case.name}: {case.folder}."


def register_page(world: World, page: int) -> str:
    """One page of the register of open cases."""
    rows = world.register()[(page - 1) * PAGE : page * PAGE]
    lines = [f"{case.number} | {case.name} | {case.folder}" for case in rows]
    return "\n".join([f"Register, page {page} of {world.pages}.", *lines])


def listing(world: World, name: str, draw: Random) -> str:
    """Documents of `name` between those of others."""
    rows = [_document(draw, draw.choice(world.others), draw.choice(DOCUMENTS)) for _ in range(world.task.listing)]
    if case := world.cases.get(name):
        rows += [_document(draw, name, kind) for kind in DOCUMENTS if kind != case.document][:3]
        rows.append(_document(draw, name, case.document, case.document_id))
    draw.shuffle(rows)
    return "\n".join([f"Documents near {name}, {len(rows)} rows.", *rows])


def _document(draw: Random, name: str, kind: str, number: str | None = None) -> str:
    date = f"{draw.randrange(1990, 2026)}-{draw.randrange(1, 13):02d}-{draw.randrange(1, 29):02d}"
    return f"{number or document_id(draw)} | {kind} | {name} | {date} | {draw.randrange(10, 900)} KB"


def noise(task: DeskTask, draw: Random) -> str:
    """The log of a command, sometimes with a notice: nothing in it is ever needed."""
    lines = [_line(draw, draw.choice(NOTICES))] if draw.random() < 0.25 else []
    lines += [_line(draw, draw.choice(CHATTER)) for _ in range(draw.randint(0, 2 * task.log))]
    return "\n".join(lines)


def _line(draw: Random, form: str) -> str:
    code = f"{draw.choice('abcdefgh')}{draw.randrange(16**5):05x}"
    return form.format(number=draw.randrange(2, 9000), code=code)
