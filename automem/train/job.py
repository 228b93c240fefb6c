"""What the training process is given and what it gives back: two JSON files, readable without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from automem.episode import digest
from automem.models.weights import adapter_digest
from automem.records import read_record
from automem.train.recipe import Lora

ReportTo = Literal["none", "trackio", "wandb"]


class Job(BaseModel):
    """Train `lora` on the dataset in folder `dataset`, into folder `out`; `job.json`.

    `base` is what transformers loads: a folder, or a name on the hub; `base_digest` is the hash of its weights, where
    it is a folder. `digests` are those of the dataset's files: a
    file that is not what was verified is refused. `provenance` goes into the adapter's README.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    base: str
    base_digest: str | None = None
    dataset: str
    digests: dict[str, str]
    lora: Lora
    out: str
    report_to: ReportTo = "none"
    provenance: dict[str, Any] = {}

    @property
    def digest(self) -> str:
        """Hash of all that decides what is trained."""
        return digest(self.model_dump(mode="json", include={"base", "base_digest", "digests", "lora"}))[:16]


class Trained(BaseModel):
    """What came of a job; `result.json`. Losses are means per supervised token.

    `changed` is the largest difference of a logit with and without the adapter, on one row; None where the weights
    are spread over GPUs. `cut` rows were shortened at the front of their prompt, `too_long` ones left out.
    """

    model_config = ConfigDict(extra="forbid")

    job: str
    adapter: str
    rows: int
    held_out_rows: int
    cut: int = 0
    too_long: int = 0
    supervised_tokens: int
    tokens: int
    trainable: int
    updates: int
    train_loss: float
    curve: list[tuple[int, float]] = []
    held_out_before: float | None = None
    held_out_after: float | None = None
    held_out_curve: list[tuple[int, float]] = []
    changed: float | None = None
    resumed_at: int | None = None
    seconds: float
    device: str
    versions: dict[str, str] = {}


def read_job(path: Path) -> Job:
    """The job in a file.

    Raises:
        UsageError: there is none, or it is damaged.
    """
    return read_record(path, Job, "delete it: `automem train` writes it anew")


def read_trained(folder: Path, job: Job) -> Trained | None:
    """What came of `job`; None while it is not done, or where another job's result lies there."""
    path = folder / "result.json"
    if not path.is_file():
        return None
    try:
        trained = Trained.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError:
        return None
    if trained.job != job.digest or not (folder / "adapter").is_dir():
        return None
    return trained if adapter_digest(folder / "adapter") == trained.adapter else None
