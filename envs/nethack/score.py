"""Progress in NetHack: the best milestone reached so far."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).with_name("progress.csv")


def milestone(dlvl: int, xl: int) -> float:
    """Progress for standing on depth `dlvl` at experience level `xl`; what is not in the table counts nothing."""
    table = _table()
    return max(table.get(("dlvl", dlvl), 0.0), table.get(("xl", xl), 0.0))


@cache
def _table() -> dict[tuple[str, int], float]:
    lines = [line for line in _TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {(row["milestone"], int(row["number"])): float(row["progress"]) for row in csv.DictReader(lines)}
