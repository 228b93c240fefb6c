"""`automem run` and `automem table`: what is played, and options that would do nothing."""

import shutil
from pathlib import Path

import pytest
from asking import fault

COURIER = Path(__file__).resolve().parents[2] / "envs" / "courier"
REST = ("-S", "courier-v1", "-m", "scripted:courier", "--max-steps", "3")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (
            ("run", "courier/small", *REST, "-s", "memory_model.seed=1"),
            "-s memory_model.seed needs --memory-model",
            "-s",
        ),
        (("run", "courier/small", *REST, "--memory-base-url", "http://x/v1"), "--memory-base-url needs", "both roles"),
        (("run", "courier/", *REST), "'courier/' names no task", "write courier/TASK, or courier for all tasks"),
        (("run", "./np", *REST), "no environment at './np'", "__init__.py"),
        (("run", "/np", *REST), "no environment at '/np'", "__init__.py"),
        (("table", "a", "--lineage", "--by", "task"), "--by has no meaning with --lineage", "tables of runs"),
        (("table", "a", "--lineage", "--behaviour"), "--behaviour has no meaning with --lineage", "tables of runs"),
        (("table", "a", "--lineage", "--sample"), "--sample has no meaning with --lineage", "tables of runs"),
    ],
)
def test_what_would_do_nothing_is_refused(automem, arguments, error, hint):
    first, rest = fault(automem(*arguments))
    assert error in first
    assert hint in rest


@pytest.mark.parametrize("game", ["./games/courier/small", "games/courier/small"])
def test_an_environment_is_played_by_path(automem, tmp_path, game):
    shutil.copytree(COURIER, tmp_path / "games/courier", ignore=shutil.ignore_patterns("__pycache__"))
    code, out, _ = automem("run", game, *REST, "-o", "a")
    assert code == 0
    assert f"| {tmp_path}/games/courier | small |" in out.replace("\\", "")
    assert len(list((tmp_path / "a/traces/courier/small").iterdir())) == 1
    assert (tmp_path / "a/memory/courier/small").is_dir()
    assert automem("run", tmp_path / "games/courier/small", *REST, "-o", "a", "--seeds", "0-1")[0] == 0
    code, out, _ = automem("run", "./games/courier/", *REST, "-n")
    assert code == 0
    assert "would play" in out and " into runs/courier-courier-v1-" in out


def test_an_episode_to_show_must_be_one(automem):
    assert automem("run", "courier/small", *REST, "-o", "a", "--seeds", "0-1")[0] == 0
    assert automem("trace", "show", "a") == automem("trace", "show", "a", "--episode", "small/0")
    assert "there is no episode '7'" in fault(automem("trace", "show", "a", "--episode", "7"))[0]
    file = next(Path("a/traces/courier/small").iterdir())
    assert "is the trace of one episode" in fault(automem("trace", "show", file, "--episode", "7"))[0]
    file.unlink()
    assert automem("trace", "list", "a")[1].count("unfinished") == 1
    gone = automem("trace", "show", "a", "--episode", file.stem)
    assert "was not played yet" in fault(gone)[0]


def test_rows_are_exported_for_sft(automem):
    assert automem("run", "courier/small", *REST, "-o", "a")[0] == 0
    code, out, _ = automem("trace", "export", "a", "--format", "sft", "-o", "rows.jsonl")
    assert (code, len(Path("rows.jsonl").read_text().splitlines())) == (0, int(out.split()[0]))
    assert "'--format'" in fault(automem("trace", "export", "a", "--format", "csv", "-o", "rows.jsonl"))[0]
