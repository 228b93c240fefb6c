"""Merged weights: a base and one adapter become one model, for servers that know no adapters."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path

from automem.errors import RunError, UsageError
from automem.models.companions import hide_broken
from automem.models.weights import AdapterFacts

#: Which base and adapter a folder was merged from.
MARK = "merged.json"
_WEIGHTS = ("adapter_config.json", "adapter_model.safetensors")


def merge(model: str, adapter: Path, out: Path, tell: Callable[[str], None]) -> None:
    """Write the base `model` with `adapter` merged into it to `out`, tokenizer and all; whole or not there.

    What was merged from the same files before is taken as it is.

    Raises:
        UsageError: `out` holds something else, or torch or PEFT is missing.
        RunError: it cannot be written, or the adapter changes nothing.
    """
    facts = AdapterFacts.read(adapter)
    mark = {"base": model, "adapter": str(adapter.resolve()), "digests": _digests(adapter)}
    if _holds(out, mark):
        tell(f"{out} holds this merge already")
        return
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"--merged {out}: the folder holds something else", "choose a new folder")
    tell(f"merging rank {facts.rank} into {model}")
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        _write(model, adapter, part)
        (part / MARK).write_text(json.dumps(mark, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        part.rename(out)
    except OSError as error:
        raise RunError(
            f"cannot write {out}: {error.strerror or error}", "make room; the same command tries again"
        ) from (error)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(model: str, adapter: Path, folder: Path) -> None:
    hide_broken()
    try:
        from peft import PeftModel
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise UsageError(f"merging needs {error.name}", "pip install 'automem[local]'") from None
    base = AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    whole = PeftModel.from_pretrained(base, str(adapter))
    layer = next(part for part in whole.modules() if hasattr(part, "get_delta_weight"))
    before = layer.get_base_layer().weight.detach().clone()
    whole = whole.merge_and_unload()
    if bool((layer.get_base_layer().weight == before).all()):
        raise RunError(f"the adapter {adapter} changes no weight of {model}", "it was not trained, or is too weak")
    whole.save_pretrained(folder)
    if Path(model).is_dir():
        _copy_tokenizer(Path(model), folder)
    else:
        AutoTokenizer.from_pretrained(model).save_pretrained(folder)


def _copy_tokenizer(model: Path, folder: Path) -> None:
    """As it is: read and saved again, a tokenizer may become another one."""
    for path in model.iterdir():
        wanted = path.suffix in (".json", ".jinja", ".txt", ".model") and not path.name.endswith(".index.json")
        if wanted and not (folder / path.name).exists():
            shutil.copyfile(path, folder / path.name)


def _holds(out: Path, mark: Mapping[str, object]) -> bool:
    path = out / MARK
    return path.is_file() and bool(json.loads(path.read_text(encoding="utf-8")) == mark)


def _digests(adapter: Path) -> dict[str, str]:
    return {name: blake2b((adapter / name).read_bytes(), digest_size=12).hexdigest() for name in _WEIGHTS}
