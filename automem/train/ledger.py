"""`ledger.jsonl`: one row per recipe, appended when everything about it is decided, never changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from automem.play.rows import Rows
from automem.results.plays import Cost
from automem.train.job import Trained
from automem.train.recipe import Recipe

#: `adopted`: it passed the gate and is the best; `rejected`: it was trained and played, and did not pass; `refused`:
#: it could not be trained, for a reason that trying again would not change.
Verdict = Literal["adopted", "rejected", "refused"]


class LedgerRow(BaseModel):
    """A recipe, what was trained by it, and what that scored: progress by `task/seed`.

    `before` are the scores of the best so far on the gate seeds, `after` those of this adapter. `base_report` and
    `report` are those of the base alone and of this adapter on the report seeds; `difference` is their paired
    difference with its interval. `adapter` is the hash of the adapter that was played.
    """

    model_config = ConfigDict(extra="forbid")

    iteration: int
    config: int
    recipe: Recipe
    recipe_digest: str
    engine: str
    reason: str
    data: Literal["reuse", "regenerate"]
    dataset: str = ""
    dataset_digest: str = ""
    rows: int = 0
    held_out_rows: int = 0
    dropped: dict[str, int] = {}
    base: str
    base_digest: str | None = None
    folder: str = ""
    adapter: str = ""
    trained: Trained | None = None
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    gate: dict[str, Any] = {}
    base_report: dict[str, float] = {}
    report: dict[str, float] = {}
    difference: dict[str, Any] = {}
    verdict: Verdict
    why: str
    evaluator: str
    play_cost: Cost = Cost()

    def for_engine(self) -> dict[str, Any]:
        """The row as an engine may see it: nothing of the report seeds, which must not be selected on."""
        hidden = {"base_report", "report", "difference", "play_cost", "evaluator", "folder", "dataset"}
        return self.model_dump(mode="json", exclude=hidden)


class Ledger(Rows[LedgerRow]):
    """The rows of one train folder."""

    def __init__(self, folder: Path) -> None:
        """Read `folder`/ledger.jsonl; a torn last line is dropped.

        Raises:
            UsageError: a row is damaged.
        """
        super().__init__(folder / "ledger.jsonl", LedgerRow)

    def find(self, iteration: int, config: int) -> LedgerRow | None:
        """The row of this slot, if it is decided."""
        return next((row for row in self.rows if (row.iteration, row.config) == (iteration, config)), None)

    def best(self) -> LedgerRow | None:
        """The latest row that was adopted."""
        return next((row for row in reversed(self.rows) if row.verdict == "adopted"), None)
