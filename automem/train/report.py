"""The ledger as a table: what each recipe was trained on, and what it scored beside the scaffold alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from automem.results.stats import mean, standard_error
from automem.train.ledger import Ledger, LedgerRow
from automem.train.loop import read_config

TITLES = (
    "recipe", "rows", "tokens", "LoRA", "loss", "held-out loss", "gate %", "report %", "scaffold only %", "difference",
    "verdict", "why",
)  # fmt: skip
_NOTHING = "–"


def ledger_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a train folder as JSON data, with means.

    Raises:
        UsageError: it is not a train folder.
    """
    read_config(folder)
    return [_data(row) for row in Ledger(folder).rows]


def to_json(rows: Sequence[dict[str, Any]]) -> str:
    """`{"rows": [...]}`."""
    return json.dumps({"rows": list(rows)}, indent=2, ensure_ascii=False)


def to_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """A Markdown table, and what a reader must know to read it."""
    lines = [f"| {' | '.join(TITLES)} |", f"|{' --- |' * len(TITLES)}"]
    lines += [f"| {' | '.join(_escaped(cell) for cell in _cells(row))} |" for row in rows]
    notes = [
        "± is one standard error. gate: the best so far -> this adapter, on the gate seeds, which decide.",
        "difference: this adapter - scaffold only, paired on the report seeds, in points, with its "
        f"{_confidence(rows):.0%} interval. tokens: those that were supervised.",
    ]
    return "\n".join(lines) + "\n\n" + "\n".join(notes)


def _data(row: LedgerRow) -> dict[str, Any]:
    data = row.model_dump(mode="json")
    for name in ("before", "after", "base_report", "report"):
        scores = list(getattr(row, name).values())
        data[f"{name}_mean"], data[f"{name}_se"] = mean(scores), standard_error(scores)
    return data


def _cells(row: dict[str, Any]) -> list[str]:
    trained, lora = row["trained"] or {}, row["recipe"]["lora"]
    targets = lora["targets"] if isinstance(lora["targets"], str) else "+".join(lora["targets"])
    return [
        row["recipe"]["name"],
        f"{row['rows'] - row['held_out_rows']:,}" if row["rows"] else _NOTHING,
        f"{trained['supervised_tokens']:,}" if trained else _NOTHING,
        f"r {lora['rank']}, α {lora['alpha']}, lr {lora['learning_rate']:g}, {lora['epochs']} epochs, {targets}",
        _loss(trained.get("train_loss")),
        f"{_loss(trained.get('held_out_before'))} -> {_loss(trained.get('held_out_after'))}",
        f"{_percent(row, 'before')} -> {_percent(row, 'after')}",
        _percent(row, "report"),
        _percent(row, "base_report"),
        _difference(row["difference"]),
        row["verdict"],
        f"{row['why']}; {row['reason']}",
    ]


def _loss(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.3f}"


def _percent(row: dict[str, Any], name: str) -> str:
    value, error = row[f"{name}_mean"], row[f"{name}_se"]
    return _NOTHING if value is None else f"{100 * value:.1f} ± {100 * error:.1f}"


def _difference(found: dict[str, Any]) -> str:
    if not found or found["mean"] is None:
        return _NOTHING
    if found["low"] is None:
        return f"{100 * found['mean']:+.1f}"
    return f"{100 * found['mean']:+.1f} [{100 * found['low']:+.1f}, {100 * found['high']:+.1f}], n = {found['n']}"


def _confidence(rows: Sequence[dict[str, Any]]) -> float:
    found: list[float] = [row["difference"]["confidence"] for row in rows if row["difference"]]
    return found[0] if found else 0.9


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
