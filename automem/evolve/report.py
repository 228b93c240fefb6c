"""The lineage as a table: what was proposed, what became of it, what it cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from automem.evolve.base import Revision
from automem.evolve.lineage import Lineage
from automem.evolve.loop import read_config
from automem.text import printable

TITLES = (
    "revision", "scaffold", "changes", "before %", "after %", "verdict", "why", "calls", "tokens in", "tokens out",
    "cached", "seconds",
)  # fmt: skip


def lineage_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of an evolve folder as JSON data, with means and the cost of proposal and play together.

    Raises:
        UsageError: it is not an evolve folder.
    """
    read_config(folder)
    return [_data(row) for row in Lineage(folder).rows]


def to_json(rows: Sequence[dict[str, Any]]) -> str:
    """`{"rows": [...]}`."""
    return json.dumps({"rows": list(rows)}, indent=2, ensure_ascii=False)


def to_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(TITLES)} |", f"|{' --- |' * len(TITLES)}"]
    lines += [f"| {' | '.join(_escaped(cell) for cell in _cells(row))} |" for row in rows]
    return "\n".join(lines)


def _data(row: Revision) -> dict[str, Any]:
    data = row.model_dump(mode="json")
    data["before_mean"] = fmean(row.before.values()) if row.before else None
    data["after_mean"] = fmean(row.after.values()) if row.after else None
    data["cost"] = (row.proposal_cost + row.play_cost).model_dump()
    return data


def _cells(row: dict[str, Any]) -> list[str]:
    cost = row["cost"]
    slot = f"{row['revision']}.{row['attempt']}{'+' * row['continuation']}"
    return [
        slot,
        row["scaffold"] or "–",
        "; ".join(f"{change['kind']}: {change['title']}" for change in row["changes"]) or "–",
        _percent(row["before_mean"]),
        _percent(row["after_mean"]),
        row["verdict"],
        row["reason"],
        f"{cost['calls']:,}",
        f"{cost['tokens_in']:,}",
        f"{cost['tokens_out']:,}",
        f"{cost['tokens_cached']:,}",
        f"{cost['seconds']:.1f}",
    ]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _escaped(text: str) -> str:
    return printable(" ".join(text.split())).replace("\\", "\\\\").replace("|", "\\|")
