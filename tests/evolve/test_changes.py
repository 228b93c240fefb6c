"""Kinds of change, told from the files; what CHANGES.md claims."""

import pytest

from automem import plugins
from automem.errors import UsageError
from automem.evolve.changes import KINDS, STRUCTURAL, claimed, found
from automem.evolve.check import _kinds
from automem.scaffold.spec import load

STRUCTURE = frozenset({"memory-structure"})
PROMPT = frozenset({"memory-prompt"})
OBSERVATION = frozenset({"observation-processing"})
GUARD = frozenset({"action-guard"})
ADVICE = frozenset({"task-advice"})
#: New words may be about memory or about the game: the files cannot tell.
WORDS = frozenset({"memory-prompt", "task-advice"})

LOG = {"name": "notes.txt", "kind": "log", "keep": 40, "about": "what was seen"}
TABLE = {"name": "places.txt", "kind": "table", "key": ["name"]}
OPEN = '{% include "automem/observation.j2" %}\n# PLAN\n'
LOGIC = """
LIMIT = 3

def near(state):
    return str(state)[:LIMIT]

def observe(state, history):
    return {"near": near(state)}

def guard(action, state, history):
    return None
"""


@pytest.fixture
def shown(scaffold):
    """The changes that the files show between a scaffold made as `before` and one made as `after`."""
    return lambda before, after: found(scaffold(**before), scaffold(name="made-2", **after))


@pytest.fixture
def of_files(shown):
    return lambda before, after: shown({"files": before}, {"files": after})


@pytest.fixture
def of_plan(shown):
    return lambda before, after: shown({"prompts": {"plan.j2": OPEN + before}}, {"prompts": {"plan.j2": OPEN + after}})


@pytest.fixture
def of_logic(shown):
    return lambda before, after: shown({"logic": before}, {"logic": after})


def test_nothing_changed_shows_nothing(shown):
    assert shown({}, {}) == []


def test_name_parent_and_about_are_no_changes(shown):
    assert shown({}, {"parent": "made", "about": "much better", "env": "courier"}) == []


@pytest.mark.parametrize(
    "after",
    [
        [{**LOG, "kind": "note", "keep": None}, TABLE],
        [{"name": "notes.txt", "kind": "table", "key": ["name"], "about": "what was seen"}, TABLE],
        [LOG, {**TABLE, "key": ["level", "x", "y"]}],
        [{**LOG, "keep": 80}, TABLE],
        [{**LOG, "header": 2}, TABLE],
        [{**LOG, "max_chars": 100}, TABLE],
        [{**LOG, "kind": "reference", "keep": None}, TABLE],
        [{**LOG, "kind": "auto", "keep": None}, TABLE],
        [LOG, {**TABLE, "logic": True}],
        [LOG, TABLE, {"name": "goals.txt", "kind": "note", "about": "what to do next"}],
        [LOG],
        [TABLE, LOG],
    ],
)
def test_how_files_are_kept_is_memory_structure(of_files, after):
    assert of_files([LOG, TABLE], after) == [STRUCTURE]


def test_what_a_file_is_said_to_be_for_is_wording(of_files):
    assert of_files([LOG, TABLE], [{**LOG, "about": "what was seen, and where"}, TABLE]) == [WORDS]
    assert of_files([LOG, TABLE], [{**LOG, "about": "all", "keep": 5}, TABLE]) == [STRUCTURE, WORDS]


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        ({"operations": {"log": ["APPEND", "DONE"], "plan": ["READ", "ACTION"]}}, STRUCTURE),
        ({"budget": {"log_rounds": 2}}, STRUCTURE),
        ({"budget": {"history": 4}}, STRUCTURE),
        ({"dialect": "tools"}, PROMPT),
        ({"constrained": True}, PROMPT),
        ({"plan": "handoff"}, PROMPT),
        ({"examples": {"plan": [{"user": "a", "assistant": "b"}]}}, WORDS),
    ],
)
def test_other_keys_of_scaffold_yaml(shown, after, kind):
    assert shown({}, after) == [kind]


def test_initial_contents_are_advice_and_their_headers_are_structure(shown):
    def of(before, after):
        return shown({"memory": {"notes.txt": before}}, {"memory": {"notes.txt": after}})

    assert of("", "# place | what\n") == [STRUCTURE]
    assert of("", "# place | what\nkeep to the left wall\n") == [ADVICE]
    assert of("keep to the left wall\n", "") == [STRUCTURE]
    assert of("left\nright\n", "right\nleft\n") == [STRUCTURE]
    assert of("left\n", "left\nthen right\n") == [ADVICE]
    assert shown({}, {"memory": {"places.txt": "hall | north\n"}}) == [ADVICE]


@pytest.mark.parametrize(
    "after",
    [
        "Decide with care.",
        "State what you see, look at the blocks, think of history.last and of memory.text(notes.txt).",
        "{# {{ state }} #}Decide.",
        "{% raw %}{{ state.position }}{% endraw %}",
        '{% include "automem/offered.j2" %}',
        "",
    ],
)
def test_other_words_in_a_prompt_are_wording(of_plan, after):
    assert of_plan("Decide.", after) == [WORDS]


@pytest.mark.parametrize(
    "after",
    [
        "{{ memory.text('notes.txt') }}",
        "{{ memory.tail('notes.txt', 5) }}",
        '{% include "automem/memory.j2" %}',
        "{{ memory.index }}",
        "{{ blocks.near }}",
        "{{ state.position }}",
        "{% for step in history.steps %}{{ step.action }}{% endfor %}",
        "{% if history.unchanged > 3 %}You are stuck.{% endif %}",
    ],
)
def test_a_prompt_that_shows_more_is_observation_processing(of_plan, after):
    assert of_plan("Decide.", f"Decide.\n{after}") == [OBSERVATION]
    assert of_plan(f"Decide.\n{after}", "Decide.") == [WORDS]


def test_another_file_or_more_of_it_is_more(of_plan):
    assert of_plan("{{ memory.text('a.txt') }}", "{{ memory.text('b.txt') }}") == [OBSERVATION]
    assert of_plan("{{ memory.tail('a.txt', 5) }}", "{{ memory.tail('a.txt', 9) }}") == [OBSERVATION]
    assert of_plan("{{ memory.tail('a.txt', 5) }}", "So: {{ memory.tail( 'a.txt', 5 ) }}") == [WORDS]
    assert of_plan("{{ state.x }}", "{{ state.y }}") == [OBSERVATION]


def test_what_moves_into_a_partial_is_shown_as_before(shown):
    plain = {"prompts": {"plan.j2": OPEN + "{{ state.position }}"}}
    split = {"prompts": {"plan.j2": OPEN + '{% include "place.j2" %}', "place.j2": "{{ state.position }}"}}
    more = {"prompts": {"plan.j2": OPEN + '{% include "place.j2" %}', "place.j2": "{{ state.position }}{{ blocks.b }}"}}
    unused = {"prompts": {"plan.j2": OPEN + "{{ state.position }}", "place.j2": "{{ blocks.b }}"}}
    assert shown(plain, split) == [WORDS]
    assert shown(split, more) == [OBSERVATION]
    assert shown(plain, unused) == [WORDS]


@pytest.mark.parametrize("source", ["{% if %}", "{{ " + "(" * 5000, "{{ " + "9" * 5000 + " }}"])
def test_a_template_that_cannot_be_read_shows_nothing(of_plan, source):
    assert of_plan("Decide.", source) == [WORDS]


@pytest.mark.parametrize(
    ("function", "arguments", "kind"),
    [
        ("observe", "state, history", OBSERVATION),
        ("upsert", "file, rows, entry", STRUCTURE),
        ("auto_files", "state, history, files", STRUCTURE),
        ("guard", "action, state, history", GUARD),
        ("repair", "action", GUARD),
    ],
)
def test_each_function_has_its_kind(of_logic, function, arguments, kind):
    source = f"def {function}({arguments}):\n    return None\n"
    assert of_logic("", source) == [kind]
    assert of_logic(source, source.replace("None", "{}")) == [kind]
    assert of_logic(source, "") == [kind]


def test_only_the_function_that_changed_counts(of_logic):
    assert of_logic(LOGIC, LOGIC.replace('"near"', '"close"')) == [OBSERVATION]
    assert of_logic(LOGIC, LOGIC.replace("return None", "return 'no'")) == [GUARD]


@pytest.mark.parametrize(
    "change", [("LIMIT = 3", "LIMIT = 4"), ("[:LIMIT]", "[:9]"), ("LIMIT = 3", "import re as LIMIT")]
)
def test_helper_code_counts_for_the_functions_that_use_it(of_logic, change):
    assert of_logic(LOGIC, LOGIC.replace(*change)) == [OBSERVATION]


@pytest.mark.parametrize(
    "code", ["print('x')", "if True:\n    LIMIT = 9", "for LIMIT in (1, 2):\n    pass", "del near"]
)
def test_code_that_may_be_about_anything_counts_for_every_function(of_logic, code):
    assert of_logic(LOGIC, f"{LOGIC}\n{code}\n") == [GUARD, OBSERVATION]


def test_code_that_no_function_can_use_is_no_change(of_logic):
    assert of_logic("", "LIMIT = 3\n\ndef helper():\n    return LIMIT\n") == []


def test_comments_and_layout_are_no_change(of_logic):
    text = LOGIC.replace("LIMIT = 3", "LIMIT=3  # of three").replace(
        "    return None", '    """Never."""\n    return None'
    )
    assert of_logic(LOGIC, f'"""Better."""\n# much better\n{text}') == []


@pytest.mark.parametrize("source", ["def observe(", "x = 'a\0b'", "x = " + "-" * 100_000 + "1"])
def test_logic_that_is_not_python(of_logic, source):
    with pytest.raises(UsageError, match=r"logic\.py"):
        of_logic("", source)


def with_changes(scaffold_folder, text):
    folder = scaffold_folder()
    (folder / "CHANGES.md").write_text(text, encoding="utf-8")
    return load(str(folder))


def test_entries_of_changes_md(scaffold_folder):
    text = "# made\n\nAll.\n\n## memory-structure: a table\n\nWhy\nso.\n\n## task-advice : walk left\n## Notes\nEnd.\n"
    first, second = claimed(with_changes(scaffold_folder, text))
    assert (first.kind, first.title, first.why) == ("memory-structure", "a table", "Why\nso.")
    assert (second.kind, second.title, second.why) == ("task-advice", "walk left", "## Notes\nEnd.")


@pytest.mark.parametrize("text", ["", "words", "# memory-structure: a\n", "### memory-structure: a\n", "## a table\n"])
def test_changes_md_without_entries(scaffold_folder, text):
    assert claimed(with_changes(scaffold_folder, text)) == []


@pytest.mark.parametrize("kind", ["memory-structures", "Memory-Structure", "memory structure", "memory_structure"])
def test_unknown_kinds_are_refused_with_the_nearest(scaffold_folder, kind):
    with pytest.raises(UsageError) as caught:
        claimed(with_changes(scaffold_folder, f"## task-advice: a\n\n## {kind}: b\n"))
    assert caught.value.message == f"CHANGES.md: unknown kind of change '{kind}'"
    assert "did you mean 'memory-structure'?" in caught.value.hint


def children():
    scaffolds = [load(name) for name in plugins.available(plugins.SCAFFOLD)]
    return [made.name for made in scaffolds if made.spec.parent]


@pytest.mark.parametrize("name", children())
def test_shipped_scaffolds_claim_what_they_changed(name):
    child = load(name)
    parent = load(child.spec.parent)
    problems = list(_kinds(parent, child, frozenset(KINDS)))
    if name == "window-cot":
        assert problems == ["no structural change: wording alone is not a revision"]
    else:
        assert problems == []


def test_shipped_children_are_tested():
    assert {"courier-v1", "window-cot"} <= set(children())
    assert frozenset(KINDS) > STRUCTURAL
