"""`automem quickstart`: both loops with the pocket model."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from automem.cli import quickstart
from automem.config import parse_seeds

pytest.importorskip("torch", reason="torch is not installed: pip install 'automem[train]'")
pytest.importorskip("trl", reason="trl is not installed: pip install 'automem[train]'")
SHORT = quickstart.Seeds(loop1="0-3", loop2="40-42", report="100-102")


@pytest.mark.parametrize("seeds", [quickstart.FULL, quickstart.FAST])
def test_no_seed_has_two_uses(seeds):
    sets = [set(parse_seeds(text, "seeds")) for text in (seeds.loop1, seeds.loop2, seeds.report)]
    assert len(set.union(*sets)) == sum(map(len, sets))


def test_a_file_in_the_way(automem, tmp_path):
    (tmp_path / "taken").write_text("mine")
    code, _, err = automem("quickstart", "-o", "taken")
    assert code == 2
    assert "error: -o taken: there is a file of that name" in err
    assert (tmp_path / "taken").read_text() == "mine"


def start(folder, change=f"FULL = quickstart.{SHORT}"):
    """`automem quickstart` with few seeds, in a session of its own."""
    code = f"from automem.cli import main, quickstart; quickstart.{change}; main.main()"
    command = [sys.executable, "-c", code, "quickstart", "-o", str(folder)]
    with (folder.parent / "stderr").open("ab") as log:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)


def working_on(folder):
    shown = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in shown.splitlines() if str(folder) in line]


def test_a_command_that_fails_is_told_and_nothing_goes_on(tmp_path):
    process = start(tmp_path / "q", '_GAME = "courier/smal"')
    assert process.communicate(timeout=120)[0] == ""
    told = (tmp_path / "stderr").read_text()
    assert process.returncode == 1, told
    assert re.search(r"error: `automem evolve courier/smal .*` ended with exit code 2\n", told)
    assert "hint: its message is above; the same command goes on" in told
    assert [path.name for path in (tmp_path / "q").iterdir()] == ["baselines.log"]


@pytest.mark.slow
def test_it_is_interrupted_goes_on_and_then_only_tells(tmp_path):
    folder = tmp_path / "q"
    first = start(folder)
    while not list(folder.glob("loop1/plays/gate-*/traces/**/*.jsonl")):
        assert first.poll() is None, (tmp_path / "stderr").read_text()
        time.sleep(0.2)
    os.killpg(first.pid, signal.SIGINT)
    first.communicate(timeout=60)
    assert first.returncode == 130
    assert not working_on(folder)

    second = start(folder)
    table, _ = second.communicate(timeout=1500)
    assert second.returncode == 0, (tmp_path / "stderr").read_text()
    names = re.findall(r"^\| ([^|]+) \| [\w-]+ \| [\d.]+ ± [\d.]+ \| 3 \|", table, re.MULTILINE)
    assert [name.partition(",")[0] for name in names] == ["window", "memory v0", "+ scaffold", "+ specialist"]
    assert "automem launch main-table" in (tmp_path / "stderr").read_text()

    played = {path: path.stat().st_mtime for path in folder.rglob("*.jsonl") if "traces" in path.parts}
    third = start(folder)
    assert third.communicate(timeout=300)[0] == table
    assert {path: path.stat().st_mtime for path in folder.rglob("*.jsonl") if "traces" in path.parts} == played
