"""The command of training: printed by a dry run, and the very same one is run."""

from __future__ import annotations

import json
import sys
from importlib import resources
from pathlib import Path

from automem.train.recipe import Lora

#: Tokens beside a row's cutoff that a server needs to answer.
_REPLY = 4096


def train_command(job: Path, lora: Lora) -> list[str]:
    """Train the job of a file: in one process on the CPU or one GPU, under `accelerate launch` on several."""
    if lora.gpus <= 1:
        return [sys.executable, "-m", "automem.train.sft", str(job)]
    accelerate = Path(sys.executable).with_name("accelerate")
    return [
        str(accelerate) if accelerate.is_file() else "accelerate",
        "launch",
        "--config_file",
        str(accelerate_config(lora)),
        "--num_processes",
        str(lora.gpus),
        "-m",
        "automem.train.sft",
        str(job),
    ]


def longest(base: str, lora: Lora) -> int:
    """The longest prompt and reply, in tokens, that a server of the base needs room for."""
    wanted = lora.cutoff + _REPLY
    config = Path(base) / "config.json"
    if not config.is_file():
        return wanted
    positions = json.loads(config.read_text(encoding="utf-8")).get("max_position_embeddings")
    return min(wanted, positions) if positions else wanted


def accelerate_config(lora: Lora) -> Path:
    """The shipped config of accelerate for so many GPUs and this way to share weights."""
    folder = Path(str(resources.files("automem.train") / "accelerate"))
    if lora.sharding != "none":
        return folder / f"{lora.sharding}.yaml"
    exact = folder / f"gpus-{lora.gpus}.yaml"
    return exact if exact.is_file() else folder / "gpus-8.yaml"
