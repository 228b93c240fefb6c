"""What a model's folder and an adapter's folder say about themselves, read without torch."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from automem.errors import UsageError
from automem.records import read_json

#: The longest header that a safetensors file may have, by its format.
_LONGEST_HEADER = 100_000_000
#: An adapter's files, by PEFT.
ADAPTER_CONFIG, _ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_BASE = "base_model_name_or_path"
_LORA = ("lora_A", "lora_B")
_OTHER = "it was made for another base; adapter_config.json names it"

Shape = tuple[int, ...]


@dataclass(frozen=True)
class AdapterFacts:
    """A LoRA adapter in PEFT's format: `rank` is its largest, `base` what it says it was trained on.

    `shapes` has for each adapted layer the inputs and outputs, by the layer's name in the base.
    """

    folder: Path
    rank: int
    base: str
    shapes: Mapping[str, tuple[int, int]]

    @classmethod
    def read(cls, folder: Path) -> AdapterFacts:
        """The adapter in a folder.

        Raises:
            UsageError: there is none, it is damaged, it is no LoRA, or it changes biases of the base.
        """
        config, weights = _adapter(folder)
        if (kind := config.get("peft_type")) != "LORA":
            raise UsageError(f"{folder}: an adapter of the kind {kind}", "only LORA can be served")
        if (bias := config.get("bias", "none")) != "none":
            raise UsageError(f"{folder}: an adapter with bias: {bias}", "train it with bias: none; vLLM takes no other")
        ranks = [config.get("r"), *config.get("rank_pattern", {}).values()]
        if not all(isinstance(rank, int) and rank > 0 for rank in ranks):
            raise UsageError(f"{folder / ADAPTER_CONFIG}: r must be a positive number, not {ranks[0]!r}")
        return cls(folder, max(ranks), str(config.get(_BASE) or ""), _layers(shapes_in(weights)))

    def check_fits(self, name: str, model: str) -> None:
        """Check that the adapter was made for the base `model`, a folder or a name on the hub.

        Raises:
            UsageError: it was trained on another one, or has layers that are not there or of another size.
        """
        if self.base and not _same(self.base, model):
            raise UsageError(
                f"adapter '{name}' was trained on another base: {self.base}, not {model}",
                f"take {self.base}; if it is the same model, write its name into {self.folder / ADAPTER_CONFIG}",
            )
        if not self.shapes:
            raise UsageError(f"adapter '{name}': {self.folder} holds no LoRA weights", "train it again")
        there = base_shapes(Path(model)) if Path(model).is_dir() else {}
        matrices = {layer: shape for layer, shape in there.items() if len(shape) == 2}
        if not matrices:
            return
        for layer, (inputs, outputs) in self.shapes.items():
            # Embeddings and quantised layers keep other names and shapes: whoever loads them looks at those.
            wanted = matrices.get(f"{layer}.weight")
            if wanted is None and not any(known.startswith(f"{layer}.") for known in matrices):
                raise UsageError(f"adapter '{name}' does not fit {model}: there is no layer {layer}", _OTHER)
            if wanted is not None and wanted not in ((outputs, inputs), (inputs, outputs)):
                sizes = f"{wanted[1]} to {wanted[0]}"
                raise UsageError(
                    f"adapter '{name}' does not fit {model}: {layer} is {sizes} there, {inputs} to {outputs} here",
                    _OTHER,
                )


def _same(told: str, model: str) -> bool:
    """Whether what an adapter says of its base, and a base, may be one model; shapes and probe then decide."""
    there, here = Path(told), Path(model)
    return told == model or there.resolve() == here.resolve() or there.name == here.resolve().name


def adapter_digest(folder: Path) -> str:
    """Hash of an adapter's weights and config, whichever way its base was reached and its layers are listed.

    Raises:
        UsageError: there is no adapter, or its config is damaged.
    """
    config, weights = _adapter(folder)
    told = {key: sorted(value) if _is_names(value) else value for key, value in config.items() if key != _BASE}
    total = blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8)
    with weights.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def _adapter(folder: Path) -> tuple[dict[str, Any], Path]:
    """An adapter's config, and where its weights are."""
    config = _json(folder / ADAPTER_CONFIG, f"no adapter at {folder}", "give a LoRA in PEFT's format")
    weights = folder / _ADAPTER_WEIGHTS
    if not weights.is_file():
        raise UsageError(f"no adapter at {folder}: there is no {weights.name}", "save it as safetensors")
    return config, weights


def _is_names(value: Any) -> bool:
    """Whether this is a list of names, which PEFT keeps as a set and writes in any order."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _layers(found: Mapping[str, Shape]) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of each layer that has both halves of a LoRA."""
    halves: dict[str, dict[str, Shape]] = {}
    for name, shape in found.items():
        parts = name.removeprefix("base_model.model.").split(".")
        half = next((part for part in parts if part in _LORA), None)
        if half and len(shape) == 2:
            halves.setdefault(".".join(parts[: parts.index(half)]), {})[half] = shape
    return {name: (two["lora_A"][1], two["lora_B"][0]) for name, two in halves.items() if len(two) == len(_LORA)}


def shapes_in(path: Path) -> dict[str, Shape]:
    """The shapes of all tensors of a safetensors file, from its header.

    Raises:
        UsageError: it is not one.
    """
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, _LONGEST_HEADER)))
        return {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (struct.error, ValueError, AttributeError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged: its header cannot be read", "copy or train it again") from error


def base_shapes(folder: Path) -> dict[str, Shape]:
    """The shapes of a base's weights; empty where they are not safetensors.

    Raises:
        UsageError: a file is damaged.
    """
    found: dict[str, Shape] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= shapes_in(path)
    return found


def read_config(folder: Path) -> dict[str, Any]:
    """A model's `config.json`.

    Raises:
        UsageError: there is none, or it is damaged.
    """
    return _json(folder / "config.json", f"no model at {folder}", "give a folder as save_pretrained writes it")


def has_chat_template(folder: Path) -> bool:
    """Whether the tokenizer in a folder has a chat template."""
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    path = folder / "tokenizer_config.json"
    return path.is_file() and bool(_json(path, "", "put it right, or bring it back from a copy").get("chat_template"))


def _json(path: Path, missing: str, hint: str) -> dict[str, Any]:
    if not path.exists():
        raise UsageError(f"{missing}: there is no {path.name}", hint)
    data = read_json(path, hint)
    if not isinstance(data, dict):
        raise UsageError(f"{path} is damaged: it holds no keys and values", hint)
    return data
