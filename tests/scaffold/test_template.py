"""The bounded subset of Jinja2: what prompts need works, what could hang or flood the process is stopped at once."""

import time

import pytest

from automem.errors import ScaffoldFailure
from automem.scaffold.prompts import Prompts

STATE = {"position": [3, 4], "inventory": {"wood": 2, "stone": 0}, "name": "Ada", "secret": None}


def render(source, **others):
    texts = {"log.j2": source, **{f"{name}.j2": text for name, text in others.items()}}
    return Prompts("made", texts).render("log.j2", {"state": STATE, "observation": "a room"}, step=0)


def failure(source, **others):
    began = time.process_time()
    with pytest.raises(ScaffoldFailure) as caught:
        render(source, **others)
    assert time.process_time() - began < 5
    return caught.value.message


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% for k, v in state.inventory.items() %}{{ k }}={{ v }} {% endfor %}", "wood=2 stone=0"),
        ("{% for k, v in state.inventory|dictsort if v %}{{ loop.index }}{{ k }}{% else %}none{% endfor %}", "1wood"),
        ("{% set x, y = state.position %}{{ x }}", None),
        ("{{ state.position[0] * 2 + 1 }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 1 / 4 }}", "7 3 3 0.25"),
        ("{{ state.position | join(', ') }}; {{ [1, 2, 3][1:] | sum }}; {{ 2.345 | round(1) }}", "3, 4; 5; 2.3"),
        ("{{ 'yes' if state.name is defined and state.nothing is not defined else 'no' }}", "yes"),
        ("{{ state.nothing | default('nothing') }} {{ state.secret is none }}", "nothing True"),
        ("{{ observation.split()[-1] | upper }} {{ observation ~ '!' }}", "ROOM a room!"),
        ("{{ {'a': [1, (2, 3)]} | tojson }}", '{"a": [1, [2, 3]]}'),
        ("{% for i in range(3) %}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}", "0,1,2"),
        ("{{ 3 in state.position }} {{ 'wood' in state.inventory }}", "True True"),
        ('{% include "more.j2" %}', "Ada"),
    ],
)
def test_what_prompts_need(source, text):
    if text is None:
        assert "set takes a plain name" in failure(source)
    else:
        assert render(source, more="{{ state.name }}") == text


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "can be called"),
        ("{{ state['__class__'] }}", "unsafe"),
        ("{{ state|attr('__class__') }}", "no filter 'attr'"),
        ("{{ [state]|map(attribute='__class__')|list }}", "no filter 'map'"),
        ("{{ [state, state]|sort(attribute='__class__')|list }}", "unsafe"),
        ("{{ self._TemplateReference__context }}", "unsafe"),
        ("{{ lipsum.__globals__ }}", "'lipsum' is undefined"),
        ("{{ '{0.__class__}'.format(state) }}", "can be called"),
        ("{{ '%s'|format(state) }}", "no filter 'format'"),
        ("{{ '%1000000000d' % 1 }}", "for numbers"),
        ("{{ state.update(a=1) }}", "can be called"),
        ("{% set state.name = 1 %}", "plain name"),
        ("{% import 'log.j2' as again %}", "import is not part"),
        ("{% extends 'log.j2' %}", "extends is not part"),
        ("{% macro again() %}{% endmacro %}", "macro is not part"),
        ("{% call again() %}{% endcall %}", "callblock is not part"),
        ("{% filter upper %}a{% endfilter %}", "filterblock is not part"),
        ("{% block a %}{% endblock %}", "block is not part"),
        ("{{ 2 ** 100 }}", "pow is not part"),
        ("{% include state.name %}", "include takes a name"),
        ("{% for a in [[1]] recursive %}{{ loop(a) }}{% endfor %}", "recursive loops"),
    ],
)
def test_what_is_not_of_the_subset(source, reason):
    assert reason in failure(source)


TENFOLD = "{% set a = ['x', 'x'] %}" + "{% set a = [a, a, a, a, a, a, a, a, a, a] %}" * 9
LISTS = "{% set a = range(40000)|list %}{% set b = range(40000)|list %}{% for i in range(9999) %}"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (f"{TENFOLD}{{{{ a }}}}", "in all"),
        (f"{TENFOLD}{{{{ a ~ '' }}}}", "in all"),
        (TENFOLD.replace("[", "(").replace("]", ")") + "{{ [a]|unique|list }}", "in all"),
        ("{% set a = 'xxxxxxxxxx' %}" + "{% set a = a ~ a %}" * 40, "50000 characters"),
        ("{% set a = 'xxxxxxxxxx' %}" + "{% set a = [a, a]|join %}" * 40, "50000 characters"),
        ("{% set a = [1, 2] %}" + "{% set a = a + a %}" * 40, "in all|50000"),
        ("{% set a = 3 %}" + "{% set a = a * a %}" * 60, "numbers up to 1e"),
        ("{{ 'a' * 100000000000 }}", "for numbers"),
        ("{{ [1] * 100000000000 }}", "for numbers"),
        ("{{ 1.5|round(100000000, 'ceil') }}", "round takes"),
        ("{{ 5|round(-100000000) }}", "round takes"),
        ("{{ [1, 2]|tojson(indent=1000000000) }}", "indent of 8"),
        ("{{ range(10 ** 9) }}", "pow"),
        ("{{ range(99999999)|list }}", "Range too big"),
        ("{{ range(100000)|sum }}", "50000 characters or items"),
        ("{% for i in range(30000) %}{% endfor %}", "too much work"),
        ("{% for i in range(150) %}{% for j in range(150) %}{% endfor %}{% endfor %}", "too much work"),
        (LISTS + "{% if a == b %}{% endif %}{% endfor %}", "too much work"),
        (LISTS + "{% if 'x' in a %}{% endif %}{% endfor %}", "too much work"),
        (LISTS + "{% if a is eq b %}{% endif %}{% endfor %}", "too much work"),
        (LISTS + "{% set c = a[1:] %}{% endfor %}", "too much work"),
        (LISTS + "{% set c = a|sum %}{% endfor %}", "too much work"),
        (LISTS + "{% set c = a|max %}{% endfor %}", "too much work"),
        ("{% for i in range(9000) %}" + "x" * 200 + "{% endfor %}", "longer than 1,000,000"),
        ("x" * 1_000_001, "longer than 1,000,000"),
        ("{{ observation }}" * 5000, "too large"),
        ('{% include "more.j2" %}' * 2, "too much work"),
        ('text{% include "log.j2" %}', "too much work"),
        ('{% for i in range(999) %}{% include "less.j2" %}{% endfor %}', "too much work"),
        ("{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}", "recursion"),
        ("{{ " + "[" * 150 + "1" + "]" * 150 + " }}", "recursion"),
        ("{{ " + "9" * 100_000 + " }}", "4300 digits"),
        ("{% for i in [1] %}" * 30 + "{% endfor %}" * 30, "nested"),
        ("{#" * 100_000, "comment"),
    ],
)
def test_bombs_are_stopped_at_once(source, reason):
    message = failure(source, more='{% include "more.j2" %}{% include "log.j2" %}', less="")
    assert any(part in message for part in reason.split("|")), message


def test_the_meter_starts_anew_in_every_rendering():
    prompts = Prompts("made", {"log.j2": "{% for i in range(12000) %}{% endfor %}ok"})
    assert [prompts.render("log.j2", {}, step) for step in range(3)] == ["ok"] * 3


def test_a_prompt_of_ordinary_size_is_far_from_the_limits():
    steps = [{"observation": "a room with a table. " * 60, "state": dict.fromkeys(map(str, range(200)), 1)}] * 64
    source = "{% for step in steps[-32:] %}{{ step.observation | truncate(200) }}{{ step.state['7'] }}\n{% endfor %}"
    text = Prompts("made", {"log.j2": source}).render("log.j2", {"steps": steps}, 0)
    assert len(text.splitlines()) == 32
