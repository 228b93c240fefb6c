"""Where a local model is, and the digest that says which weights answered."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from importlib import resources
from pathlib import Path

from automem.errors import UsageError
from automem.models.weights import ADAPTER_CONFIG, adapter_digest

#: Models that are known by a name instead of a path.
SHIPPED = ("pocket", "smollm2")


@dataclass(frozen=True)
class Place:
    """Where a model is: the folder of the base and, if any, that of a LoRA adapter."""

    base: Path
    adapter: Path | None

    @classmethod
    def read(cls, name: str) -> Place:
        """The place that `PATH` or `PATH+ADAPTER` means; PATH may be one of SHIPPED.

        Raises:
            UsageError: no model, or no adapter, is there.
        """
        base, plus, adapter = (name, "", "") if Path(name).is_dir() else name.partition("+")
        folder = _folder(base)
        _demand(
            folder,
            "config.json",
            f"no model at 'local:{base}'",
            f"a folder that transformers can load, or {' or '.join(SHIPPED)}",
        )
        if not plus:
            return cls(folder.resolve(), None)
        if not adapter:
            raise UsageError(
                f"local:{name}: no adapter stands after the +", f"write local:{base}+FOLDER, or local:{base}"
            )
        _demand(Path(adapter), ADAPTER_CONFIG, f"local:{name}: no adapter at '{adapter}'", "a LoRA in PEFT's format")
        return cls(folder.resolve(), Path(adapter).resolve())

    def digest(self) -> str:
        """Hash of weights, configs and tokenizer: the identity of what answers."""
        base = _digest_of(self.base)
        return base if self.adapter is None else f"{base}+{adapter_digest(self.adapter)}"


def _folder(base: str) -> Path:
    if base == "smollm2":
        from automem.models import smollm2

        return smollm2.folder()
    return Path(str(resources.files("automem.models") / base)) if base == "pocket" else Path(base)


def _demand(folder: Path, marker: str, missing: str, wanted: str) -> None:
    if not (folder / marker).is_file():
        raise UsageError(f"{missing}: there is no {folder / marker}", f"give {wanted}")


def _digest_of(folder: Path) -> str:
    """Hash of all weights, configs and tokenizers in a folder."""
    total = blake2b(digest_size=8)
    for path in sorted(folder.iterdir()):
        if path.suffix in (".safetensors", ".json", ".jinja", ".bin"):
            total.update(path.name.encode())
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    total.update(block)
    return total.hexdigest()
