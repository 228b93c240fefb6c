"""What is looked at before a server is started: in seconds, where vLLM would tell in minutes or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from automem.errors import UsageError
from automem.models.adapters import SERVED_RANKS, served_rank
from automem.models.weights import AdapterFacts, base_shapes, has_chat_template, read_config

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
        raise UsageError(f"--max-lora-rank {limit}: vLLM makes room for {', '.join(map(str, SERVED_RANKS))}")
    shapes = base_shapes(Path(model)) if adapters and Path(model).is_dir() else {}
    ranks = [limit or 0]
    for name, folder in adapters.items():
        facts = AdapterFacts.read(folder)
        _check_base_of(facts, name, model)
        _check_shapes(facts, name, model, {layer: shape for layer, shape in shapes.items() if len(shape) == 2})
        highest = limit or SERVED_RANKS[-1]
        if facts.rank > highest:
            higher = f"take --max-lora-rank {served_rank(facts.rank)}" if facts.rank <= SERVED_RANKS[-1] else None
            hint = higher or "--merged OUT serves it merged into the base"
            raise UsageError(f"adapter '{name}' has rank {facts.rank}, over the server's limit {highest}", hint)
        ranks.append(facts.rank)
    return served_rank(max(ranks)) if max(ranks) else None


def _check_base_of(facts: AdapterFacts, name: str, model: str) -> None:
    """What the adapter says it was trained on must be the base: the same place, or the same name elsewhere."""
    if not facts.base or _same(facts.base, model):
        return
    raise UsageError(
        f"adapter '{name}' was trained on another base: {facts.base}, not {model}",
        f"serve {facts.base}; if it is the same model, write its name into {facts.folder / 'adapter_config.json'}",
    )


def _same(told: str, model: str) -> bool:
    there, here = Path(told), Path(model)
    if there.is_dir() and here.is_dir():
        # Two places may hold one model; then the shapes and the probe decide.
        return there.resolve() == here.resolve() or there.resolve().name == here.resolve().name
    return told == model or there.name == here.resolve().name


def _check_shapes(facts: AdapterFacts, name: str, model: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Each adapted layer must be there, with the same inputs and outputs."""
    if not facts.shapes:
        raise UsageError(f"adapter '{name}': {facts.folder} holds no LoRA weights", "train it again")
    if not shapes:
        return
    for layer, (inputs, outputs) in facts.shapes.items():
        # Embeddings and quantised layers keep other names and shapes: the server looks at those.
        wanted = shapes.get(f"{layer}.weight")
        if wanted is None and not any(known.startswith(f"{layer}.") for known in shapes):
            raise UsageError(f"adapter '{name}' does not fit {model}: there is no layer {layer}", _OTHER)
        if wanted is not None and wanted not in ((outputs, inputs), (inputs, outputs)):
            sizes = f"{wanted[1]} to {wanted[0]}"
            raise UsageError(
                f"adapter '{name}' does not fit {model}: {layer} is {sizes} there, {inputs} to {outputs} here", _OTHER
            )


_OTHER = "it was made for another base; adapter_config.json names it"
