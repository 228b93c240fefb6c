"""`MlpScorer`: a frozen text encoding with a unit's age, kind and use, through a tiny network. numpy alone runs it.

It has no causal features: a unit's score changes with its age and with how often it was referred to, so units are
scored again from time to time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from automem.errors import UsageError
from automem.evict.counting import words
from automem.evict.identifiers import distinct
from automem.evict.policies.embedding import Encoder, sentence_encoder
from automem.evict.scorer import Provenance
from automem.evict.units import Unit
from automem.records import checked, parsed

#: What is known of a unit besides its text, in the order of the network's inputs.
METADATA = ("age", "references", "rule", "task", "step")
#: An identifier that more units than this mention ties none of them together.
CHAIN = 4
#: Dimensions of the encoding by hashed words.
HASHED = 64

Matrix = NDArray[np.float64]


class Layer(BaseModel):
    """weights (inputs, outputs) and bias (outputs)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: tuple[tuple[float, ...], ...]
    bias: tuple[float, ...]

    @model_validator(mode="after")
    def _fits(self) -> Layer:
        if {len(row) for row in self.weights} != {len(self.bias)}:
            raise ValueError("weights and bias do not fit")
        return self


class MlpScorer(BaseModel):
    """p(keep) = σ(relu(x · hidden) · out), x the encoding and the standardised metadata of a unit.

    `every`: units after which all are scored again. `threshold`: what scores less goes at every eviction, room or
    not. `chain`: units that share an identifier are all worth what the best of them is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    kind: Literal["mlp"] = "mlp"
    encoder: Literal["hashed", "sentence"] = "hashed"
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    hidden: Layer
    out: Layer
    every: int = Field(10, ge=1)
    threshold: float = Field(0.0, ge=0, le=1)
    chain: bool = False
    provenance: Provenance

    @model_validator(mode="after")
    def _shapes(self) -> MlpScorer:
        if not (len(self.mean) == len(self.scale) == len(METADATA) and all(self.scale)):
            raise ValueError("mean and scale do not fit the metadata")
        if len(self.out.weights) != len(self.hidden.bias) or len(self.out.bias) != 1:
            raise ValueError("the layers do not fit")
        return self

    def score(self, encoded: Matrix, metadata: Matrix) -> Matrix:
        """The probability for each unit, from its encoding and its metadata: shape (units,)."""
        inputs = np.concatenate([encoded, (metadata - np.array(self.mean)) / np.array(self.scale)], axis=1)
        if inputs.shape[1] != len(self.hidden.weights):
            raise UsageError(f"the scorer takes {len(self.hidden.weights)} inputs, not {inputs.shape[1]}")
        active = np.maximum(inputs @ np.array(self.hidden.weights) + np.array(self.hidden.bias), 0.0)
        z = (active @ np.array(self.out.weights))[:, 0] + self.out.bias[0]
        kept: Matrix = 1.0 / (1.0 + np.exp(-np.clip(z, -500.0, 500.0)))
        return kept

    def save(self, path: Path) -> None:
        """Write the JSON file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.model_dump_json() + "\n", encoding="utf-8")


def read_mlp(text: str | bytes, source: str) -> MlpScorer:
    """Read a scorer from its JSON text; errors name `source`.

    Raises:
        UsageError: it is none.
    """
    where, hint = f"{source} is not an mlp scorer", "make one: automem evict fit --scorer mlp"
    return checked(MlpScorer, parsed(text, where, hint), where, hint)


def make_encoder(name: Literal["hashed", "sentence"]) -> Encoder:
    """The frozen encoder of a scorer: `hashed` needs nothing, `sentence` is MiniLM (`automem[evict-embed]`)."""
    return hashed_words if name == "hashed" else sentence_encoder()


def hashed_words(texts: list[str]) -> Matrix:
    """Words thrown into buckets by a hash, with a sign, and normed; a word with a digit in it counts as `0`."""
    made = np.stack([_hashed(text) for text in texts]) if texts else np.zeros((0, HASHED))
    normed: Matrix = made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)
    return normed


@lru_cache(maxsize=4096)
def _hashed(text: str) -> Matrix:
    row = np.zeros(HASHED)
    for word in words(text):
        code = crc32(("0" if any(map(str.isdigit, word)) else word).encode("utf-8", "surrogatepass"))
        row[code % HASHED] += 1.0 if code & 2**31 else -1.0
    return row


def metadata(units: Sequence[Unit]) -> Matrix:
    """Age, references and kind of each unit as they are now, with `units` the history so far: shape (units, 5).

    `age` is log(1 + units since), `references` log(1 + later units that mention what it was the first to mention).
    """
    counts = references(units)
    rows = [
        (np.log1p(len(units) - 1 - place), np.log1p(count), *(float(unit.kind == kind) for kind in METADATA[2:]))
        for place, (unit, count) in enumerate(zip(units, counts, strict=True))
    ]
    return np.array(rows, dtype=np.float64).reshape(len(units), len(METADATA))


def references(units: Sequence[Unit]) -> list[int]:
    """For each unit the later units that mention an identifier which it was the first to mention."""
    brought: dict[str, int] = {}
    counts = [0] * len(units)
    for place, unit in enumerate(units):
        held = distinct(unit.text)
        for first in {brought[found] for found in held if found in brought}:
            counts[first] += 1
        for found in held:
            brought.setdefault(found, place)
    return counts


def chained(units: Sequence[Unit], scores: Matrix) -> Matrix:
    """Scores of units of one chain made equal to the best of them; a rare identifier ties units together."""
    mentions: dict[str, list[int]] = {}
    for place, unit in enumerate(units):
        for found in distinct(unit.text):
            mentions.setdefault(found, []).append(place)
    leader = list(range(len(units)))

    def lead(place: int) -> int:
        while leader[place] != place:
            place = leader[place]
        return place

    for places in mentions.values():
        if len(places) <= CHAIN:
            for other in places[1:]:
                leader[lead(other)] = lead(places[0])
    groups = np.array([lead(place) for place in range(len(units))], dtype=np.int64)
    best = np.zeros(len(units))
    np.maximum.at(best, groups, scores)
    raised: Matrix = best[groups]
    return raised
