"""Where a local model is, and the digest that says which weights answered."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from importlib import resources
from pathlib import Path

from automem.errors import UsageError

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
        whole, base, adapter = name, *name.partition("+")[::2]
        if Path(whole).is_dir():
            base, adapter = whole, ""
        folder = _folder(base)
        _demand(folder, "config.json", f"local:{base}", "a folder that transformers can load, pocket or smollm2")
        if adapter:
            _demand(Path(adapter), "adapter_config.json", f"+{adapter}", "a LoRA adapter in PEFT's format")
        return cls(folder.resolve(), Path(adapter).resolve() if adapter else None)

    def digest(self) -> str:
        """Hash of all weights, configs and tokenizers: the identity of what answers."""
        return digest_of(self.base) if self.adapter is None else f"{digest_of(self.base)}+{digest_of(self.adapter)}"


def _folder(base: str) -> Path:
    if base == "smollm2":
        from automem.models import smollm2

        return smollm2.folder()
    return Path(str(resources.files("automem.models") / base)) if base == "pocket" else Path(base)


def _demand(folder: Path, marker: str, what: str, wanted: str) -> None:
    if not (folder / marker).is_file():
        raise UsageError(f"no model at '{what}': there is no {folder / marker}", f"give {wanted}")


def digest_of(folder: Path) -> str:
    """Hash of all weights, configs and tokenizers in a folder."""
    total = blake2b(digest_size=8)
    for path in sorted(folder.iterdir()):
        if path.suffix in (".safetensors", ".json", ".jinja", ".bin"):
            total.update(path.name.encode())
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    total.update(block)
    return total.hexdigest()
