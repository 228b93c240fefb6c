"""Plugins: a name is a folder on a search path."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from automem import env as envs
from automem import plugins
from automem.errors import EnvFailure, UsageError
from automem.play.env_check import check_env
from automem.plugins import ENV, SCAFFOLD, available, find, load_module


def plant(root, name, source="TASKS = ('t',)\n"):
    folder = root / "envs" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(source)
    return folder


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Two roots of $AUTOMEM_PATH and a working directory."""
    first, second, here = (tmp_path / name for name in ("first", "second", "here"))
    here.mkdir()
    monkeypatch.setenv("AUTOMEM_PATH", f"{first}:{second}:")
    monkeypatch.chdir(here)
    return first, second, here


def test_the_order_of_places(places):
    roots = [*places, plugins.PACKAGE.parent, plugins.PACKAGE / "_shipped"]
    assert plugins.search_path(ENV) == [root / "envs" for root in roots]
    assert plugins.search_path(SCAFFOLD) == [root / "scaffolds" for root in roots]


def test_the_first_match_wins(places):
    for root in reversed(places):
        expected = plant(root, "mine")
        assert find(ENV, "mine") == expected
    assert available(ENV)["mine"] == places[0] / "envs" / "mine"


def test_a_plugin_can_stand_before_a_shipped_one(places):
    mine = plant(places[2], "courier")
    assert find(ENV, "courier") == mine


def test_a_folder_counts_only_with_its_marker(places):
    (places[0] / "envs" / "empty").mkdir(parents=True)
    (places[0] / "envs" / "file").write_text("x")
    assert {"empty", "file"}.isdisjoint(available(ENV))
    behind = plant(places[1], "empty")
    assert find(ENV, "empty") == behind


def test_a_wrong_name_is_answered_with_the_nearest_and_the_places(places):
    with pytest.raises(UsageError) as caught:
        find(ENV, "curier")
    assert caught.value.message == "unknown environment 'curier'"
    assert caught.value.hint.startswith("did you mean 'courier'? searched: ")
    assert all(str(root / "envs") in caught.value.hint for root in places)


def test_a_name_that_is_near_to_none_is_answered_with_all(places):
    with pytest.raises(UsageError) as caught:
        find(ENV, "zzz")
    assert caught.value.hint.startswith(f"known: {', '.join(available(ENV))}; searched: ")


def test_a_name_with_a_slash_is_a_path(places, tmp_path):
    folder = plant(tmp_path / "elsewhere", "mine")
    assert find(ENV, str(folder)) == folder
    (places[2] / "local").mkdir()
    (places[2] / "local" / "scaffold.yaml").touch()
    assert find(SCAFFOLD, "./local") == places[2] / "local"
    with pytest.raises(UsageError) as caught:
        find(SCAFFOLD, str(folder))
    assert (caught.value.message, caught.value.hint) == (
        f"no scaffold at '{folder}'",
        "a scaffold is a folder with a file scaffold.yaml",
    )


def test_a_module_is_private(places):
    folder = plant(places[0], "json", "from .inner import TASKS\n")
    (folder / "inner.py").write_text("TASKS = ('mine',)\n")
    import json

    module = load_module(folder)
    assert (module.TASKS, json.loads("[1]")) == (("mine",), [1])
    assert sys.modules["json"] is json
    assert module.__name__.startswith("_automem_env_json_")
    assert load_module(folder) is module


def test_the_environment_crafter_does_not_shadow_the_library():
    library = pytest.importorskip("crafter")
    module = load_module(find(ENV, "crafter"))
    assert sys.modules["crafter"] is library
    assert module is not library
    assert hasattr(library, "Env")


def test_two_folders_of_one_name_are_two_modules(places):
    one, other = plant(places[0], "mine", "TASKS = ('a',)\n"), plant(places[1], "mine", "TASKS = ('b',)\n")
    assert load_module(one).TASKS + load_module(other).TASKS == ("a", "b")


def test_a_module_that_fails_is_tried_again(places):
    folder = plant(places[0], "broken", "raise ValueError('no')\n")
    with pytest.raises(ValueError, match="no"):
        load_module(folder)
    (folder / "__init__.py").write_text("TASKS = ('mended',)\n")
    assert load_module(folder).TASKS == ("mended",)


def test_a_module_is_loaded_once_and_whole_by_many_threads(tmp_path):
    (tmp_path / "__init__.py").write_text("import time\ntime.sleep(0.1)\nTASKS = ('only',)\n")
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(load_module, [tmp_path] * 8))
    assert {module.TASKS for module in modules} == {("only",)}
    assert len({id(module) for module in modules}) == 1


def test_a_missing_package_is_named(places):
    plant(places[0], "needy", "import no_such_package_at_all\n")
    with pytest.raises(UsageError, match="environment 'needy' needs the package 'no_such_package_at_all'"):
        envs.tasks("needy")


def test_a_wrong_task_is_answered_with_the_nearest():
    with pytest.raises(UsageError) as caught:
        envs.make("courier", "smal")
    assert (caught.value.message, caught.value.hint) == (
        "environment 'courier' has no task 'smal'",
        "did you mean 'small'?",
    )


def test_a_name_that_is_too_long_to_be_one_is_unknown():
    for name in ("x" * 5000, "x" * 300):
        with pytest.raises(UsageError, match=r"unknown environment 'x+'"):
            find(ENV, name)
        with pytest.raises(UsageError, match=r"no environment at 'x+/y'"):
            find(ENV, f"{name}/y")


def test_a_folder_asked_for_as_a_name_is_told_how_to_be_written(places):
    (places[2] / "local").mkdir()
    (places[2] / "local" / "scaffold.yaml").touch()
    with pytest.raises(UsageError, match="unknown scaffold 'local'") as caught:
        find(SCAFFOLD, "local")
    assert caught.value.hint == "a path has a slash in it: local/"
    assert find(SCAFFOLD, "local/") == places[2] / "local"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{}['x']\n", "line 1: KeyError: 'x'"),
        ("assert False, 'no'\n", "line 1: AssertionError: no"),
        ("open('/nowhere/at/all')\n", "line 1: FileNotFoundError"),
        ("TASKS = ('t',)\n", "defines no make"),
        ("TASKS = ()\ndef make(task): ...\n", "defines no TASKS"),
        ("TASKS = 5\ndef make(task): ...\n", "TASKS is 5, no tuple of names"),
        ("TASKS = 'small'\ndef make(task): ...\n", "TASKS is 'small', no tuple of names"),
        ("TASKS = (1,)\ndef make(task): ...\n", r"TASKS is \(1,\), no tuple of names"),
        ("TASKS = ('a/b',)\ndef make(task): ...\n", r"TASKS is \('a/b',\), no tuple of names"),
    ],
)
def test_a_module_that_is_no_environment_is_refused_in_a_line(places, source, told):
    plant(places[0], "mine", source)
    with pytest.raises(UsageError, match=told):
        envs.make("mine")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return None", r"make\('t'\) gave nothing"),
        ("raise RuntimeError('no')", "RuntimeError in making mine/t: no"),
        ("raise KeyError('no')", "KeyError in making mine/t: 'no'"),
    ],
)
def test_what_makes_no_game_is_a_failure_of_the_environment(places, body, told):
    plant(places[0], "mine", f"TASKS = ('t',)\ndef make(task):\n    {body}\n")
    with pytest.raises(EnvFailure, match=told):
        envs.make("mine")
    (report,) = check_env("mine", 3)
    assert report.ok is False
    assert "mine/t: can be made: " in report.what
