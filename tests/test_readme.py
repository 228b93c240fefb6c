"""What README.md says is true: its commands run, its table is that of an experiment, its links lead somewhere."""

import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest
import typer.main
import yaml

from automem.cli.main import app

CHECKOUT = Path(__file__).resolve().parent.parent
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
PAGES = [CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((CHECKOUT / "docs").glob("*.md"))


def blocks(marker=r"(?: no-test)?"):
    """The contents of the README's ```sh blocks; without `marker` also of those that are not run."""
    return re.findall(rf"^```sh{marker}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands():
    """Every `automem …` command in the README's blocks, as words."""
    lines = "".join(blocks()).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("automem ")]


def run(script, folder):
    """Runs a bash script in `folder` with this environment's `automem` first on the path."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AUTOMEM")} | {"PATH": path}
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def rows(markdown):
    """The rows of the Markdown tables with a column `progress %`: run's last name -> column -> cell."""
    found, titles = {}, None
    for line in markdown.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else None
        if cells is None:
            titles = None
        elif titles is None:
            titles = cells
        elif "progress %" in titles and not set(line) <= set("|-: "):
            found[cells[0].rsplit("/", 1)[-1]] = dict(zip(titles, cells, strict=True))
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_and_options_exist(words):
    command, rest = typer.main.get_command(app), iter(words)
    while hasattr(command, "commands"):
        command = command.commands[next(rest)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known


def test_there_are_commands_on_the_first_screen():
    first = README.split("\n## ")[0]
    assert len(re.findall(r"^(?:automem|make) ", first, re.MULTILINE)) == 4
    assert len(commands()) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in [re.sub(r"\W+", "-", title.lower()) for title in re.findall(r"^#+ (.*)$", text, re.M)]
        elif not target.startswith("https://"):
            assert (page.parent / target).is_file(), target


@pytest.mark.slow
def test_the_commands_run(tmp_path):
    out = run("\n".join(blocks(marker="")), tmp_path)
    assert "identical, timings and model names aside" in out
    assert "FAILED" not in out
    assert (tmp_path / "scaffolds/mine/scaffold.yaml").is_file()


def test_the_table_is_that_of_the_experiment():
    """`automem launch scripted` is held to these values by the test below."""
    expected = yaml.safe_load((CHECKOUT / "experiments/scripted/expected.yaml").read_text(encoding="utf-8"))
    values = [(round(row["mean"], 1), round(row["se"], 1), row["n"]) for row in expected["rows"]]
    stated = [(*map(float, row["progress %"].split(" ± ")), int(row["n"])) for row in rows(README).values()]
    assert stated == values


@pytest.mark.slow
def test_the_table_of_scripted_players_is_what_they_reach(tmp_path):
    out = tmp_path / "scripted"
    run(f"automem launch scripted --on local -o {out} && automem table {out} --paper --check", tmp_path)
