"""Stand-ins for the programs of Slurm."""

import os

import pytest


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Puts programs on the path that say and do what is given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(**texts):
        for name, text in texts.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)

    return put
