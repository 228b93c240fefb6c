"""`lineage.jsonl`: one row per proposal, appended when it is decided, never changed."""

from __future__ import annotations

from pathlib import Path

from automem.evolve.base import Revision
from automem.play.rows import Rows


class Lineage(Rows[Revision]):
    """The rows of one evolve folder, in the order in which they were decided."""

    def __init__(self, folder: Path) -> None:
        """Read `folder`/lineage.jsonl; a torn last line does not count.

        Raises:
            UsageError: a row is damaged.
        """
        super().__init__(folder / "lineage.jsonl", Revision)

    def find(self, revision: int, attempt: int, continuation: int) -> Revision | None:
        """The decision about this slot, if there is one; an outage decides nothing."""
        slot = (revision, attempt, continuation)
        rows = [row for row in self.rows if (row.revision, row.attempt, row.continuation) == slot]
        decided = [row for row in rows if row.verdict != "outage"]
        return decided[-1] if decided else None

    def accepted(self) -> list[Revision]:
        """The revisions that became the best, first to last."""
        return [row for row in self.rows if row.verdict == "accepted"]
