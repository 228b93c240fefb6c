"""A name is a folder on a search path; a folder counts only with its marker file.

Environments are folders with code (`envs/<name>/__init__.py`), scaffolds folders of text
(`scaffolds/<name>/scaffold.yaml`). Loop 1 writes scaffolds at run time, so both load from anywhere.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from threading import RLock
from types import ModuleType

from automem.errors import UsageError, did_you_mean

PACKAGE = Path(__file__).resolve().parent
#: How the private module names of environments begin.
PRIVATE = "_automem_env_"
# Episodes start in threads of their own; none may see a module that another is still loading.
_LOADING = RLock()


@dataclass(frozen=True)
class PluginKind:
    """What is looked for: the folder that holds such plugins, and the file that marks one."""

    noun: str
    folder: str
    marker: str


ENV = PluginKind("environment", "envs", "__init__.py")
SCAFFOLD = PluginKind("scaffold", "scaffolds", "scaffold.yaml")


def search_path(kind: PluginKind) -> list[Path]:
    """Folders searched, first match wins: $AUTOMEM_PATH, working directory, checkout, installed copy."""
    roots = [Path(p) for p in os.environ.get("AUTOMEM_PATH", "").split(os.pathsep) if p]
    roots += [Path.cwd(), PACKAGE.parent, PACKAGE / "_shipped"]
    return list(dict.fromkeys((root / kind.folder).resolve() for root in roots))


def available(kind: PluginKind) -> dict[str, Path]:
    """Every plugin on the search path, by name, in alphabetical order."""
    found: dict[str, Path] = {}
    for place in search_path(kind):
        if place.is_dir():
            for folder in place.iterdir():
                if _marked(kind, folder):
                    found.setdefault(folder.name, folder)
    return dict(sorted(found.items()))


def find(kind: PluginKind, name: str) -> Path:
    """The folder of plugin `name`; a name with a slash in it is a path.

    Raises:
        UsageError: no such plugin; the hint has the nearest name, or all, and the places searched.
    """
    if os.sep in name:
        return at(kind, Path(name))
    found = available(kind)
    if name in found:
        return found[name]
    if is_folder(kind, f"{name}{os.sep}"):
        raise UsageError(f"unknown {kind.noun} '{name}'", f"a path has a slash in it: {name}{os.sep}")
    hint = did_you_mean(name, found)
    places = ", ".join(str(p) for p in search_path(kind))
    joined = f"{hint} searched" if hint.endswith("?") else f"{hint}; searched"
    raise UsageError(f"unknown {kind.noun} '{name}'", f"{joined}: {places}")


def plain_name(name: str) -> str:
    """The name of a plugin that was asked for by name or by path."""
    return Path(name).name


def is_folder(kind: PluginKind, name: str) -> bool:
    """Whether `name` is a path, and a plugin stands there."""
    return os.sep in name and _marked(kind, Path(name))


def _marked(kind: PluginKind, folder: Path) -> bool:
    try:
        return (folder / kind.marker).is_file()
    except OSError:  # a folder that others may not read, or a name that is too long to be one
        return False


def at(kind: PluginKind, folder: Path) -> Path:
    """The plugin in `folder`, as an absolute path.

    Raises:
        UsageError: there is none.
    """
    if not _marked(kind, folder):
        article = "an" if kind.noun[0] in "aeiou" else "a"
        hint = f"{article} {kind.noun} is a folder with a file {kind.marker}"
        raise UsageError(f"no {kind.noun} at '{folder}'", hint)
    return folder.resolve()


def load_module(folder: Path) -> ModuleType:
    """Import plugin `folder` as a package under a private name, so `envs/crafter` never shadows `crafter`."""
    digest = blake2b(str(folder.resolve()).encode(), digest_size=4).hexdigest()
    name = f"{PRIVATE}{folder.name}_{digest}"
    with _LOADING:
        return sys.modules.get(name) or _import(name, folder)


def _import(name: str, folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with ExitStack() as undo:
        undo.callback(sys.modules.pop, name)
        spec.loader.exec_module(module)
        undo.pop_all()
    return module
