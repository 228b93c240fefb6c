"""The commands of training and serving: printed by a dry run, and the very same ones are run."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

from automem.train.recipe import Lora

#: The ranks that vLLM makes room for; without `--max-lora-rank` it is 16.
SERVED_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
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


def serve_command(base: str, adapter: Path, lora: Lora) -> list[str]:
    """Serve base and adapter with vLLM, one copy of the weights; the adapter answers as model `memory`."""
    return [
        "vllm",
        "serve",
        base,
        "--enable-lora",
        "--max-lora-rank",
        str(served_rank(lora.rank)),
        "--lora-modules",
        f"memory={adapter}",
        "--max-model-len",
        str(lora.cutoff + _REPLY),
        "--tensor-parallel-size",
        str(max(1, lora.gpus)),
    ]


def served_rank(rank: int) -> int:
    """The smallest rank that vLLM makes room for and that holds `rank`."""
    return next(served for served in SERVED_RANKS if served >= rank)


def accelerate_config(lora: Lora) -> Path:
    """The shipped config of accelerate for so many GPUs and this way to share weights."""
    folder = Path(str(resources.files("automem.train") / "accelerate"))
    if lora.sharding != "none":
        return folder / f"{lora.sharding}.yaml"
    exact = folder / f"gpus-{lora.gpus}.yaml"
    return exact if exact.is_file() else folder / "gpus-8.yaml"
