"""The rules of Desk: services and their tokens, cases, documents, requests. No text, no gymnasium."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from random import Random

from .names import DOCUMENTS, FIRST, LAST
from .tasks import PAGE, SERVICES, WORKS, DeskTask


@dataclass(frozen=True)
class Request:
    """What is asked now: `work` (`open` or one of `WORKS`) for the case of `name`; `document` for `attach`."""

    work: str
    name: str
    document: str | None = None


@dataclass
class Case:
    """A case: its number and folder are drawn when the game begins, and issued when it is opened."""

    name: str
    number: str
    folder: str
    document: str
    document_id: str
    opened: bool = False
    done: list[str] = field(default_factory=list)
    attached: str | None = None


class World:
    """One game in progress: everything is drawn from the seed at its start, only tokens when they are issued."""

    def __init__(self, task: DeskTask, seed: int) -> None:
        self.task = task
        draw = Random(f"desk/{seed}/cases")
        people = [f"{first} {last}" for first, last in product(FIRST, LAST)]
        draw.shuffle(people)
        self.cases = {name: _case(draw, name) for name in people[: task.cases]}
        self.strangers = [_case(draw, name) for name in _others(draw, people[task.cases :], task.strangers)]
        self.others = people[task.cases :]
        self.password = f"pw-{_code(draw, 8)}"
        self.requests = _requests(Random(f"desk/{seed}/requests"), list(self.cases.values()), task.works)
        self.tokens: dict[str, str] = {}
        self.served = 0
        self._issue = Random(f"desk/{seed}/tokens")

    @property
    def request(self) -> Request | None:
        """The request to serve now; None when all are served."""
        return self.requests[self.served] if self.served < len(self.requests) else None

    @property
    def solved(self) -> bool:
        """Whether every case is as asked, read from the cases themselves."""
        works = list(WORKS)[: self.task.works]
        return all(
            case.opened and case.done == works and case.attached == case.document_id for case in self.cases.values()
        )

    @property
    def pages(self) -> int:
        """Pages of the register."""
        return max(1, -(-len(self.register()) // PAGE))

    def register(self) -> list[Case]:
        """Open cases of everybody, by number."""
        opened = [case for case in self.cases.values() if case.opened]
        return sorted([*self.strangers, *opened], key=lambda case: case.number)

    def login(self, service: str, password: str) -> str | None:
        """A new token for `service`, or None; an earlier token is no longer valid."""
        if service not in SERVICES[: self.task.services] or password != self.password:
            return None
        self.tokens[service] = f"tk-{_code(self._issue, 12)}"
        return self.tokens[service]

    def valid(self, service: str, token: str) -> bool:
        """Whether `token` is the token of `service`."""
        return self.tokens.get(service) == token

    def open(self, name: str) -> Case | None:
        """Open the case that is requested now; None if it is not that of `name`."""
        if self.request != Request("open", name):
            return None
        self.cases[name].opened = True
        self.served += 1
        return self.cases[name]

    def work(self, work: str, number: str, folder: str, document: str | None = None) -> Case | None:
        """Do `work` on the case that is requested now; None if anything given is not exactly right."""
        request = self.request
        if request is None or request.work != work:
            return None
        case = self.cases[request.name]
        if (number, folder) != (case.number, case.folder) or (work == "attach" and document != case.document_id):
            return None
        case.done.append(work)
        case.attached = document or case.attached
        self.served += 1
        return case


def _case(draw: Random, name: str) -> Case:
    number = f"CS-{draw.randrange(10_000, 100_000)}-{_code(draw, 3).upper()}"
    folder = f"/srv/{_code(draw, 4)}/{draw.randrange(1000, 10_000)}/{name.lower().replace(' ', '-')}"
    return Case(name, number, folder, draw.choice(DOCUMENTS), document_id(draw))


def document_id(draw: Random) -> str:
    """The identifier of a document."""
    return f"DC-{draw.randrange(100_000, 1_000_000)}"


def _others(draw: Random, people: list[str], count: int) -> list[str]:
    return [draw.choice(people) for _ in range(count)]


def _code(draw: Random, length: int) -> str:
    return "".join(draw.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(length))


def _requests(draw: Random, cases: list[Case], works: int) -> list[Request]:
    """All cases are opened first; then a case is drawn and gets its next work, until all have all."""
    order = draw.sample(cases, len(cases))
    requests = [Request("open", case.name) for case in order]
    left = {case.name: list(WORKS)[:works] for case in order}
    documents = {case.name: case.document for case in order}
    while left:
        name = draw.choice(list(left))
        work = left[name].pop(0)
        requests.append(Request(work, name, documents[name] if work == "attach" else None))
        if not left[name]:
            del left[name]
    return requests
