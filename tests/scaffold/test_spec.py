"""Loading, saving and copying scaffolds; what does not belong in one; digests."""

import shutil

import pytest

from automem import plugins
from automem.errors import ScaffoldFailure, UsageError
from automem.play.check import check_scaffold
from automem.scaffold.spec import MAX_FILE, MAX_FILES, copy_as, load

SHIPPED = sorted(plugins.available(plugins.SCAFFOLD))


def refusal(folder, **overrides):
    """Message and hint with which loading is refused."""
    with pytest.raises(UsageError) as caught:
        load(str(folder), overrides)
    return caught.value.message, caught.value.hint


def test_a_scaffold_as_written(scaffold_folder):
    folder = scaffold_folder(logic="X = 1\n", memory={"notes.txt": "a lamp"}, about="for tests")
    made = load(str(folder))
    assert (made.name, made.spec.about, made.logic, made.initial) == (
        "made",
        "for tests",
        "X = 1\n",
        {"notes.txt": "a lamp"},
    )
    assert sorted(made.prompts) == ["gameplay.j2", "log.j2", "plan.j2", "system.j2"]


@pytest.mark.parametrize("linked", ["prompts/more.j2", "memory/notes.txt", "logic.py", "memory"])
def test_links_are_refused(scaffold_folder, tmp_path, linked):
    folder = scaffold_folder()
    (tmp_path / "secret").mkdir()
    (folder / linked).parent.mkdir(exist_ok=True)
    (folder / linked).symlink_to(tmp_path / "secret")
    assert refusal(folder)[0] == f"{folder / linked}: a scaffold holds no links"


@pytest.mark.parametrize(
    "foreign", ["notes.md", "prompts/log.txt", "memory/a/b.txt", "extra/x", ".hidden", "prompts/a/b.j2"]
)
def test_foreign_files_are_refused(scaffold_folder, foreign):
    folder = scaffold_folder()
    (folder / foreign).parent.mkdir(parents=True, exist_ok=True)
    (folder / foreign).write_text("x")
    assert refusal(folder)[0] == f"{folder / foreign} does not belong in a scaffold"


def test_too_large_and_too_many_files_are_refused(scaffold_folder):
    large = scaffold_folder("large", memory={"notes.txt": "x" * (MAX_FILE + 1)})
    assert "at most 64 files of 256 KiB" in refusal(large)[0]
    many = scaffold_folder("many", prompts={f"p{n}.j2": "x" for n in range(MAX_FILES)})
    assert "at most 64 files of 256 KiB" in refusal(many)[0]


def test_text_that_is_not_utf_8_is_refused(scaffold_folder):
    folder = scaffold_folder(memory={"notes.txt": "x"})
    (folder / "memory" / "notes.txt").write_bytes(b"\xff\xfe")
    assert refusal(folder)[0] == f"{folder}/memory/notes.txt: not UTF-8 text"


def test_undeclared_memory_files_are_refused(scaffold_folder):
    folder = scaffold_folder(memory={"other.txt": "x"})
    assert "memory/other.txt is not declared" in refusal(folder)[0]


def test_a_file_declared_twice_is_refused(scaffold_folder):
    folder = scaffold_folder(files=[{"name": "a.txt", "kind": "log"}, {"name": "a.txt", "kind": "note"}])
    assert "file 'a.txt' is declared twice" in refusal(folder)[0]


@pytest.mark.parametrize("missing", ["system", "plan", "log", "gameplay"])
def test_prompts_of_the_phases_played_must_be_there(scaffold_folder, missing):
    folder = scaffold_folder(plan="handoff")
    (folder / "prompts" / f"{missing}.j2").unlink()
    assert f"prompts/{missing}.j2" in refusal(folder)[0]


def test_prompts_of_other_phases_need_not_be_there(scaffold_folder):
    folder = scaffold_folder(operations={"plan": ["ACTION"]})
    (folder / "prompts" / "log.j2").unlink()
    (folder / "prompts" / "gameplay.j2").unlink()
    assert load(str(folder)).name == "made"


def line_of(folder, text):
    lines = (folder / "scaffold.yaml").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_an_unknown_key_is_named_with_its_line_and_the_nearest(scaffold_folder):
    folder = scaffold_folder(budgets={"log_rounds": 3})
    line = line_of(folder, "budgets")
    assert refusal(folder) == (
        f"{folder}/scaffold.yaml, line {line}: budgets: unknown key 'budgets'",
        "did you mean 'budget'?",
    )


def test_an_unknown_inner_key_is_named_with_its_line_and_the_nearest(scaffold_folder):
    folder = scaffold_folder(budget={"log_round": 3})
    message, hint = refusal(folder)
    assert message.startswith(f"{folder}/scaffold.yaml, line {line_of(folder, 'log_round:')}: budget.log_round")
    assert hint == "did you mean 'log_rounds'?"


def test_an_unknown_key_of_a_file_is_named(scaffold_folder):
    folder = scaffold_folder(files=[{"name": "a.txt", "kind": "log"}, {"name": "b.txt", "kind": "log", "kept": 3}])
    message, hint = refusal(folder)
    assert f"line {line_of(folder, 'kept')}: files.1.kept" in message
    assert hint == "did you mean 'keep'?"


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"plan": "both"}, "plan: input should be 'merged' or 'handoff'"),
        ({"name": "a/b"}, "name: string should match pattern"),
        ({"budget": {"log_rounds": 0}}, "budget.log_rounds: input should be greater than or equal to 1"),
        ({"operations": {"plan": ["SEARCH"]}}, "plan must offer ACTION"),
        ({"operations": {"log": ["FORGET"]}}, "unknown operation 'FORGET' in log"),
        ({"operations": {"log": ["ACTION"]}}, "operation ACTION cannot be offered in log"),
        ({"files": [{"name": "../x", "kind": "log"}]}, "a file name is ASCII letters"),
        ({"files": [{"name": "x", "kind": "note", "keep": 3}]}, "'keep' is for kind log"),
    ],
)
def test_wrong_values_are_named(scaffold_folder, spec, what):
    assert what in refusal(scaffold_folder(**spec))[0]


def test_overrides(scaffold_folder):
    folder = scaffold_folder()
    made = load(str(folder), {"budget.log_rounds": 9, "plan": "handoff", "memory.search_results": None})
    assert (made.spec.budget.log_rounds, made.spec.budget.plan_rounds) == (9, 4)
    assert (made.spec.plan, made.spec.memory.search_results) == ("handoff", None)
    assert made.digest != load(str(folder)).digest


def test_wrong_overrides_are_named(scaffold_folder):
    message, hint = refusal(scaffold_folder(), **{"budget.log_round": 3})
    assert "-s budget.log_round" in message
    assert hint == "did you mean 'log_rounds'?"
    assert (
        refusal(scaffold_folder("other", plan="merged"), **{"plan.x": 3})[0]
        == "-s plan.x: 'plan' is a value, not a group of keys"
    )


def test_a_digest_is_the_same_for_copies(scaffold_folder, tmp_path):
    folder = scaffold_folder(memory={"notes.txt": "a"})
    copy = shutil.copytree(folder, tmp_path / "elsewhere" / "copy")
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "logic.pyc").write_bytes(b"\xff")
    assert load(str(copy)).digest == load(str(folder)).digest


@pytest.mark.parametrize("changed", ["scaffold.yaml", "logic.py", "prompts/log.j2", "memory/notes.txt"])
def test_a_digest_is_another_after_any_change_of_what_is_played(scaffold_folder, changed):
    folder = scaffold_folder(logic="X = 1\n", memory={"notes.txt": "a\n"})
    before = load(str(folder)).digest
    with (folder / changed).open("a") as file:
        file.write("\n# more\n")
    assert load(str(folder)).digest != before


def test_a_digest_does_not_depend_on_the_account_of_changes(scaffold_folder):
    folder = scaffold_folder()
    before = load(str(folder)).digest
    (folder / "CHANGES.md").write_text("# made\n")
    assert load(str(folder)).digest == before


@pytest.mark.parametrize("overrides", [{}, {"budget.log_rounds": 9, "about": "höher"}])
def test_what_is_saved_loads_to_the_same_digest(scaffold_folder, tmp_path, overrides):
    made = load(str(scaffold_folder(logic="X = 'ä'\n", memory={"notes.txt": "a"})), overrides)
    target = tmp_path / "saved"
    target.mkdir()
    (target / "leftover.md").write_text("x")
    made.save(target)
    saved = load(str(target))
    assert (saved.digest, saved.spec) == (made.digest, made.spec)


def test_line_ends_and_byte_order_are_kept(scaffold_folder, tmp_path):
    folder = scaffold_folder()
    (folder / "prompts" / "more.j2").write_bytes("\ufeffa\r\nb\rc\n".encode())
    made = load(str(folder))
    made.save(tmp_path / "saved")
    assert load(str(tmp_path / "saved")).digest == made.digest


def test_a_copy_names_its_parent(scaffold_folder, tmp_path):
    parent = load(str(scaffold_folder(about="for tests")))
    copy = load(str(copy_as(parent, "made-2", tmp_path / "made-2")))
    assert (copy.name, copy.spec.parent, copy.spec.about) == ("made-2", "made", "for tests")
    assert copy.prompts == parent.prompts
    assert "A copy of made" in copy.texts["CHANGES.md"]


def test_a_copy_overwrites_nothing_and_needs_a_name(scaffold_folder, tmp_path):
    folder = scaffold_folder()
    with pytest.raises(UsageError, match="exists already"):
        copy_as(load(str(folder)), "made-2", folder)
    with pytest.raises(UsageError, match="pattern"):
        copy_as(load(str(folder)), "../made", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_scaffold_loads_and_passes_the_check(name):
    made = load(name)
    assert made.name == name
    assert made.spec.about
    assert name in made.texts["CHANGES.md"].splitlines()[0]
    assert made.spec.parent is None or made.spec.parent in SHIPPED
    if made.spec.env == "crafter":
        pytest.importorskip("crafter")
    assert " characters" in check_scaffold(made)


def test_the_check_finds_what_fails_only_when_played(scaffold):
    made = scaffold(prompts={"log.j2": "# LOG\n{{ history.last.action }} {{ nothing }}"})
    with pytest.raises(ScaffoldFailure, match=r"prompts/log\.j2, line 2, step 1: 'nothing' is undefined"):
        check_scaffold(made)


def test_the_check_wants_the_headings(scaffold):
    with pytest.raises(ScaffoldFailure, match=r"prompts/plan\.j2 has no line '# PLAN'"):
        check_scaffold(scaffold(prompts={"plan.j2": "decide: {{ observation }}"}))
    assert check_scaffold(scaffold()).startswith("log and plan on courier/small")


def test_shipped_scaffolds_are_found_from_anywhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert {"courier-v0", "courier-v1", "window"} <= set(plugins.available(plugins.SCAFFOLD))
    assert load("courier-v1").folder.name == "courier-v1"
