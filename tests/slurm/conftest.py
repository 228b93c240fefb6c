"""A real Slurm on this machine for the tests that need one."""

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def slurm():
    """Up for the session; stopped at its end unless it was up before."""
    root = Path(os.environ.get("AUTOMEM_SLURM_ROOT", "/tmp/automem-slurm"))
    before = (root / "run/slurmctld.pid").exists()
    subprocess.run([HERE / "up.sh"], check=True, timeout=600)
    os.environ["SLURM_CONF"] = str(root / "etc/slurm.conf")
    yield root
    if not before:
        subprocess.run([HERE / "down.sh"], check=True, timeout=120)


@pytest.fixture
def place(slurm, tmp_path, monkeypatch):
    """An empty folder to launch from; what the test leaves in the queue is cancelled."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    subprocess.run(["scancel", "--user=root"], timeout=30, check=False)
