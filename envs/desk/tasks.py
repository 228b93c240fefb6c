"""The parameters of a Desk game and the three shipped settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from automem.env import with_options
from automem.errors import UsageError

#: Work that can be asked for a case, in this order, and the service that does it.
WORKS = {"attach": "archive", "approve": "desk", "pay": "ledger", "seal": "archive", "close": "desk"}
#: A game with n services has the first n; the work of a missing one is done by the first.
SERVICES = ("desk", "archive", "ledger")
#: Lines of one page of the register.
PAGE = 40
MOST_SLACK = 1_000


@dataclass(frozen=True)
class DeskTask:
    """One game.

    `cases` are opened first, then each gets the first `works` of `WORKS`, interleaved by chance. `strangers` fill
    the register of cases, `log` is the mean number of log lines that come with an answer, `listing` the lines of
    an archive listing. `slack` is how many times the fewest possible steps a clerk may take.
    """

    cases: int
    works: int
    services: int
    strangers: int
    log: int
    listing: int
    slack: float

    def __post_init__(self) -> None:
        rules = {
            "cases must be 1 to 60": 1 <= self.cases <= 60,
            f"works must be 1 to {len(WORKS)}": 1 <= self.works <= len(WORKS),
            f"services must be 1 to {len(SERVICES)}": 1 <= self.services <= len(SERVICES),
            "strangers must be 0 to 2000": 0 <= self.strangers <= 2000,
            "log must be 0 to 60": 0 <= self.log <= 60,
            "listing must be 4 to 120": 4 <= self.listing <= 120,
            f"slack must be 1 to {MOST_SLACK}": 1 <= self.slack <= MOST_SLACK,
        }
        for rule, kept in rules.items():
            if not kept:
                raise UsageError(f"desk: {rule}", f"given: {self}")

    def service(self, work: str) -> str:
        """The service that does `work`."""
        wanted = WORKS[work]
        return wanted if wanted in SERVICES[: self.services] else SERVICES[0]

    @property
    def shortest(self) -> int:
        """The fewest steps: a login for each service, a listing for each document, one command for each request."""
        return self.services + self.cases * (1 + self.works + 1)

    @property
    def horizon(self) -> int:
        """Steps until the episode is truncated."""
        return int(self.shortest * self.slack)


SETTINGS = {
    "easy": DeskTask(cases=6, works=3, services=1, strangers=120, log=8, listing=24, slack=1.2),
    "medium": DeskTask(cases=12, works=4, services=2, strangers=300, log=12, listing=36, slack=1.15),
    "hard": DeskTask(cases=24, works=5, services=3, strangers=600, log=16, listing=48, slack=1.15),
}
TASKS = tuple(SETTINGS)


def setting(task: str, options: dict[str, Any]) -> DeskTask:
    """The setting of `task` with `options` in place of its own values.

    Raises:
        UsageError: an option that does not exist, of the wrong type or out of range.
    """
    return with_options("desk", SETTINGS[task], options)
