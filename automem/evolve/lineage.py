"""`lineage.jsonl`: one row per proposal, appended when it is decided, never changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from automem.errors import UsageError
from automem.evolve.base import Revision


class Lineage:
    """The rows of one evolve folder, in the order in which they were decided."""

    def __init__(self, folder: Path) -> None:
        """Read `folder`/lineage.jsonl; a torn last line is not read, and cut off when the next row is written.

        Raises:
            UsageError: a row is damaged.
        """
        self._path = folder / "lineage.jsonl"
        self._whole = 0
        self.rows = list(self._read())

    def append(self, row: Revision) -> None:
        """Write one row and bring it to the disk."""
        line = row.model_dump_json().encode() + b"\n"
        with self._path.open("ab") as file:
            file.truncate(self._whole)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._whole += len(line)
        self.rows.append(row)

    def find(self, revision: int, attempt: int, continuation: int) -> Revision | None:
        """The decision about this slot, if there is one; an outage decides nothing."""
        slot = (revision, attempt, continuation)
        rows = [row for row in self.rows if (row.revision, row.attempt, row.continuation) == slot]
        decided = [row for row in rows if row.verdict != "outage"]
        return decided[-1] if decided else None

    def accepted(self) -> list[Revision]:
        """The revisions that became the best, first to last."""
        return [row for row in self.rows if row.verdict == "accepted"]

    def _read(self) -> Iterator[Revision]:
        if not self._path.exists():
            return
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        self._whole = len(whole)
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                yield Revision.model_validate(json.loads(line))
            except (json.JSONDecodeError, ValidationError) as error:
                raise UsageError(f"{self._path}, line {number}: damaged: {error}") from error
