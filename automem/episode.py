"""`EpisodeSpec`: what to play. Frozen; its `id` is a hash of its contents."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from automem.messages import Role


class Limits(BaseModel):
    """Hard stops of one episode. Steps end it (truncated); the others fail it (`limit`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_steps: int | None = Field(None, ge=1, description="Steps played at most; None: the env's own limit.")
    max_calls: int | None = Field(None, ge=1, description="Model calls at most.")
    max_tokens: int | None = Field(None, ge=1, description="Prompt and completion tokens at most.")


class ModelSpec(BaseModel):
    """A model by name, with the settings that change its answers (never its address or its key)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="`scripted:NAME`, `replay:RUN`, `openai:MODEL`, …")
    settings: dict[str, Any] = Field(default_factory=dict, description="Sampling settings, e.g. temperature.")


class EpisodeSpec(BaseModel):
    """One episode to play: env, task, seed, scaffold by digest, models by role, limits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    env: str = Field(description="Name of the environment.")
    task: str = Field(description="Name of the task in it.")
    options: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the environment.")
    seed: int = Field(ge=0, description="Seed of the environment.")
    scaffold: str = Field(description="Name of the scaffold.")
    scaffold_digest: str = Field(description="Hash of the scaffold's files.")
    models: dict[Role, ModelSpec] = Field(description="Which model plays which role.")
    limits: Limits = Limits()
    repeat: int = Field(0, ge=0, description="The same episode once more, with other sampling seeds.")

    @property
    def id(self) -> str:
        """The seed, for people, and a hash of everything: `s42-0f3a91c2d4e5`."""
        return f"s{self.seed}-{digest(self.model_dump(mode='json'))[:12]}"

    @property
    def place(self) -> tuple[str, str, int]:
        """Where the episode is played: (env, task, seed). What paired comparisons pair by."""
        return self.env, self.task, self.seed

    def sampling_seed(self, step: int, call: int) -> int:
        """A seed for the sampler of one call: the same in any process and after any resume."""
        key = f"{self.env}/{self.task}/{self.seed}/{self.scaffold_digest}/{self.repeat}/{step}/{call}"
        return int.from_bytes(blake2b(key.encode(), digest_size=4).digest()) & 0x7FFFFFFF


def digest(data: Any) -> str:
    """Hex digest of JSON data, independent of key order."""
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def text_digest(text: str) -> str:
    """Short hex digest of a text, e.g. of an observation."""
    return blake2b(text.encode(), digest_size=8).hexdigest()
