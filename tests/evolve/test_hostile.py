"""Candidates that try to get out, to cheat, or to break what plays them: each is refused for its reason, or contained.

Each attack is a sound candidate with something added; it goes the way of every proposal, through the check.
"""

import os
import time
from hashlib import blake2b
from pathlib import Path

import pytest
import yaml

from automem.episode import Limits, ModelSpec
from automem.evolve.base import Assignment, Proposal
from automem.evolve.changes import KINDS
from automem.evolve.diagnose import diagnose
from automem.evolve.propose import propose_and_check
from automem.models import make_model
from automem.play.folder import RunConfig
from automem.play.run import play_run
from automem.results.plays import Cost
from automem.scaffold.spec import load

PARENT = "courier-v0"
#: A sound structural revision of the parent.
SOUND = "courier-v1"
#: Seconds of computing that one attack may cost.
PATIENCE = 20


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    parent = load(PARENT)
    config = RunConfig(
        env="courier",
        tasks=["small"],
        seeds=[0],
        scaffold=parent.name,
        scaffold_digest=parent.digest,
        models={"gameplay": ModelSpec(name="scripted:null")},
        limits=Limits(max_steps=5),
    )
    models = {"gameplay": make_model("scripted:null", {})}
    return play_run(tmp_path_factory.mktemp("played") / "run", config, parent, models, 1).folder


class Writes:
    """A proposer that writes what it was given, once."""

    name = "writes"

    def __init__(self, *writers):
        self.writers = writers

    def propose(self, assignment):
        if assignment.errors is None:
            for write in self.writers:
                write(assignment.output)
        return Proposal("", Cost())


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A folder that a candidate must not change: secrets, code, and where it is checked from."""
    for name in (
        "secret.txt",
        "automem/agent.py",
        "games/courier.py",
        "scaffolds/x/scaffold.yaml",
        "run/r.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"this is {name}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def proposed(world, played):
    """What becomes of a candidate that these functions write; nothing outside its folder may change."""

    def propose(*writers, allowed=KINDS):
        output = world / "proposals" / "candidate"
        output.mkdir(parents=True)
        before = tree(world)
        assignment = Assignment(
            scaffold=load(str(load(PARENT).folder)),
            run=played,
            diagnosis=diagnose(played),
            allowed=frozenset(allowed),
            output=output,
            log=output.parent,
        )
        began = time.process_time(), time.monotonic()
        found = propose_and_check(Writes(*writers), assignment, "courier")
        assert time.process_time() - began[0] < PATIENCE and time.monotonic() - began[1] < 6 * PATIENCE
        assert tree(world) == before
        assert found.model_dump_json()
        return found

    return propose


def tree(folder):
    """Digest of every file outside the candidate."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and "candidate" not in p.relative_to(folder).parts)
    return {str(path): blake2b(path.read_bytes()).hexdigest() for path in files}


def sound(base=SOUND, kinds=("memory-structure",), **spec):
    """Writes a scaffold: the files of `base`, keys of its scaffold.yaml replaced, claiming changes of `kinds`."""

    def write(output):
        made = load(base)
        data = yaml.safe_load(made.texts["scaffold.yaml"]) | {"name": "candidate", "parent": PARENT} | spec
        texts = dict(made.texts)
        texts["scaffold.yaml"] = yaml.safe_dump(data, sort_keys=False)
        texts["CHANGES.md"] = "# candidate\n\n" + "\n\n".join(f"## {kind}: changed\n\nWhy." for kind in kinds)
        for name, text in texts.items():
            (output / name).parent.mkdir(parents=True, exist_ok=True)
            (output / name).write_text(text, encoding="utf-8")

    return write


def file(name, content):
    """Writes one more file."""

    def write(output):
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def yaml_with(text):
    """Adds lines to scaffold.yaml."""
    return lambda output: file("scaffold.yaml", f"{text}\n{(output / 'scaffold.yaml').read_text()}")(output)


def plan_with(text):
    """Adds text to prompts/plan.j2."""
    return lambda output: file("prompts/plan.j2", f"{(output / 'prompts/plan.j2').read_text()}\n{text}")(output)


def link(name, target):
    def write(output):
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).unlink(missing_ok=True)
        (output / name).symlink_to(target)

    return write


LIMITS = {"file_chars": 4000, "search_results": 10, "read_lines": 30}
TABLE = {"name": "places.txt", "kind": "table", "key": ["name"], "about": "where each room and parcel was seen last"}


def test_what_the_attacks_are_added_to_is_sound(proposed):
    found = proposed(sound())
    assert (found.verdict, found.reason, found.repaired) == (None, "", False)
    assert found.digest


FILES = {
    "a link to a secret": ([link("memory/places.txt", "../../../secret.txt")], "holds no links"),
    "a link to a folder": ([link("memory", "/etc")], "holds no links"),
    "a link that leads nowhere": ([link("logic.py", "/no/where")], "holds no links"),
    "a link for a prompt": ([link("prompts/plan.j2", "/etc/passwd")], "holds no links"),
    "keys": ([file(".env", "OPENAI_API_KEY=x")], "does not belong in a scaffold"),
    "code beside logic.py": ([file("helper.py", "import os")], "does not belong in a scaffold"),
    "a package": ([file("__init__.py", "import os")], "does not belong in a scaffold"),
    "compiled code": ([file("prompts/plan.so", b"\x7fELF")], "does not belong in a scaffold"),
    "nested folders": ([file("memory/a/b.txt", "x")], "does not belong in a scaffold"),
    "another evaluator": (
        [file("automem/agent/agent.py", "x"), file("envs/courier/__init__.py", "")],
        "does not belong",
    ),
    "a scaffold in a scaffold": ([file("prompts/x/scaffold.yaml", "x")], "does not belong in a scaffold"),
    "a look-alike of a file": ([file("memory/plаces.txt", "x")], "not declared under files"),
    "a name that is no text": ([lambda out: file(os.fsdecode(b"prompts/\xff.txt"), "x")(out)], "does not belong"),
    "a pipe": ([lambda out: os.mkfifo(out / "logic.py")], "regular files only"),
    "a file of 300 KB": ([file("memory/places.txt", "x" * 300_000)], "256 KiB"),
    "a thousand files": ([lambda out: [file(f"prompts/p{n}.j2", "x")(out) for n in range(1000)]], "at most 64 files"),
    "bytes": ([file("prompts/log.j2", b"\xff\xfe\x00")], "not UTF-8 text"),
    "half a scaffold": ([lambda out: (out / "prompts/plan.j2").unlink()], "prompts/plan.j2 must be there"),
    "no scaffold.yaml": ([lambda out: (out / "scaffold.yaml").unlink()], "no scaffold at"),
}


@pytest.mark.parametrize("attack", FILES)
def test_files(proposed, attack):
    writers, reason = FILES[attack]
    found = proposed(sound(), *writers)
    assert (found.verdict, found.repaired) == ("refused", True)
    assert reason in found.reason


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]" for n in range(9)
)


def operations(log, plan):
    return {"operations": {"log": log, "plan": plan}}


NAMES = ("../places.txt", "/etc/passwd", "a/b.txt", "pl\0aces.txt", "plаces.txt", ".hidden", "", "x" * 65, "a\nb")
SPEC = {
    **{f"a file called {name!a}": ({"files": [{**TABLE, "name": name}]}, "a file name is") for name in NAMES},
    "a name with a path": ({"name": "../../best"}, "name"),
    "a name with a line break": ({"name": "a\nb"}, "name"),
    "another game": ({"env": "crafter"}, "env is 'crafter', but the game is 'courier'"),
    "no name": ({"name": None}, "name"),
    "files that are no list": ({"files": "places.txt"}, "files"),
    "rounds without end": ({"budget": {"log_rounds": float("inf")}}, "log_rounds"),
    "an unknown key": ({"evaluator": "mine"}, "unknown key 'evaluator'"),
    "two files of one name": ({"files": [TABLE, {**TABLE, "name": "Places.txt"}]}, "two memory files"),
    "more rounds": ({"budget": {"log_rounds": 30, "plan_rounds": 4, "history": 2}}, "log_rounds is 30, above the 3"),
    "no limit at all": ({"memory": {**LIMITS, "read_lines": None}}, "memory.read_lines is None, above the 30"),
    "larger files": ({"memory": {**LIMITS, "file_chars": 999_999}}, "memory.file_chars is 999999, above the 4000"),
    "one larger file": ({"files": [{**TABLE, "max_chars": 999_999}]}, "places.txt is 999999, above the 4000"),
    "limits left out": ({"memory": {}, "budget": {}}, "limits stay where they were"),
    "no writes": (operations(["SEARCH", "DONE"], ["SEARCH", "ACTION"]), "no longer write to memory"),
    "writes that reach no file": (operations(["WRITE", "APPEND", "DELETE"], ["SEARCH", "ACTION"]), "no longer write"),
    "no reads": (operations(["UPSERT", "DONE"], ["ACTION"]), "no longer read memory in PLAN"),
    "counts for reads": (operations(["UPSERT", "DONE"], ["COUNT", "ACTION"]), "no longer read memory"),
    "all files kept by code": ({"files": [{"name": "places.txt", "kind": "auto"}]}, "no longer write to memory"),
    "an operation that is none": (operations(["SHELL"], ["ACTION"]), "unknown operation 'SHELL'"),
}  # fmt: skip


@pytest.mark.parametrize("attack", SPEC)
def test_scaffold_yaml(proposed, attack):
    spec, reason = SPEC[attack]
    found = proposed(sound(**spec))
    assert found.verdict == "refused"
    assert reason in found.reason


YAML = {
    "a billion laughs": (LAUGHS, "aliases written out"),
    "merges of merges": (
        "a: &a {x: 1}\nb: &b {<<: [*a, *a]}\n" + LAUGHS.replace("a: &a", "c0: &a", 1),
        "second occurrence",
    ),
    "a value that holds itself": ("a: &a [*a]", "aliases written out"),
    "python objects": ("a: !!python/object/apply:os.system ['touch pwned']", "python/object/apply"),
    "python names": ("a: !!python/name:os.system", "python/name"),
    "nesting without end": ("a: " + "[" * 600, "nested too deep"),
    "a huge number": ("a: " + "9" * 100_000, "not text"),
    "a date that is none": ("a: 2001-99-99", "is no number or date"),
    "a second document": ("name: other\n---", "another document"),
    "a key twice": ("name: other", "key 'name' stands twice"),
    "a key that is a list": ("? [a]\n: b", "a key is a word"),
}


@pytest.mark.parametrize("attack", YAML)
def test_yaml(proposed, world, attack):
    text, reason = YAML[attack]
    found = proposed(sound(), yaml_with(text))
    assert found.verdict == "refused"
    assert any(part in found.reason for part in reason.split("|")), found.reason
    assert not (world / "pwned").exists()


PROMPTS = {
    "a walk through attributes": ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "can be called"),
    "globals of a function": ("{{ memory.text.__globals__ }}", "unsafe"),
    "the memory behind the view": ("{{ memory._memory }}", "unsafe"),
    "formats": ("{{ '{0._memory}'.format(memory) }}", "can be called"),
    "changing the history": ("{{ history.steps.append(1) }}", "can be called"),
    "loops in loops": ("{% for a in range(999) %}{% for b in range(999) %}{% endfor %}{% endfor %}", "too much work"),
    "doubling": ("{% set a = 'xx' %}" + "{% set a = a ~ a %}" * 40, "50000 characters"),
    "lists in lists": ("{% set a = ['x'] %}" + "{% set a = [a, a, a, a, a, a] %}" * 20 + "{{ a }}", "in all"),
    "itself": ('{% include "plan.j2" %}', "too much work"),
    "a macro": ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "macro is not part"),
    "a file of the machine": ('{% include "/etc/passwd" %}', "no template '/etc/passwd'"),
    "a file above": ('{% include "../../../secret.txt" %}', "no template"),
    "what is not there": ("{{ password }}", "'password' is undefined"),
}


@pytest.mark.parametrize("attack", PROMPTS)
def test_prompts(proposed, attack):
    text, reason = PROMPTS[attack]
    kinds = ("memory-structure", "memory-prompt", "observation-processing")
    shows = "{{ history.step }}"
    found = proposed(sound(kinds=kinds), plan_with(f"{shows}{text}"))
    assert found.verdict == "refused"
    assert reason in found.reason
    assert "prompts/" in found.reason


def test_a_prompt_without_its_heading(proposed):
    found = proposed(sound(kinds=("memory-structure", "memory-prompt")), file("prompts/plan.j2", "Just act: ACTION."))
    assert found.reason.startswith("scaffold 'candidate': prompts/plan.j2 has no line '# PLAN'")


LOGIC = {
    "reads files": ("return {'a': open('/etc/passwd').read()}", "PermissionError"),
    "writes files": ("open('secret.txt', 'w').write('x')\nreturn {}", "PermissionError"),
    "walks folders": ("import pathlib\nreturn {'a': str(list(pathlib.Path('/').iterdir()))}", "in observe, step 0"),
    "runs commands": ("import os\nos.system('touch pwned')\nreturn {}", "no attribute 'system'"),
    "starts processes": ("import subprocess\nreturn {}", "No module named 'subprocess'"),
    "opens sockets": ("import socket\nreturn {}", "No module named 'socket'"),
    "reads the environment": ("import os\nreturn {'a': str(os.environ)}", "os.environ"),
    "imports the evaluator": ("import automem\nreturn {}", "No module named 'automem'"),
    "climbs out": ("return {'a': str(state.__class__.__base__.__subclasses__())}", "AttributeError"),
    "imports by name": ("return {'a': __import__('os').getcwd()}", "NameError"),
    "loops": ("while True:\n    pass", "TimeoutError"),
    "allocates": ("return {'a': 'x' * 10**11}", "MemoryError"),
    "recurses": ("return observe(state, history)", "RecursionError"),
    "prints for ever": ("while True:\n    print('x' * 1000)", "in observe, step 0"),
    "returns a list": ("return ['a']", "returned list, expected a dict of texts"),
    "returns numbers": ("return {'a': 1}", "returned dict, expected a dict of texts"),
    "returns nothing": ("return None", "returned NoneType"),
    "returns megabytes": ("return {'a': 'x' * 10_000_000}", "returned 10000001 characters"),
    "fails later": ("return {'a': 1 // (history['step'] - 7) * 'x'}", "in observe, step 7: ZeroDivisionError"),
    "leaves": ("raise SystemExit", "SystemExit"),
}


@pytest.mark.parametrize("attack", LOGIC)
def test_logic(proposed, world, attack):
    body, reason = LOGIC[attack]
    source = "def observe(state, history):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    found = proposed(sound(kinds=("memory-structure", "observation-processing")), file("logic.py", source))
    assert found.verdict == "refused"
    assert reason in found.reason
    assert "logic.py" in found.reason
    assert not (world / "pwned").exists()


STATUS = {"name": "status.txt", "kind": "auto"}
FUNCTIONS = {
    "a flood of files": (
        "def auto_files(state, history, files):\n    return {f'f{n}.txt': 'x' for n in range(9999)}",
        (),
        "'f0.txt' is not a file of kind auto",
    ),
    "a flood in a file": (
        "def auto_files(state, history, files):\n    return {'status.txt': 'x\\n' * 9999}",
        (),
        "characters for status.txt, which may have 4000",
    ),
    "the model's own file": (
        "def auto_files(state, history, files):\n    return {'places.txt': 'hall | x'}",
        (),
        "'places.txt' is not a file of kind auto",
    ),
    "a file outside": (
        "def auto_files(state, history, files):\n    return {'../../secret.txt': 'x'}",
        (),
        "is not a file of kind auto",
    ),
    "a guard that talks for ever": (
        "def guard(action, state, history):\n    return 'no ' * 999_999",
        ("action-guard",),
        "in guard, step 0: returned 2999997 characters",
    ),
    "a repair that shouts": ("def repair(action):\n    return action * 99_999", ("action-guard",), "at most 2000"),
    "other arguments": (
        "def guard(action):\n    return None",
        ("action-guard",),
        "guard takes (action, state, history)",
    ),
    "no function": ("guard = print", ("action-guard",), "guard must be defined by `def guard(…)`"),
    "no Python": ("def guard(", (), "logic.py, line 1"),
    "code nested too deep": ("x = " + "-" * 100_000 + "1", (), "nested too deep"),
}


@pytest.mark.parametrize("attack", FUNCTIONS)
def test_other_functions(proposed, attack):
    source, kinds, reason = FUNCTIONS[attack]
    found = proposed(sound(kinds=("memory-structure", *kinds), files=[TABLE, STATUS]), file("logic.py", source))
    assert found.verdict == "refused"
    assert reason in found.reason


OBSERVE = "def observe(state, history):\n    return {}\n"
CLAIMS = {
    "changes nothing": ([sound(PARENT)], "no structural change: another name is not a revision"),
    "changes words only": (
        [sound(PARENT, ["memory-prompt"]), plan_with("Think of the state, the blocks and history.last.")],
        "no structural change: wording alone is not a revision",
    ),
    "claims structure for words": (
        [sound(PARENT), plan_with("Think hard.")],
        "claims a change of kind memory-structure, which the files do not show",
    ),
    "claims words for structure": ([sound(kinds=["memory-prompt"])], "which CHANGES.md does not claim"),
    "claims more than it shows": (
        [sound(kinds=["memory-structure", "action-guard"])],
        "claims a change of kind action-guard, which the files do not show",
    ),
    "hides code": (
        [sound(), file("logic.py", OBSERVE)],
        "kind observation-processing, which CHANGES.md does not claim",
    ),
    "hides advice": (
        [sound(), file("memory/places.txt", "hall | go north\n")],
        "kind task-advice, which CHANGES.md does",
    ),
    "claims nothing": ([sound(kinds=[])], "CHANGES.md has no entry"),
    "has no CHANGES.md": ([sound(), lambda out: (out / "CHANGES.md").unlink()], "CHANGES.md has no entry"),
    "invents a kind": ([sound(kinds=["memory-magic"])], "unknown kind of change 'memory-magic'"),
}


@pytest.mark.parametrize("attack", CLAIMS)
def test_claims(proposed, attack):
    writers, reason = CLAIMS[attack]
    found = proposed(*writers)
    assert found.verdict == "refused"
    assert reason in found.reason


def test_reference_files_cannot_be_edited_in_silence(proposed):
    files = [TABLE, {"name": "guide.txt", "kind": "reference"}]
    found = proposed(sound(files=files), file("memory/guide.txt", "The red parcel lies in the hall.\n"))
    assert "the files show a change of kind task-advice, which CHANGES.md does not claim" in found.reason


def test_kinds_that_are_not_allowed(proposed):
    found = proposed(
        sound(kinds=["memory-structure", "observation-processing"]),
        file("logic.py", OBSERVE),
        allowed=["memory-structure", "memory-prompt"],
    )
    assert "a change of kind observation-processing is not allowed here" in found.reason
    assert "CHANGES.md claims a change of kind observation-processing, which is not allowed here" in found.reason


def test_what_is_hostile_and_harmless_is_contained(proposed):
    """It may print a little and change what it is given: those are copies."""
    source = """
def observe(state, history):
    print("hello")
    state.clear()
    history.clear()
    return {}

def guard(action, state, history):
    state["position"] = None
    return "no"
"""
    found = proposed(
        sound(kinds=("memory-structure", "observation-processing", "action-guard")), file("logic.py", source)
    )
    assert (found.verdict, found.reason) == (None, "")


def test_there_are_enough_attacks():
    assert sum(map(len, (FILES, SPEC, YAML, PROMPTS, LOGIC, FUNCTIONS, CLAIMS))) >= 25
    assert Path(__file__).read_text(encoding="utf-8").count("def test_") > 10
