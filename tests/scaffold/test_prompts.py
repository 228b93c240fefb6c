"""Prompts: what templates see, and that faults name file, line and step."""

import pytest

from automem.agent.context import History, LastSteps
from automem.errors import ScaffoldFailure
from automem.memory.files import Memory, MemoryLimits
from automem.memory.kinds import FileSpec
from automem.scaffold.prompts import MemoryView, Prompts


def variables():
    history = History(LastSteps(4))
    history.start({"position": [0, 0]})
    memory = Memory([FileSpec(name="notes.txt", kind="log", about="all")], MemoryLimits(), {"notes.txt": "a lamp"})
    return {"observation": "a room", "history": history.export(), "memory": MemoryView(memory), "operations": ["READ"]}


def render(source, **others):
    texts = {"log.j2": source, **{f"{name}.j2": text for name, text in others.items()}}
    return Prompts("made", texts).render("log.j2", variables(), step=9)


def failure(source, **others):
    with pytest.raises(ScaffoldFailure) as caught:
        render(source, **others)
    return caught.value.message


def test_a_prompt_sees_observation_and_memory():
    assert render("{{ observation }}: {{ memory.text('notes.txt') }}\n{{ memory.index }}") == (
        "a room: a lamp\n- notes.txt (log, 1 lines): all"
    )


def test_shipped_partials_carry_the_headings():
    source = "".join(f'{{% include "automem/{name}.j2" %}}\n' for name in ("observation", "memory", "offered"))
    assert render(source).split("\n") == [
        "# Observation",
        "a room",
        "# Memory",
        "- notes.txt (log, 1 lines): all",
        "Operations now: READ.",
    ]


def test_partials_of_the_scaffold_itself():
    assert render('{% include "more.j2" %}!', more="{{ observation }}") == "a room!"


def test_surrounding_blank_lines_are_cut_and_inner_ones_stay():
    assert render("\n\na\n\n\nb\n{% if true %}\nc\n{% endif %}\n\n") == "a\n\n\nb\nc"


@pytest.mark.parametrize(
    ("source", "line", "what"),
    [
        ("a\n\n{{ nothing }}", 3, "'nothing' is undefined"),
        ("{{ history.nothing }}", 1, "nothing"),
        ("\n{{ history.last.action }}", 2, "None"),
        ("{{ ''.__class__.__mro__ }}", 1, "__class__"),
        ("{{ history.steps.append(1) }}", 1, "can be called"),
        ("{{ history.update(step=1) }}", 1, "can be called"),
        ("{{ memory._memory }}", 1, "_memory"),
        ("{{ memory.text('nothing.txt') }}", 1, "nothing.txt"),
        ("{{ cycler.__init__.__globals__ }}", 1, "__init__"),
        ("a\n{{ 1 / 0 }}", 2, "division"),
        ("a\n{{ 'a' + 1 }}", 2, "str"),
        ("a\n{% for x in 5 %}{% endfor %}", 2, "iterable"),
        ("a\n{% if %}", 2, "Expected an expression"),
        ('a\n{% include "nothing.j2" %}', 2, "no template 'nothing.j2'"),
        ("{{ range(10000000) | list }}", 1, "Range too big"),
    ],
)
def test_faults_name_file_line_and_step(source, line, what):
    message = failure(source)
    assert message.startswith(f"scaffold 'made': prompts/log.j2, line {line}, step 9: ")
    assert what in message


def test_a_fault_in_a_partial_names_the_partial():
    assert "prompts/more.j2, line 2, step 9" in failure('{% include "more.j2" %}', more="a\n{{ nothing }}")
    assert "prompts/more.j2, line 1, step 9" in failure('a\n\n{% include "more.j2" %}', more="{% if %}")


@pytest.mark.parametrize(
    "source", ['{% include "log.j2" %}', "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}"]
)
def test_endless_recursion_is_a_fault(source):
    assert failure(source).startswith("scaffold 'made': prompts/log.j2, ")


def test_a_missing_prompt():
    with pytest.raises(ScaffoldFailure, match=r"prompts/plan\.j2, .*no template 'plan\.j2'"):
        Prompts("made", {}).render("plan.j2", {}, 0)


def test_a_render_leaves_nothing_for_the_next():
    prompts = Prompts("made", {"log.j2": "{{ x is defined }}{% set x = 1 %}{{ x }}"})
    assert [prompts.render("log.j2", {}, 0) for _ in range(2)] == ["False1", "False1"]
