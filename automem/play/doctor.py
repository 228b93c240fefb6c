"""What `automem doctor` looks at."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from automem import env as envs
from automem import plugins
from automem.errors import AutoMemError
from automem.play import provenance
from automem.scaffold.logic import Logic
from automem.scaffold.spec import load_folder

#: Optional package -> what it is for.
_OPTIONAL = {
    "crafter": "the environment crafter",
    "pyarrow": "trace export to parquet",
    "torch": "local models and training",
    "vllm": "serving models on this machine",
}


@dataclass(frozen=True)
class Finding:
    """One thing looked at; what is not `needed` may be missing."""

    what: str
    ok: bool
    detail: str
    needed: bool = True


def examine() -> list[Finding]:
    """Look at the installation."""
    return [*_versions(), _sandbox(), *_environments(), *_scaffolds(), *_optional()]


def _versions() -> Iterator[Finding]:
    versions = ", ".join(f"{name} {version}" for name, version in provenance.versions().items())
    yield Finding("python", sys.version_info >= (3, 11), sys.version.split()[0])
    yield Finding("packages", True, versions)
    yield Finding("installed at", True, str(plugins.PACKAGE))


def _sandbox() -> Finding:
    try:
        answer = Logic("doctor", "def repair(action):\n    return action.upper()\n").repair("works", step=0)
    except (AutoMemError, OSError) as error:
        return Finding("sandbox for logic.py", False, str(error))
    return Finding("sandbox for logic.py", answer == "WORKS", "pydantic-monty runs")


def _environments() -> Iterator[Finding]:
    for name in plugins.available(plugins.ENV):
        try:
            yield Finding(f"environment {name}", True, ", ".join(envs.tasks(name)), needed=False)
        except AutoMemError as error:
            yield Finding(f"environment {name}", False, f"{error}; {error.hint}", needed=False)


def _scaffolds() -> Iterator[Finding]:
    for name, folder in plugins.available(plugins.SCAFFOLD).items():
        try:
            yield Finding(f"scaffold {name}", True, load_folder(folder).digest)
        except AutoMemError as error:
            yield Finding(f"scaffold {name}", False, str(error))


def _optional() -> Iterator[Finding]:
    for package, use in _OPTIONAL.items():
        present = find_spec(package) is not None
        yield Finding(package, present, use if present else f"not installed; only for {use}", needed=False)
    key = "OPENAI_API_KEY" in os.environ
    yield Finding("OPENAI_API_KEY", key, "set" if key else "not set; only for OpenAI's own models", needed=False)
    for command, use in (("faketime", "the date check of `automem env check`"), ("sbatch", "launching on Slurm")):
        path = shutil.which(command)
        yield Finding(command, path is not None, path or f"not installed; only for {use}", needed=False)
