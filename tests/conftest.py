"""What tests of several folders share: a way to make scaffolds, and the command line."""

import signal
import sys
from pathlib import Path

import pytest
import yaml

from automem.cli.main import _exit_code
from automem.scaffold.spec import load

_OPENING = '{% include "automem/observation.j2" %}\n\n{% include "automem/memory.j2" %}\n\n# '
_PROMPTS = {
    "system.j2": '{{ instructions }}\n\n{% include "automem/actions.j2" %}\n\n{% include "automem/operations.j2" %}\n',
    "log.j2": _OPENING + 'LOG\nWrite down what matters.\n{% include "automem/offered.j2" %}\n',
    "plan.j2": _OPENING + 'PLAN\nDecide.\n{% include "automem/offered.j2" %}\n',
    "gameplay.j2": '# GAMEPLAY\nCommit.\n{% include "automem/offered.j2" %}\n',
}
_SPEC = {
    "name": "made",
    "files": [{"name": "notes.txt", "kind": "log"}, {"name": "places.txt", "kind": "table", "key": ["name"]}],
    "operations": {
        "log": ["SEARCH", "READ", "TAIL", "COUNT", "APPEND", "WRITE", "UPSERT", "DELETE", "DONE"],
        "plan": ["SEARCH", "READ", "ACTION"],
        "gameplay": ["SEARCH", "READ", "ACTION"],
    },
    "budget": {"log_rounds": 4, "plan_rounds": 4, "gameplay_rounds": 4},
}


def pytest_configure():
    """In the background a shell has ^C ignored, and so would have every process that the tests start and interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def write_scaffold(folder: Path, logic=None, prompts=None, memory=None, **spec) -> Path:
    """A scaffold folder: `spec` replaces keys of `scaffold.yaml`, `prompts` and `memory` add or replace files."""
    texts = {f"prompts/{name}": text for name, text in {**_PROMPTS, **(prompts or {})}.items()}
    texts |= {f"memory/{name}": text for name, text in (memory or {}).items()}
    texts["scaffold.yaml"] = yaml.safe_dump({**_SPEC, **spec}, sort_keys=False)
    if logic is not None:
        texts["logic.py"] = logic
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def scaffold_folder(tmp_path):
    """Writes a small scaffold into a new folder."""

    def write(name="made", **parts):
        return write_scaffold(tmp_path / "made scaffolds" / name, **{"name": name, **parts})

    return write


@pytest.fixture
def scaffold(scaffold_folder):
    """Makes a small scaffold and loads it."""
    return lambda **parts: load(str(scaffold_folder(**parts)))


@pytest.fixture
def automem(monkeypatch, capsys, tmp_path):
    """Runs `automem ARGUMENTS` in an empty folder; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUTOMEM_DEBUG", raising=False)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["automem", *map(str, arguments)])
        code = _exit_code()
        return code, *capsys.readouterr()

    return call
