"""`Recipe`: which turns are trained on, and how. Shipped ones are in `recipes/`, each number with its source."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from automem.config import overridden, read_yaml, validate
from automem.episode import digest
from automem.errors import UsageError, did_you_mean

SelectorName = Literal["rules", "judge", "all"]
TurnPhase = Literal["log", "plan"]
TargetSet = Literal["ALL", "ATTN", "QV", "MLP"]

#: Names of sets of linear layers, as the published recipes use them.
TARGETS: dict[TargetSet, tuple[str, ...]] = {
    "ALL": ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    "ATTN": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "QV": ("q_proj", "v_proj"),
    "MLP": ("gate_proj", "up_proj", "down_proj"),
}


class Unfit(UsageError):
    """A recipe that cannot be carried out with these data, or on this base."""


class Selection(BaseModel):
    """Which turns become rows. One-sentence meanings stand with the fields; the rules are in docs/train.md."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    selector: SelectorName = Field("rules", description="Who selects.")
    phases: list[TurnPhase] = Field(["log", "plan"], min_length=1, description="Phases whose turns are taken.")
    horizon: int = Field(10, ge=0, description="rules: steps after a read within which progress must rise.")
    used_share: float = Field(
        0.5, gt=0, le=1, description="rules: share of a turn's writes that must have been of use."
    )
    noop_share: float = Field(0.2, ge=0, lt=1, description="share of a phase's rows in which nothing is done, at most.")
    min_score: int = Field(4, ge=1, le=5, description="judge: the lowest score that is taken.")
    top_episodes: float = Field(1.0, gt=0, le=1, description="Share of the episodes, those of most progress first.")
    min_rows: int = Field(1, ge=1, description="Rows below which a warning is printed.")
    held_out: float = Field(0.1, ge=0, lt=1, description="Share of the episodes held out of training.")
    seed: int = Field(42, ge=0, description="Seed of the split and of the choice of no-ops.")


class Lora(BaseModel):
    """How the adapter is trained."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rank: int = Field(16, ge=1, le=512, description="Rank of the adapter; vLLM serves up to 512.")
    alpha: int = Field(32, ge=1, description="Scale of the adapter; the update is alpha / rank times B·A.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout before the adapter.")
    learning_rate: float = Field(5e-5, gt=0, lt=1, description="Highest learning rate.")
    epochs: int = Field(3, ge=1, le=100, description="Passes over the rows.")
    batch: int = Field(2, ge=1, description="Rows per GPU and forward pass.")
    grad_accum: int = Field(8, ge=1, description="Forward passes per update.")
    gpus: int = Field(1, ge=0, description="GPUs trained on; 0 trains on the CPU.")
    sharding: Literal["none", "fsdp", "zero3"] = Field("none", description="How several GPUs share the weights.")
    cutoff: int = Field(16_384, ge=16, description="Longest row, in tokens.")
    long_rows: Literal["cut", "drop"] = Field(
        "cut", description="Longer rows: cut from the front of the prompt, or dropped. Never cut at the reply."
    )
    scheduler: Literal["cosine", "linear", "constant", "constant_with_warmup"] = Field(
        "cosine", description="How the learning rate falls."
    )
    warmup: float = Field(0.05, ge=0, lt=1, description="Share of the updates in which the learning rate rises.")
    weight_decay: float = Field(0.0, ge=0, le=1, description="Weight decay of AdamW.")
    checkpointing: bool = Field(False, description="Compute activations twice instead of keeping them.")
    save_steps: int = Field(100, ge=1, description="Updates between checkpoints.")
    targets: TargetSet | Annotated[list[str], Field(min_length=1)] = Field(
        "ALL", description="Linear layers with an adapter: ALL, ATTN, QV, MLP or a list of names."
    )
    seed: int = Field(42, ge=0, description="Seed of initial weights, dropout and order.")

    def modules(self) -> list[str]:
        """The names of the layers with an adapter."""
        return list(TARGETS[self.targets]) if isinstance(self.targets, str) else self.targets


class Recipe(BaseModel):
    """What is trained on, and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, description="What the ledger calls it.")
    selection: Selection = Selection()
    lora: Lora = Lora()

    @property
    def digest(self) -> str:
        """Hash of everything but the name."""
        return digest(self.model_dump(mode="json", exclude={"name"}))[:12]


def names() -> list[str]:
    """The shipped recipes."""
    folder = resources.files("automem.train") / "recipes"
    return sorted(Path(file.name).stem for file in folder.iterdir() if file.name.endswith(".yaml"))


def load(name: str, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """The shipped recipe `name`, or that of a YAML file, with dotted keys overridden.

    Raises:
        UsageError: there is none, or a key or value is wrong; the message names it.
    """
    shipped = Path(str(resources.files("automem.train") / "recipes")) / f"{name}.yaml"
    path = shipped if name in names() else Path(name)
    if not path.is_file():
        raise UsageError(f"unknown recipe '{name}'", f"{did_you_mean(name, names())} A path to a YAML file works, too")
    data = read_yaml(path)
    if not overrides:
        return validate(Recipe, data, path)
    return validate(Recipe, overridden(data, overrides), f"{path} with -s {' -s '.join(overrides)}", data)
