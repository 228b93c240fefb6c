"""`automem doctor`: what is installed, what works, what is missing."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Annotated, NamedTuple

import typer

#: Optional package -> what it is for.
_PACKAGES = {
    "crafter": "the environment crafter",
    "nle": "the environments nethack and minihack",
    "minihack": "the environment minihack",
    "pyarrow": "trace export to parquet",
    "torch": "local models and training",
    "transformers": "local models and training",
    "peft": "adapters of local models, and training",
    "trl": "training",
    "vllm": "serving models on this machine",
}
#: Optional command -> what it is for.
_COMMANDS = {"faketime": "the date check of `automem env check`", "sbatch": "launching on Slurm"}


class Look(NamedTuple):
    """One thing looked at; what is not `needed` may be missing."""

    what: str
    ok: bool
    detail: str
    needed: bool = True


def doctor(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """Check the installation; exit code 1 if something that is always needed does not work."""
    looks = [*_versions(), _sandbox(), *_environments(), *_scaffolds(), *_optional()]
    if as_json:
        print(json.dumps([look._asdict() for look in looks], indent=2))
    else:
        for look in looks:
            print(f"{'ok  ' if look.ok else 'NO  ' if look.needed else '-   '}{look.what}: {look.detail}")
    if any(look.needed and not look.ok for look in looks):
        print("error: the installation is not complete", file=sys.stderr)
        raise typer.Exit(1)


def _versions() -> Iterator[Look]:
    from automem import plugins
    from automem.play import provenance

    versions = ", ".join(f"{name} {version}" for name, version in provenance.versions().items())
    yield Look("python", sys.version_info >= (3, 11), sys.version.split()[0])
    yield Look("packages", True, versions)
    yield Look("installed at", True, str(plugins.PACKAGE))


def _sandbox() -> Look:
    from automem.errors import AutoMemError
    from automem.scaffold.logic import Logic

    try:
        answer = Logic("doctor", "def repair(action):\n    return action.upper()\n").repair("works", step=0)
    except (AutoMemError, OSError) as error:
        return Look("sandbox for logic.py", False, str(error))
    return Look("sandbox for logic.py", answer == "WORKS", "pydantic-monty runs")


def _environments() -> Iterator[Look]:
    from automem import env as envs
    from automem import plugins
    from automem.errors import AutoMemError

    for name in plugins.available(plugins.ENV):
        try:
            yield Look(f"environment {name}", True, ", ".join(envs.tasks(name)), needed=False)
        except AutoMemError as error:
            detail = "; ".join(filter(None, (error.message, error.hint)))
            yield Look(f"environment {name}", False, detail, needed=False)


def _scaffolds() -> Iterator[Look]:
    from automem import plugins
    from automem.errors import AutoMemError
    from automem.scaffold.spec import load_folder

    for name, folder in plugins.available(plugins.SCAFFOLD).items():
        try:
            yield Look(f"scaffold {name}", True, load_folder(folder).digest)
        except AutoMemError as error:
            yield Look(f"scaffold {name}", False, str(error))


def _optional() -> Iterator[Look]:
    for package, use in _PACKAGES.items():
        present = find_spec(package) is not None
        yield Look(package, present, use if present else f"not installed; only for {use}", needed=False)
    key = "OPENAI_API_KEY" in os.environ
    yield Look("OPENAI_API_KEY", key, "set" if key else "not set; only for OpenAI's own models", needed=False)
    for command, use in _COMMANDS.items():
        path = shutil.which(command)
        yield Look(command, path is not None, path or f"not installed; only for {use}", needed=False)
