"""What a run was made with: versions, git commit, command line, and a digest of the evaluator."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import Any

from automem import plugins

PACKAGES = ("automem", "gymnasium", "crafter", "nle", "minihack", "openai", "pydantic-monty", "torch", "vllm")
_CREDENTIALS = re.compile(r"//[^/@\s]*@")


def record(env: str) -> dict[str, Any]:
    """The facts that go into `run.json` beside the config. No environment variable, no key."""
    return {
        "versions": {"python": sys.version.split()[0], **versions()},
        "git": git_commit(plugins.PACKAGE.parent),
        "evaluator": evaluator_digest(env),
        "command": command_line(),
    }


def versions() -> dict[str, str]:
    """The installed versions of the packages that can change a result."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def command_line() -> str:
    """The command, ready to be pasted, without credentials in addresses and without the arguments of an agent."""
    arguments = [Path(sys.argv[0]).name, *sys.argv[1:]]
    for position, argument in enumerate(arguments[1:], 1):
        if arguments[position - 1] == "--proposer-command":
            arguments[position] = _program(argument)
        elif argument.startswith("--proposer-command="):
            arguments[position] = f"--proposer-command={_program(argument.partition('=')[2])}"
    return _CREDENTIALS.sub("//", shlex.join(arguments))


def _program(command: str) -> str:
    """The program of a command; what follows may hold a key."""
    return f"{command.split(maxsplit=1)[0]} …" if command.split() else ""


@cache
def git_commit(folder: Path) -> str | None:
    """The commit of the checkout, with `+changes` when the tree differs from it; None outside a checkout."""
    if not (folder / ".git").exists():
        return None
    head = _git(folder, "rev-parse", "HEAD")
    return f"{head}+changes" if head and _git(folder, "status", "--porcelain") else head


def evaluator_digest(env: str) -> str:
    """Digest of all that plays and measures, data included: the package and the environment's folder."""
    hasher = blake2b(digest_size=8)
    for root in (plugins.PACKAGE, plugins.find(plugins.ENV, env)):
        for file in sorted(root.rglob("*")):
            relative = file.relative_to(root)
            if file.is_file() and not {"__pycache__", "_shipped"} & set(relative.parts):
                hasher.update(relative.as_posix().encode() + b"\0" + file.read_bytes())
    return hasher.hexdigest()


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
