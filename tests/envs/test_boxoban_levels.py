"""Boxoban: what a file of levels may hold, and that a run with another one does not begin."""

import importlib
import importlib.util

import pytest

from automem import env as envs
from automem import plugins
from automem.cli.run import run_config
from automem.errors import UsageError
from automem.scaffold.spec import load

if importlib.util.find_spec("minihack") is None:
    pytest.skip("needs the package minihack: pip install 'automem[envs]'", allow_module_level=True)

minihack = plugins.load_module(plugins.find(plugins.ENV, "minihack"))
boxoban = importlib.import_module(f"{minihack.__name__}.boxoban")

ROWS = "#####\n#@$.#\n#####\n"
OTHER = "#####\n#.$@#\n#####\n"
WRONG = {
    "not UTF-8": (b"; 0\n\xff\xfe\n", "not UTF-8 text"),
    "a web page": (b"<!DOCTYPE html>\n<html></html>\n", "line 1: '<!DOCTYPE html>' stands before the first level"),
    "empty": (b"", "no level in"),
    "blank": (b"\n\n", "no level in"),
    "no rows": (b"; 7\n\n", "level 7: it has no rows"),
    "no player": (b"; 7\n#####\n# $.#\n#####\n", "level 7: 0 players @, not one"),
    "two players": (b"; 7\n######\n#@$.@#\n######\n", "level 7: 2 players @, not one"),
    "uneven": (b"; 7\n#####\n#@$.#\n####\n", "level 7: rows of 5 and of 4 characters"),
    "alien": (b"; 7\n#####\n#@*.#\n#####\n", r"level 7: '\*' is none of '# @\$\.'"),
    "a tab": (b"; 7\n#####\n#@$.#\n###\t#\n", r"level 7: '\\t' is none of"),
    "NUL": (b"; 7\n\0\0\0\n", r"level 7: '\\x00' is none of"),
    "too wide": (f"; 7\n@$.{' ' * 74}\n".encode(), "level 7: 77 by 1 squares, but the map has 76 by 21"),
    "too high": (b"; 7\n@$.\n" + b"###\n" * 21, "level 7: 3 by 22 squares, but the map has 76 by 21"),
    "no goal": (b"; 7\n#####\n#@$ #\n#####\n", r"level 7: 1 boxes \$ for 0 goals \."),
    "no box": (b"; 7\n#####\n#@ .#\n#####\n", r"level 7: 0 boxes \$ for 1 goals \."),
    "neither": (b"; 7\n#####\n#@  #\n#####\n", r"level 7: 0 boxes \$ for 0 goals \."),
    "few boxes": (b"; 7\n######\n#@$..#\n######\n", r"level 7: 1 boxes \$ for 2 goals \."),
    "two in one": (f"; 0\n{ROWS}\n; 7\n{ROWS}\n{OTHER}".encode(), "level 7: 2 players @, not one"),
    "no number": (f";\n{ROWS}\n;\n{ROWS}@".encode(), "level number 2: rows of 5 and of 1 characters"),
}


@pytest.fixture
def file(tmp_path):
    """The only file of the set hard, not yet written."""
    (tmp_path / "hard").mkdir()
    return tmp_path / "hard" / "000.txt"


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_level_is_refused_before_a_game(file, name):
    content, told = WRONG[name]
    file.write_bytes(content)
    with pytest.raises(UsageError, match=told) as refused:
        envs.make("minihack", "boxoban-hard", levels=str(file.parents[1]))
    assert str(file) in refused.value.message
    assert "a level is a line '; NUMBER'" in refused.value.hint


def test_a_folder_is_no_file_of_levels(file):
    file.mkdir()
    with pytest.raises(UsageError, match=r"cannot read .*000\.txt: Is a directory"):
        envs.make("minihack", "boxoban-hard", levels=str(file.parents[1]))


@pytest.mark.parametrize("place", ["", "no\0where", "n" * 5000, "/dev/null"])
def test_a_place_that_is_none_has_no_levels(monkeypatch, place):
    monkeypatch.delenv(boxoban.VARIABLE, raising=False)
    with pytest.raises(UsageError, match=r"needs a folder with levels|no levels \*\.txt in") as refused:
        envs.make("minihack", "boxoban-hard", levels=place)
    assert "git clone" in refused.value.hint


@pytest.mark.parametrize("text", [f"; 0\n{ROWS} \n; 1\n{OTHER}", f"\ufeff; 0\n\n{ROWS}; 1\n{OTHER}\n\n"])
def test_levels_are_read_with_any_blank_lines(file, text):
    for newline in ("\n", "\r\n"):
        file.write_text(text, encoding="utf-8", newline=newline)
        assert boxoban.read_levels(file) == [ROWS, OTHER]


@pytest.mark.parametrize("rows", ["@$.\n", f"@$.{' ' * 73}\n" + f"{'#' * 76}\n" * 20])
def test_the_smallest_and_the_largest_level_are_played(file, rows):
    file.write_text(f"; 0\n{rows}", encoding="utf-8")
    env = envs.make("minihack", "boxoban-hard", levels=str(file.parents[1]))
    env.reset(seed=1)
    assert env.step("east")[1:3] == (1.0, True)
    env.close()


def config(folder, *seeds, later=()):
    """What `automem run` asks for before it plays."""
    models = {"gameplay": "scripted:random"}
    options = {"levels": str(folder)}
    return run_config("minihack/boxoban-hard", list(seeds), load("window"), models, {}, options, {}, later)


def test_all_files_that_the_seeds_fall_on_are_read_before_a_run(file):
    """Of two files the first is drawn by seeds 1 to 3, which seed 0, of the game that is made first, draws not."""
    file.write_text(f"; 0\n{ROWS}", encoding="utf-8")
    file.with_name("001.txt").write_text(f"; 0\n{OTHER}", encoding="utf-8")
    levels = boxoban.Levels(str(file.parents[1]), "hard")
    drawn = {seed: levels.choose(seed) for seed in range(8)}
    bad = next(seed for seed in drawn if drawn[seed] != drawn[0])
    good = [seed for seed in drawn if drawn[seed] == drawn[0]]
    wrong = file if drawn[bad] == ROWS else file.with_name("001.txt")
    wrong.write_text("; 0\nno level\n", encoding="utf-8")
    assert config(file.parents[1], *good).seeds == good
    for seeds, later in (((*good, bad), ()), (good, (bad,)), ((bad + 2**32 * 3,), ())):
        with pytest.raises(UsageError, match=f"{wrong.name}, level 0"):
            config(file.parents[1], *seeds, later=later)


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_run_of_wrong_levels_writes_nothing(automem, file, more):
    file.write_bytes(WRONG["few boxes"][0])
    asked = ("-S", "window", "-m", "scripted:random", "-s", f"env.levels={file.parents[1]}", "-o", "played")
    code, out, err = automem("run", "minihack/boxoban-hard", *asked, *more)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: boxoban: {file}, level 7: 1 boxes $ for 2 goals .\nhint: ")
    assert not (file.parents[1] / "played").exists()
