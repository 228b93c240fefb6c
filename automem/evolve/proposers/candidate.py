"""The folder that a candidate is written to: what may stand there, and how it gets there."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from automem.errors import ProposerFailure
from automem.scaffold.spec import MAX_FILE, MAX_FILES

#: What a candidate consists of, in words.
LAYOUT = "scaffold.yaml, logic.py, CHANGES.md, prompts/NAME.j2 or memory/NAME"
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_PATH = re.compile(rf"scaffold\.yaml|logic\.py|CHANGES\.md|prompts/{_NAME}\.j2|memory/{_NAME}")


def belongs(path: str) -> bool:
    """Whether a candidate may have a file at this relative path."""
    return _PATH.fullmatch(path) is not None


def texts(folder: Path) -> dict[str, str]:
    """The files of a candidate that belong there, by relative path; whole or not, it need not load."""
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        if belongs(relative) and path.is_file() and not path.is_symlink():
            found[relative] = path.read_text(encoding="utf-8", errors="replace")
    return found


def copy_files(source: Path, target: Path) -> None:
    """Copy the regular files below `source`; links are refused, never followed.

    Raises:
        ProposerFailure: `source` is not a folder, or holds something else than a few small files.
    """
    if source.is_symlink() or not source.is_dir():
        raise ProposerFailure(f"{source.name}/ is no longer a folder")
    paths = [path for path in sorted(source.rglob("*")) if path.is_symlink() or not path.is_dir()]
    if len(paths) > MAX_FILES:
        raise ProposerFailure(f"{source.name}/ holds {len(paths)} files, a scaffold has at most {MAX_FILES}")
    for path in paths:
        relative = path.relative_to(source).as_posix()
        if not (relative.isascii() and relative.isprintable()):
            raise ProposerFailure(f"{source.name}/ holds a file with the name {relative!a}, which no scaffold has")
        copy = target / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(_read(path, f"{source.name}/{relative}"))


def _read(path: Path, name: str) -> bytes:
    try:
        # Not by looking first and opening then: what is looked at might be replaced in between.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        reason = "is a link" if path.is_symlink() else f"cannot be read ({error.strerror})"
        raise ProposerFailure(f"{name} {reason}: a scaffold holds regular files only") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ProposerFailure(f"{name} is not a regular file")
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise ProposerFailure(f"{name} is larger than {MAX_FILE // 1024} KiB")
    return data


def empty(folder: Path) -> None:
    """Remove everything in `folder`; links are removed, not followed."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def emptied_on_failure(folder: Path) -> Iterator[None]:
    """Empty `folder` when the body raises: half a candidate is none."""
    with ExitStack() as undo:
        undo.callback(empty, folder)
        yield
        undo.pop_all()
