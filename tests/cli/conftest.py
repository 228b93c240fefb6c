"""What tests of the command line share."""

import sys

import pytest

from automem.cli.main import _exit_code


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
