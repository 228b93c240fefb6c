"""What is looked at before a server is started: in seconds, where vLLM would tell in minutes or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from automem.errors import UsageError
from automem.models.adapters import SERVED_RANKS, served_rank
from automem.models.weights import AdapterFacts, has_chat_template, read_config

#: The head sizes that vLLM computes on a CPU: get_supported_head_sizes in its v1/attention/backends/cpu_attn.py, 0.32.
CPU_HEAD_DIMS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def check_base(model: str, cpu: bool) -> None:
    """The base: there, with a chat template, and of a head size that can be computed here.

    A name on the hub is taken as it is: what is wrong with it, vLLM tells.

    Raises:
        UsageError: it cannot be served.
    """
    folder = Path(model)
    if not folder.is_dir():
        if _HUB_NAME.fullmatch(model) and not folder.exists():
            return
        raise UsageError(f"no model at {model}", "give a folder, a name on the hub such as Qwen/Qwen3-8B, or pocket")
    config = read_config(folder)
    if not has_chat_template(folder):
        raise UsageError(f"the tokenizer in {folder} has no chat template", "put a chat_template.jinja there")
    size = config.get("head_dim") or config.get("hidden_size", 0) // max(1, config.get("num_attention_heads", 1))
    if cpu and size and size not in CPU_HEAD_DIMS:
        raise UsageError(
            f"{folder}: head_dim {size} cannot be computed by vLLM on a CPU",
            f"it can {', '.join(map(str, CPU_HEAD_DIMS))}; play it in process instead (local:PATH)",
        )


def check_adapters(model: str, adapters: Mapping[str, Path], limit: int | None) -> int | None:
    """The adapters, against the base and the server's `limit` of ranks; the rank to make room for, or None.

    Raises:
        UsageError: one is missing or damaged, was made for another base, or has too high a rank.
    """
    if limit is not None and limit not in SERVED_RANKS:
        nearest = served_rank(min(limit, SERVED_RANKS[-1]))
        told = f"--max-lora-rank {limit}: vLLM makes room for {', '.join(map(str, SERVED_RANKS))}"
        raise UsageError(told, f"take {nearest}")
    ranks = [limit or 0]
    for name, folder in adapters.items():
        facts = AdapterFacts.read(folder)
        facts.check_fits(name, model)
        highest = limit or SERVED_RANKS[-1]
        if facts.rank > highest:
            higher = f"take --max-lora-rank {served_rank(facts.rank)}" if facts.rank <= SERVED_RANKS[-1] else None
            hint = higher or "--merged OUT serves it merged into the base"
            raise UsageError(f"adapter '{name}' has rank {facts.rank}, over the server's limit {highest}", hint)
        ranks.append(facts.rank)
    return served_rank(max(ranks)) if max(ranks) else None
