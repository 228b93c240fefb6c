"""What is installed: the wheel has everything, nothing else, and works outside the checkout."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from automem import plugins

CHECKOUT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


def pinned():
    """Name -> version in the constraints file."""
    lines = (CHECKOUT / "constraints/cpu-py311.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_constraints_are_exact_and_name_no_place():
    assert all(re.fullmatch(r"[a-z0-9-]+", name) and re.fullmatch(r"[0-9.]+", v) for name, v in pinned().items())


def test_constraints_pin_every_direct_dependency():
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["envs"], *extras["parquet"], *extras["dev"]]
    wanted += [other for own in wanted if own.startswith("automem[") for other in extras[own[8:-1]]]
    names = {normal(re.match(r"[A-Za-z0-9._-]+", requirement)[0]) for requirement in wanted} - {"automem"}
    assert names - set(pinned()) == set()


def test_dependencies_are_lower_bounds():
    """A pin or an upper bound here would fight the versions that torch and vLLM ask for."""
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+>=[0-9.]+", requirement) for requirement in PROJECT["dependencies"])


def test_the_version_is_the_installed_one():
    assert metadata.version("automem") == PROJECT["version"]


def test_plugins_are_found_outside_the_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUTOMEM_PATH", raising=False)
    assert {"courier", "crafter"} <= set(plugins.available(plugins.ENV))
    assert {"window", "courier-v0", "courier-v1", "crafter-v0"} <= set(plugins.available(plugins.SCAFFOLD))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from the checkout without network."""
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", out, CHECKOUT], check=True)
    (file,) = out.iterdir()
    return file


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A fresh environment with the wheel, and what it depends on from the environment of the tests."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    python = place / "bin/python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", python, "install", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True)
    (site,) = place.glob("lib/python*/site-packages")
    # Folders named in a .pth file come after this one, and their own .pth files, such as that of an editable
    # install, are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place


@pytest.fixture
def automem(installed, tmp_path):
    """Runs the installed `automem` in an empty folder; returns its stdout."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOMEM", "PYTHON"))}
    # The sandbox is a program among the scripts of the environment that it was installed into.
    environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), environ["PATH"]])

    def call(*arguments):
        command = [installed / "bin/automem", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def listed(*options):
    """Paths in the wheel of the files that git lists in the checkout."""
    command = ["git", "ls-files", *options, "automem", "envs", "experiments", "scaffolds", "slurm"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    paths = [name for name in done.stdout.splitlines() if (CHECKOUT / name).exists()]
    return {name if name.startswith("automem/") else f"automem/_shipped/{name}" for name in paths}


@pytest.mark.slow
def test_the_wheel_holds_what_the_checkout_holds(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        licence = next(name for name in archive.namelist() if name.endswith(".dist-info/licenses/LICENSE"))
        assert b"Apache License" in archive.read(licence)
    assert listed() - names == set(), "missing in the wheel"
    assert names - listed("--cached", "--others", "--exclude-standard") == set(), "too much in the wheel"


@pytest.mark.slow
def test_the_installed_wheel_plays(automem, installed):
    findings = automem("doctor")
    assert f"installed at: {installed}" in findings
    assert str(CHECKOUT) not in findings
    assert "courier-v1" in automem("scaffold", "list")
    envs = automem("env", "list")
    assert "courier      small, long, huge" in envs and "crafter      default" in envs
    run = ("run", "--max-steps", "5", "--out")
    assert "| a | courier | small | courier-v1 |" in automem(
        *run, "a", "courier/small", "-S", "courier-v1", "-m", "scripted:courier"
    )
    assert "| b | crafter | default | crafter-v0 |" in automem(
        *run, "b", "crafter", "-S", "crafter-v0", "-m", "scripted:crafter"
    )
