"""How much memory training and serving take, roughly, from a model's sizes alone; the formula is in docs/train.md."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from automem.errors import UsageError
from automem.models.adapters import served_rank
from automem.train.recipe import Lora

GIB = 2**30
#: Bytes of an adapter's parameter in training: weight, gradient and two moments of AdamW, each in float32.
_TRAINED = 16
#: Bytes per logit: as computed, its float32 copy, and the gradient; and tokens whose logits exist at a time.
_LOGIT, _CHUNK = 10, 1024
#: What a CUDA context and its allocator take.
_CONTEXT = 1 * GIB


@dataclass(frozen=True)
class Architecture:
    """Sizes of a decoder with grouped-query attention and a gated MLP (Llama, Qwen2, Qwen3, SmolLM2, …)."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocab: int
    tied: bool = False
    head_dim: int | None = None

    @property
    def head(self) -> int:
        """Size of one head."""
        return self.head_dim or self.hidden // self.heads

    def linear(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of each linear layer of a block."""
        attention, shared = self.heads * self.head, self.kv_heads * self.head
        return {
            "q_proj": (self.hidden, attention),
            "k_proj": (self.hidden, shared),
            "v_proj": (self.hidden, shared),
            "o_proj": (attention, self.hidden),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }

    @property
    def parameters(self) -> int:
        """Parameters, norms and biases left out."""
        block = sum(inputs * outputs for inputs, outputs in self.linear().values())
        return self.layers * block + self.vocab * self.hidden * (1 if self.tied else 2)

    def adapter_parameters(self, lora: Lora) -> int:
        """Parameters of a LoRA adapter: rank x (inputs + outputs) of every layer that has one.

        Raises:
            UsageError: a target is no linear layer.
        """
        sizes = self.linear()
        if unknown := [name for name in lora.modules() if name not in sizes]:
            raise UsageError(f"lora.targets: there is no layer '{unknown[0]}'", f"known: {', '.join(sizes)}")
        return self.layers * sum(lora.rank * sum(sizes[name]) for name in lora.modules())


#: By the last part of the name on the hub; from the configs that come with the models.
KNOWN = {
    "Qwen2.5-0.5B-Instruct": Architecture(896, 24, 14, 2, 4864, 151_936, tied=True),
    "Qwen2.5-1.5B-Instruct": Architecture(1536, 28, 12, 2, 8960, 151_936, tied=True),
    "Qwen2.5-3B-Instruct": Architecture(2048, 36, 16, 2, 11_008, 151_936, tied=True),
    "Qwen2.5-7B-Instruct": Architecture(3584, 28, 28, 4, 18_944, 152_064),
    "Qwen2.5-14B-Instruct": Architecture(5120, 48, 40, 8, 13_824, 152_064),
    "Qwen2.5-32B-Instruct": Architecture(5120, 64, 40, 8, 27_648, 152_064),
    "Qwen2.5-72B-Instruct": Architecture(8192, 80, 64, 8, 29_568, 152_064),
    "Qwen3-8B": Architecture(4096, 36, 32, 8, 12_288, 151_936, head_dim=128),
    "Qwen3-32B": Architecture(5120, 64, 64, 8, 25_600, 151_936, head_dim=128),
    "Llama-3.1-8B-Instruct": Architecture(4096, 32, 32, 8, 14_336, 128_256),
    "Llama-3.1-70B-Instruct": Architecture(8192, 80, 64, 8, 28_672, 128_256),
    "SmolLM2-135M-Instruct": Architecture(576, 30, 9, 3, 1536, 49_152, tied=True),
    "SmolLM2-1.7B-Instruct": Architecture(2048, 24, 32, 32, 8192, 49_152, tied=True),
}


def architecture(base: str) -> Architecture | None:
    """The sizes of a base: from its config where it is a folder, else from the table; None if it is in neither."""
    config = Path(base) / "config.json"
    if not config.is_file():
        return KNOWN.get(base.rpartition("/")[2])
    data = json.loads(config.read_text(encoding="utf-8"))
    try:
        return Architecture(
            hidden=data["hidden_size"],
            layers=data["num_hidden_layers"],
            heads=data["num_attention_heads"],
            kv_heads=data.get("num_key_value_heads", data["num_attention_heads"]),
            intermediate=data["intermediate_size"],
            vocab=data["vocab_size"],
            tied=data.get("tie_word_embeddings", False),
            head_dim=data.get("head_dim"),
        )
    except KeyError:
        return None


@dataclass(frozen=True)
class Estimate:
    """Bytes per GPU (or on the CPU). `slot` is the server's room for one adapter: it is of the rank that vLLM rounds up
    to, in all linear layers, whatever the adapter has. `kv` is the cache of one conversation of the longest length.
    """

    weights: int
    adapter: int
    activations: int
    logits: int
    serve_weights: int
    slot: int
    kv: int
    parameters: int
    trainable: int
    where: str
    context: int

    @property
    def train(self) -> int:
        """All that training takes."""
        return self.weights + self.adapter + self.activations + self.logits + self.context

    def __str__(self) -> str:
        parts = [
            f"weights {_gib(self.weights)}",
            f"adapter with gradients and AdamW {_gib(self.adapter)}",
            f"activations {_gib(self.activations)}",
            f"logits {_gib(self.logits)}",
            f"context {_gib(self.context)}",
        ]
        return (
            f"{_count(self.parameters)} parameters, {_count(self.trainable)} more are trained\n"
            f"training takes about {_gib(self.train)} {self.where}: {', '.join(parts)}\n"
            f"serving takes about {_gib(self.serve_weights)} {self.where} for the weights, once, {_gib(self.slot)} for "
            f"each adapter, and {_gib(self.kv)} for each conversation of the longest length"
        )


def estimate(sizes: Architecture, lora: Lora, served: int) -> Estimate:
    """What `lora` on a base of these sizes takes, where conversations of up to `served` tokens are served."""
    gpus = max(1, lora.gpus)
    spread = gpus if lora.sharding != "none" else 1
    width = 2 if lora.gpus else 4
    trainable = sizes.adapter_parameters(lora)
    tokens = lora.batch * lora.cutoff
    # Of one block: its input, q, k, v, attention, their normed copies, and the three of the MLP.
    block = tokens * width * (8 * sizes.hidden + 3 * sizes.intermediate)
    kept = sizes.layers * tokens * width * sizes.hidden + block if lora.checkpointing else sizes.layers * block
    return Estimate(
        weights=sizes.parameters * width // spread,
        adapter=trainable * _TRAINED // spread,
        activations=kept,
        logits=min(tokens, _CHUNK) * sizes.vocab * _LOGIT,
        serve_weights=sizes.parameters * width // gpus,
        slot=sizes.adapter_parameters(_served(lora)) * width // gpus,
        kv=2 * sizes.layers * sizes.kv_heads * sizes.head * width * served // gpus,
        parameters=sizes.parameters,
        trainable=trainable,
        where="per GPU" if lora.gpus else "on the CPU",
        context=_CONTEXT if lora.gpus else 0,
    )


def _served(lora: Lora) -> Lora:
    return lora.model_copy(update={"rank": served_rank(lora.rank), "targets": "ALL"})


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB // 10 else f"{size / 2**20:.1f} MiB"


def _count(number: int) -> str:
    return f"{number / 1e9:.2f} billion" if number >= 1e9 else f"{number / 1e6:.2f} million"
