"""Append-only JSON lines: what is decided is written at once, and a torn last line does not count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from automem.errors import RunError
from automem.records import read_line

M = TypeVar("M", bound=BaseModel)

_MEND = "put the line right, or bring the file back from a copy"


class Rows(Generic[M]):
    """The rows of one file, in the order in which they were written; none is ever changed."""

    def __init__(self, path: Path, model: type[M]) -> None:
        """Read what is there; a torn last line is left, it may be one that is being written.

        Raises:
            UsageError: a row is damaged.
        """
        self._path = path
        self._model = model
        self._whole = 0
        self.rows = list(self._read())

    def append(self, row: M) -> None:
        """Write one row behind the whole ones and bring it to the disk.

        Raises:
            RunError: the file cannot be written.
        """
        line = row.model_dump_json().encode() + b"\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.truncate(self._whole)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {error.strerror}", "the same command goes on") from error
        self._whole += len(line)
        self.rows.append(row)

    def _read(self) -> Iterator[M]:
        if not self._path.exists():
            return
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        self._whole = len(whole)
        for number, line in enumerate(whole.splitlines(), 1):
            yield read_line(line, self._model, self._path, number, _MEND)
