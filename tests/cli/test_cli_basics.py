"""The command line as its users meet it: exit codes, what is said, and where."""

import json
import os
import subprocess
import sys

import pytest
from asking import fault

from automem.play.folder import RunFolder, locked

RUN = ("run", "courier/small", "-S", "courier-v1", "-m", "scripted:courier", "--max-steps", "5")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("run", "curier/small", *RUN[2:]), "unknown environment 'curier'", "did you mean 'courier'?"),
        (("run", "courier/smal", *RUN[2:]), "environment 'courier' has no task 'smal'", "did you mean 'small'?"),
        ((*RUN, "-S", "courier-v9"), "unknown scaffold 'courier-v9'", "did you mean 'courier-v"),
        ((*RUN, "-m", "scripted:couriers"), "unknown scripted policy 'couriers'", "did you mean 'courier'?"),
        ((*RUN, "-m", "opnai:x"), "unknown model 'opnai:x'", "did you mean 'openai'?"),
        ((*RUN, "-m", "courier"), "unknown model 'courier'", "write KIND:NAME"),
        ((*RUN, "-s", "budget.log_round=3"), "unknown key 'log_round'", "did you mean 'log_rounds'?"),
        ((*RUN, "-s", "limits.max_call=3"), "unknown key 'max_call'", "did you mean 'max_calls'?"),
        ((*RUN, "-s", "budget"), "expected key=value", "for example"),
        ((*RUN, "--seeds", "5-2"), "the range 5-2 runs backwards", "write 2-5"),
        ((*RUN, "--seeds", "a"), "'a' is not a seed", "0-9"),
        ((*RUN, "--seeds", "1,1"), "a seed stands twice", ""),
        (("run", "crafter", *RUN[2:]), "scaffold 'courier-v1' is for courier, not for crafter", ""),
        (("table", "nowhere"), "no run at 'nowhere'", "automem run"),
        (("scaffold", "show", "./nowhere"), "no scaffold at 'nowhere'", "scaffold.yaml"),
        (("env", "check", "curier"), "unknown environment 'curier'", "did you mean 'courier'?"),
    ],
)
def test_wrong_names_and_values(automem, tmp_path, arguments, error, hint):
    first, rest = fault(automem(*arguments))
    assert error in first
    if hint:
        assert rest.startswith("hint: ")
        assert hint in rest
    assert not list(tmp_path.iterdir())


def test_an_unknown_scaffold_says_where_it_was_looked_for(automem, tmp_path):
    _, hint = fault(automem(*RUN, "-S", "courier-v9"))
    assert f"searched: {tmp_path}/scaffolds, " in hint


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("rnu",), "error: no such command 'rnu'. Did you mean 'run'?", "hint: automem --help tells more"),
        (("run", "courier"), "error: missing option '-S' / '--scaffold'", "hint: automem run --help tells more"),
        ((*RUN, "--nope"), "error: no such option: --nope", "hint: automem run --help tells more"),
        ((*RUN, "-j", "x"), "error: invalid value for '-j' / '--jobs': ", "hint: automem run --help tells more"),
        (("trace", "shwo"), "error: no such command 'shwo'. Did you mean 'show'?", "hint: automem trace --help tells"),
    ],
)
def test_wrong_usage(automem, arguments, error, hint):
    first, rest = fault(automem(*arguments))
    assert first.startswith(error)
    assert rest.startswith(hint)


@pytest.mark.parametrize("arguments", [(), ("trace",)])
def test_a_command_alone_shows_its_help(automem, arguments):
    code, out, err = automem(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: automem ") and "\nCommands:\n" in err and "error" not in err.splitlines()[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: made\nfiles: [\n", ", line 3: "),
        ("- a\n- b\n", "expected keys and values"),
        ("name: made\nabuot: x\n", ", line 2: abuot: unknown key 'abuot'"),
        ("name: made\nbudget:\n  history: 0\n", ", line 3: budget.history: input should be greater than"),
        ("name: made\nbudget:\n  history: many\n", ", line 3: budget.history: input should be a valid integer"),
        ("about: no name\n", "name: this key is missing"),
    ],
)
def test_a_broken_scaffold_names_file_line_and_key(automem, scaffold_folder, text, says):
    file = scaffold_folder() / "scaffold.yaml"
    file.write_text(text)
    first, _ = fault(automem(*RUN, "-S", file.parent))
    assert str(file) in first
    assert says in first


def test_a_run_is_played_once_and_extended(automem, tmp_path):
    code, out, err = automem(*RUN, "--seeds", "0-1", "-o", "a")
    assert code == 0
    assert "| a | courier | small | courier-v1 | scripted:courier |" in out
    assert "courier/small seed 1: " in err and "seed" not in out
    code, _, err = automem(*RUN, "--seeds", "1-2", "-o", "a")
    assert code == 0
    assert "episodes 3, done before 2" in err
    assert len(list((tmp_path / "a/traces/courier/small").iterdir())) == 3


def test_a_folder_of_another_run_is_refused_until_redo(automem):
    assert automem(*RUN, "-o", "a")[0] == 0
    first, hint = fault(automem(*RUN, "-m", "scripted:null", "--max-steps", 6, "-o", "a"))
    assert "a was made with other settings" in first
    assert "scripted:courier there, scripted:null here" in first
    assert "limits.max_steps: 5 there, 6 here" in first
    assert "seeds" not in first
    assert "--redo" in hint
    assert automem(*RUN, "-m", "scripted:null", "-o", "a", "--redo")[0] == 0
    assert automem("trace", "list", "a")[1].count("courier/small") == 1


def test_a_folder_with_something_else_in_it_is_refused(automem, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    first, _ = fault(automem(*RUN, "--redo", "-o", "."))
    assert "thesis.tex" in first
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_second_writer_is_refused(automem, tmp_path):
    assert automem(*RUN, "-o", "a")[0] == 0
    with locked(RunFolder.read(tmp_path / "a").path / "run.lock"):
        first, _ = fault(automem(*RUN, "--seeds", "1", "-o", "a"))
    assert f"a is being written by pid {os.getpid()} on " in first
    assert automem(*RUN, "--seeds", "1", "-o", "a")[0] == 0


def test_a_prompt_with_an_unknown_variable_fails_the_episode(automem, scaffold_folder):
    folder = scaffold_folder(prompts={"plan.j2": "# PLAN\nGo.\n{{ observatoin }}\n"})
    code, out, err = automem(*RUN, "-S", folder, "--seeds", "0-1", "-o", "a")
    assert code == 1
    assert "| – | 0 | 2 (scaffold 2) |" in out
    error = next(line for line in err.splitlines() if line.startswith("error: "))
    assert "2 of 2 episodes failed; the first: " in error
    assert "plan.j2, line 3" in error and "observatoin" in error
    assert "\nhint: the same command tries them again" in err


def test_dry_run_writes_nothing(automem, tmp_path):
    code, out, _ = automem(*RUN, "--seeds", "3-4", "--dry-run")
    assert code == 0
    assert "would play 2 episodes into runs/" in out
    assert "courier/small seed 3" in out and "courier/small seed 4" in out
    assert not list(tmp_path.iterdir())


def test_json_on_every_list_and_show(automem):
    def data(*arguments):
        code, out, _ = automem(*arguments, "--json")
        assert code == 0
        return json.loads(out)

    run = data(*RUN, "-o", "a")
    assert run == data("table", "a")
    assert (run["rows"][0]["n"], run["rows"][0]["failed"]) == (1, 0)
    assert data("trace", "show", "a", "--step", 2)["t"] == 2
    assert data("trace", "list", "a")[0]["steps"] == 5
    assert "courier-v1" in [row["name"] for row in data("scaffold", "list")]
    assert "scaffold.yaml" in data("scaffold", "show", "courier-v1")["files"]
    assert "small" in next(row for row in data("env", "list") if row["name"] == "courier")["tasks"]
    assert {"what", "ok", "detail", "needed"} == set(data("doctor")[0])


@pytest.mark.slow
def test_env_check_finds_nothing_wrong(automem):
    code, out, _ = automem("env", "check", "courier", "--steps", 3, "--json")
    reports = json.loads(out)
    assert code == 0
    assert len(reports) == 18
    assert all(report["ok"] is not False for report in reports)


def test_a_new_scaffold_is_found_by_its_name(automem):
    assert automem("scaffold", "new", "mine", "--from", "courier-v1")[0] == 0
    assert automem("scaffold", "check", "mine")[0] == 0
    code, out, _ = automem("scaffold", "diff", "courier-v1", "mine")
    assert code == 0 and "+parent: courier-v1" in out
    assert automem(*RUN, "-S", "mine", "-o", "a")[0] == 0
    fault(automem("scaffold", "new", "mine", "--from", "courier-v1"))


def test_exit_codes_of_the_process(tmp_path):
    def code(*arguments):
        command = [sys.executable, "-c", "from automem.cli.main import main; main()", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).returncode

    assert code(*RUN, "-m", "scripted:couriers") == 2
    assert code("trace", "diff", "a", "b") == 2
    assert code("scaffold", "list") == 0
