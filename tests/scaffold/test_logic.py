"""`logic.py` in the sandbox: what it may do, what it may not, and that nothing leaks."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from automem.errors import ScaffoldFailure
from automem.scaffold.logic import Logic

STATE = {"position": [1, 2], "carrying": None}
HISTORY = {"step": 3, "steps": [], "last": None, "unchanged": 0, "visits": {"1,2": 4}}


def repair(body, step=7):
    """What `repair` answers with this body, to the action 'go'."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return Logic("made", f"def repair(action):\n{lines}\n").repair("go", step)


def failure(body):
    with pytest.raises(ScaffoldFailure) as caught:
        repair(body)
    return caught.value.message


def test_all_five_functions():
    logic = Logic(
        "made",
        """
import re, json, math, collections

class Words:
    def __init__(self, text):
        self.text = text

def observe(state, history):
    return {"place": json.dumps(state["position"]), "visits": str(history["visits"]["1,2"])}

def upsert(file, rows, entry):
    return rows + [entry]

def auto_files(state, history, files):
    return {"status.txt": files["notes.txt"].upper()}

def guard(action, state, history):
    return "carry first" if action == "deliver" and not state["carrying"] else None

def repair(action):
    return re.sub("[^a-z]", "", Words(action).text.lower())
""",
    )
    assert logic.functions == {"observe", "upsert", "auto_files", "guard", "repair"}
    assert logic.observe(STATE, HISTORY, 3) == {"place": "[1, 2]", "visits": "4"}
    row = {"key": "a", "text": "b", "step": 1}
    assert logic.call("upsert", "places.txt", [row], row, step=3) == [row, row]
    assert logic.auto_files(STATE, HISTORY, {"notes.txt": "lamp"}, 3) == {"status.txt": "LAMP"}
    assert logic.guard("deliver", STATE, HISTORY, 3) == "carry first"
    assert logic.guard("wait", STATE, HISTORY, 3) is None
    assert logic.repair("Go!", 3) == "go"


@pytest.mark.parametrize("source", [None, "", "# nothing\n", "X = 1\ndef helper(a, b, c, d):\n    return a\n"])
def test_a_scaffold_needs_no_functions(source):
    assert Logic("made", source).functions == frozenset()


def test_globals_are_fresh_in_every_call():
    source = "seen = []\ndef repair(action):\n    seen.append(action)\n    return str(len(seen))\n"
    logic, other = Logic("made", source), Logic("made", source)
    assert {logic.repair(f"a{step}", step) for step in range(5)} | {other.repair("b", 0)} == {"1"}


@pytest.mark.parametrize(
    "body",
    [
        "import json\nn = getattr(json, 'kept', 0)\njson.kept = n + 1\nreturn str(n)",
        "import math\nmath.pi = math.pi + 1\nreturn str(math.pi)",
        "import random\nreturn str(random.random())",
        "def inner(a=[]):\n    a.append(1)\n    return a\ninner()\nreturn str(inner())",
    ],
)
def test_nothing_is_kept_in_modules_between_calls(body):
    def once():
        try:
            return repair(body)
        except ScaffoldFailure as refused:
            return str(refused)

    assert len({once() for _ in range(3)}) == 1


def test_repairs_are_remembered_failed_ones_are_not_and_not_without_end():
    logic = Logic("made", "def repair(action):\n    return {'up': 'north'}[action]\n")
    for step in (1, 2):
        with pytest.raises(ScaffoldFailure, match=f"step {step}"):
            logic.repair("down", step)
    assert logic.repair("up", 3) == "north"
    assert logic.repaired == {"up": "north"}
    logic.repaired |= {str(number): "north" for number in range(999)}
    logic.repair("up", 4)
    assert logic.repaired == {"up": "north"}


def test_arguments_are_copies():
    state, history = json.loads(json.dumps(STATE)), json.loads(json.dumps(HISTORY))
    source = "def observe(state, history):\n    state['position'].append(9)\n    history.clear()\n    return {}\n"
    Logic("made", source).observe(state, history, 0)
    assert (state, history) == (STATE, HISTORY)


def test_many_threads_share_the_sandbox():
    logic = Logic("made", "def repair(action):\n    return action * 2\n")
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda n: logic.repair(str(n), n), range(100)))
    assert answers == [str(n) * 2 for n in range(100)]


CHANCE = """
import time, datetime, random

def observe(state, history):
    words = {"a", "bb", "ccc", "dddd", "eeeee", str(state["position"])}
    return {
        "set": str(list(words)),
        "hash": str(hash("a")),
        "random": str([random.random(), random.randint(0, 1000), random.choice(sorted(words))]),
        "time": str([time.time(), datetime.datetime.now(), datetime.date.today()]),
    }
"""
TELL = "import sys, json\nfrom automem.scaffold.logic import Logic\n"
TELL += "print(json.dumps(Logic('made', sys.argv[1]).observe({'position': [1]}, {}, 0)))"


def test_order_hash_chance_and_clock_are_the_same_in_every_process():
    here = Logic("made", CHANCE).observe({"position": [1]}, {}, 0)
    for hash_seed in ("1", "2"):
        environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", TELL, CHANCE], env=environ, capture_output=True, check=True)
        assert json.loads(done.stdout) == here
    assert "2000" in here["time"]


@pytest.mark.parametrize(
    ("body", "line", "what"),
    [
        ("x = 'a'\nwhile True:\n    x = x + x", 4, "MemoryError"),
        ("return 'a' * 10**11", 2, "MemoryError"),
        ("return str(7 ** 10**8)", 2, "MemoryError"),
        ("return repair(action)", 2, "RecursionError"),
        ("return open('/etc/passwd').read()", 2, "PermissionError"),
        ("import os\nreturn str(os.system('id'))", 3, "no attribute 'system'"),
        ("import os\nreturn str(os.environ)", 3, "os.environ"),
        ("import socket", 2, "No module named 'socket'"),
        ("import subprocess", 2, "No module named 'subprocess'"),
        ("return __import__('os').getcwd()", 2, "NameError"),
        ("return str(action.__class__.__mro__)", 2, "AttributeError"),
        ("return 1 / 0", 2, "ZeroDivisionError"),
        ("raise KeyboardInterrupt", 2, "KeyboardInterrupt"),
        ("return action.nope", 2, "nope"),
    ],
)
def test_what_is_refused_names_function_line_and_step(body, line, what):
    message = failure(body)
    assert message.startswith(f"scaffold 'made': logic.py, line {line}, in repair, step 7: ")
    assert what in message


def test_a_loop_without_end_and_a_flood_of_prints_are_stopped():
    started = time.monotonic()
    assert failure("while True:\n    pass").startswith("scaffold 'made': logic.py, in repair, step 7: TimeoutError")
    assert failure("while True:\n    print('x' * 1000)").startswith("scaffold 'made': logic.py, in repair, step 7: ")
    assert time.monotonic() - started < 10
    assert repair("return 'still here'") == "still here"


def test_printing_a_little_is_no_fault(capfd):
    assert repair("print('hello')\nreturn 'x'") == "x"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("body", ["raise SystemExit(3)", "exit(3)"])
def test_the_sandbox_outlives_its_guests(body):
    with pytest.raises(ScaffoldFailure):
        repair(body)
    assert repair("return action") == "go"


@pytest.mark.parametrize(
    ("function", "returned", "expected"),
    [
        ("observe", "None", "returned NoneType, expected a dict of texts"),
        ("observe", "{'a': 1}", "returned dict, expected a dict of texts"),
        ("observe", "{1: 'a'}", "returned dict, expected a dict of texts"),
        ("auto_files", "['a']", "returned list, expected a dict of texts"),
        ("guard", "False", "returned bool, expected a text or None"),
        ("guard", "['no']", "returned list, expected a text or None"),
        ("repair", "None", "returned NoneType, expected a text"),
    ],
)
def test_wrong_return_types(function, returned, expected):
    arguments = {
        "observe": "state, history",
        "auto_files": "state, history, files",
        "guard": "action, state, history",
        "repair": "action",
    }[function]
    logic = Logic("made", f"def {function}({arguments}):\n    return {returned}\n")
    given = [{} for _ in arguments.split(",")]
    with pytest.raises(ScaffoldFailure, match=f"in {function}, step 5: {expected}"):
        getattr(logic, function)(*given, step=5)


def test_wrong_argument_names():
    source = "X = 1\n\ndef guard(move, state, history):\n    return None\n"
    with pytest.raises(ScaffoldFailure) as caught:
        Logic("made", source)
    expected = "logic.py, line 3, guard takes (action, state, history), not (move, state, history)"
    assert caught.value.message == f"scaffold 'made': {expected}"


@pytest.mark.parametrize(
    ("source", "line"),
    [("def observe(state, history)\n    return {}\n", "line 1, "), ("x = 1\ny = (\n", "line 2, "), ("x = '\0'", "")],
)
def test_source_that_is_not_python(source, line):
    with pytest.raises(ScaffoldFailure) as caught:
        Logic("made", source)
    assert caught.value.message.startswith(f"scaffold 'made': logic.py, {line}")


def test_source_that_is_nested_too_deep():
    with pytest.raises(ScaffoldFailure, match=r"logic\.py"):
        Logic("made", "x = " + "-" * 100_000 + "1")


def test_a_fault_outside_the_functions_is_told_with_its_line():
    with pytest.raises(ScaffoldFailure, match="line 2, in repair, step 0: NameError"):
        Logic("made", "x = 1\ny = z\ndef repair(action):\n    return action\n").repair("a", 0)


@pytest.mark.parametrize(
    "source", ["guard = lambda action, state, history: None", "async def guard(a): ...", "class observe: ..."]
)
def test_a_function_bound_in_another_way_is_not_silently_unused(source):
    with pytest.raises(ScaffoldFailure, match=r"line 1, (guard|observe) must be defined by `def"):
        Logic("x", source)
