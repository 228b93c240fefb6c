"""The code that jobs run: copied into the launch folder, so that later changes do not reach jobs in the queue."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from automem import plugins
from automem.errors import RunError
from automem.play.provenance import git_commit

#: What jobs need of a checkout.
_PARTS = ("automem", "envs", "scaffolds", "experiments", "slurm")
#: Folders of plugins that people have in other places.
_PLUGINS = ("envs", "scaffolds", "experiments")
_IGNORED = shutil.ignore_patterns("__pycache__")


@dataclass(frozen=True)
class Snapshot:
    """Where the code is, further roots of plugins in the order in which they are searched, and the commit."""

    code: Path
    plugins: tuple[Path, ...]
    commit: str | None


def take(out: Path) -> Snapshot:
    """Copy the code into `out`/snapshot and write what it differs in from its commit to `out`/diff.patch.

    Raises:
        RunError: something could not be copied.
    """
    place = out / "snapshot"
    checkout = plugins.PACKAGE.parent
    commit = git_commit(checkout)
    try:
        if commit is None:
            shutil.copytree(plugins.PACKAGE, place / "automem", ignore=_IGNORED)
        else:
            _copy(checkout, _listed(checkout), place)
            _write_diff(checkout, out / "diff.patch")
        roots = tuple(_copy_plugins(_other_roots(checkout), place / "plugins"))
    except (OSError, shutil.Error) as error:
        raise RunError(f"cannot copy the code to {place}: {error}") from error
    return Snapshot(place, roots, commit)


def _listed(checkout: Path) -> list[str]:
    """What git knows or would take up: a new scaffold counts before it is added."""
    listed = _git(checkout, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_PARTS)
    return [name for name in listed.decode().split("\0") if name and (checkout / name).is_file()]


def _copy(checkout: Path, names: Iterable[str], place: Path) -> None:
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(checkout / name, place / name)


def _write_diff(checkout: Path, file: Path) -> None:
    if difference := _git(checkout, "diff", "--binary", "HEAD"):
        file.write_bytes(difference)


def _git(checkout: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(checkout), *arguments], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"git does not answer: {error}") from error
    if done.returncode:
        raise RunError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _other_roots(checkout: Path) -> list[Path]:
    """Where plugins are searched before the code itself: $AUTOMEM_PATH, the working directory."""
    named = [Path(root) for root in os.environ.get("AUTOMEM_PATH", "").split(os.pathsep) if root]
    return [root for root in dict.fromkeys(path.resolve() for path in (*named, Path.cwd())) if root != checkout]


def _copy_plugins(roots: Iterable[Path], place: Path) -> Iterable[Path]:
    for number, root in enumerate(roots, 1):
        folders = [root / name for name in _PLUGINS if (root / name).is_dir()]
        for folder in folders:
            shutil.copytree(folder, place / str(number) / folder.name, ignore=_IGNORED)
        if folders:
            yield place / str(number)
