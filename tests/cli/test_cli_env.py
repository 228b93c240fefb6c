"""Wrong names and options of environments and scaffolds: `env check`, `scaffold check` and `diff`, `run`."""

import re
from pathlib import Path

import pytest
from asking import fault

COURIER = Path(__file__).resolve().parents[2] / "envs" / "courier"


@pytest.mark.parametrize(
    ("name", "error", "hint"),
    [
        ("nope", "unknown environment 'nope'", "known: courier, crafter, desk, minihack, nethack; searched: "),
        ("curier", "unknown environment 'curier'", "did you mean 'courier'? searched: "),
        ("nope/small", "unknown environment 'nope'", "known: courier, "),
        ("courier/small", "'courier/small' is a task", "automem env check courier"),
        (f"{COURIER}/small", f"'{COURIER}/small' is a task", f"automem env check {COURIER}"),
        ("courier/smal", "environment 'courier' has no task 'smal'", "did you mean 'small'?"),
        ("courier/", "'courier/' names no task", "write courier/TASK"),
        ("", "no environment at ''", "a folder with a file __init__.py"),
        ("./here", "no environment at './here'", "a folder with a file __init__.py"),
    ],
)
def test_a_name_that_is_none_is_refused(automem, name, error, hint):
    told, what_to_do = fault(automem("env", "check", name))
    assert error in told
    assert hint in what_to_do


def test_one_broken_environment_hides_no_other(automem, tmp_path):
    folder = tmp_path / "envs" / "broken"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("{}['x']\n")
    code, out, _ = automem("env", "list")
    assert code == 0
    assert re.search(r"^broken +environment 'broken' cannot be loaded: .*KeyError: 'x'$", out, re.MULTILINE)
    assert re.search(r"^courier +small, long, huge$", out, re.MULTILINE)


def test_an_environment_is_checked_by_path(automem):
    code, out, _ = automem("env", "check", f"{COURIER}/", "--steps", "3")
    assert code == 0
    assert f"{COURIER}/small: conforms to gymnasium" in out


@pytest.mark.parametrize("verb", ["check", "show"])
def test_a_folder_is_not_taken_for_a_name(automem, tmp_path, scaffold_folder, verb):
    scaffold_folder().rename(tmp_path / "made")
    told, what_to_do = fault(automem("scaffold", verb, "made"))
    assert told == "error: unknown scaffold 'made'"
    assert what_to_do == "hint: a path has a slash in it: made/"
    assert automem("scaffold", verb, "made/")[0] == 0


@pytest.mark.parametrize("name", ["nope", "", "/dev/null"])
def test_a_wrong_scaffold_is_named_once(automem, name):
    error, hint = fault(automem("scaffold", "check", name))
    assert error in (f"error: unknown scaffold '{name}'", f"error: no scaffold at '{name}'")
    assert hint
    for pair in ((name, "courier-v0"), ("courier-v0", name)):
        assert fault(automem("scaffold", "diff", *pair)) == (error, hint)


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("game", "option", "error", "hint"),
    [
        ("nethack", "character=xyz", "character 'xyz': 'xyz' is no role", "role: arc bar"),
        ("minihack/corridor-r3", "levels=x", "levels has no meaning for corridor-r3", "leave it out"),
        ("crafter", "area=100000", "area must be 9 to 256", "for example area=64"),
        ("courier", "horizon=no", "courier: horizon must be a whole number, not false", "for example horizon=200"),
        ("courier", "seed=1", "environment 'courier' has no option 'seed'", "from --seeds"),
        ("courier", "=1", "environment 'courier' has no option ''", "known: height, horizon"),
        ("courier", "a.b=1", "environment 'courier' has no option 'a.b'", "known: height, horizon"),
        ("courier", "orders=1_000_000_000", "orders must be at most 100000", "given: "),
    ],
)
def test_a_run_with_a_wrong_option_writes_nothing(automem, tmp_path, game, option, error, hint, more):
    pytest.importorskip({"nethack": "nle", "crafter": "crafter"}.get(game, "minihack"))
    asked = ("-S", "window", "-m", "scripted:random", "-s", f"env.{option}", "-o", "played")
    told, what_to_do = fault(automem("run", game, *asked, *more))
    assert error in told
    assert hint in what_to_do
    assert list(tmp_path.iterdir()) == []


def test_what_an_environment_raises_when_it_is_made_is_told_in_a_line(automem, tmp_path):
    folder = tmp_path / "envs" / "mine"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("TASKS = ('t',)\ndef make(task):\n    raise KeyError('no')\n")
    for option, error in (((), "KeyError in making mine/t: 'no'"), (("-s", "env.x=1"), "TypeError in making mine/t: ")):
        code, out, err = automem("run", "mine", "-S", "window", "-m", "scripted:random", "-n", *option)
        assert (code, out) == (1, "")
        assert err.startswith(f"error: {error}")
