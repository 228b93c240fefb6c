"""A run folder that somebody or something has spoilt: the file is named, and what to do; nothing is written."""

import json
import shutil

import pytest
from playing import play, same

from automem.errors import UsageError
from automem.play.folder import RunFolder, check_run
from automem.results.found import find_runs

STEPS = 6
MEND = "put it right or bring it back from a copy; `automem run --redo` plays the run afresh"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of two episodes."""
    out = tmp_path_factory.mktemp("whole") / "run"
    play(out, seeds=[0, 1], steps=STEPS)
    return out


@pytest.fixture
def out(whole, tmp_path):
    """A copy of it that may be spoilt."""
    return shutil.copytree(whole, tmp_path / "run")


def refusal(function, *args, **options):
    with pytest.raises(UsageError) as caught:
        function(*args, **options)
    return caught.value.message, caught.value.hint


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "run.lock"}


def edited(**changes):
    """A change of keys of the config; None takes a key away."""

    def change(text):
        record = json.loads(text)
        record["config"] = {k: v for k, v in {**record["config"], **changes}.items() if v is not None}
        return json.dumps(record, indent=2)

    return change


#: What is done to run.json -> what is said about it, and the hint before the usual one.
DAMAGE = {
    "empty": (lambda text: "", "it is empty", ""),
    "cut": (lambda text: text[:300], "it breaks off in the middle", ""),
    "cut in a string": (lambda text: text[: text.index('"courier')] + '"cou', "it breaks off in the middle", ""),
    "a comma": (lambda text: text.replace("{", "{,", 1), "line 1 is not JSON", ""),
    "no JSON": (lambda text: "courier\n", "it is not JSON", ""),
    "deep": (lambda text: "[" * 99_999, "it is not JSON", ""),
    "a list": (lambda text: "[]", "expected keys and values, here is a list", ""),
    "null": (lambda text: "null", "expected keys and values, here is nothing", ""),
    "no config": (lambda text: "{}", "config: this key is missing", ""),
    "config of a wrong kind": (lambda text: '{"config": 3}', "config: expected keys and values, here is a number", ""),
    "a key is missing": (edited(env=None), "config.env: this key is missing", ""),
    "a key too many": (edited(sedes=[1]), "config.sedes: unknown key 'sedes'", "did you mean 'seeds'? Otherwise: "),
    "a wrong value": (edited(seeds=["x"]), "config.seeds.0: input should be a valid integer", ""),
    "a seed below 0": (edited(seeds=[-1]), "config.seeds.0: input should be greater than or equal to 0", ""),
    "no seeds": (edited(seeds=[]), "config.seeds: it needs at least 1", ""),
    "no tasks": (edited(tasks=[]), "config.tasks: it needs at least 1", ""),
    "no models": (edited(models={}), "config.models: there is none for the role gameplay", ""),
    "a wrong role": (edited(models={"gamplay": {"name": "x"}}), "config.models.gamplay: ", ""),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_json(out, damage):
    change, said, hint = DAMAGE[damage]
    file = out / "run.json"
    file.write_text(change(file.read_text()))
    before = contents(out)
    for reading in (lambda: RunFolder.read(out), lambda: play(out, seeds=[0, 1], steps=STEPS)):
        message, told = refusal(reading)
        assert message.startswith(f"{file} is damaged: {said}")
        assert "pydantic" not in message and "\n" not in message
        assert told == hint + MEND
    assert contents(out) == before


def test_a_run_json_that_is_no_text(out):
    (out / "run.json").write_bytes(bytes(range(256)))
    assert refusal(RunFolder.read, out) == (f"{out}/run.json is damaged: it is not text", MEND)


def test_redo_is_the_way_out(out):
    (out / "run.json").write_text("{")
    assert len(play(out, seeds=[0, 1], steps=STEPS, redo=True).results) == 2
    assert RunFolder.read(out).config.seeds == [0, 1]


def test_a_run_json_that_is_gone(out):
    (out / "run.json").unlink()
    before = contents(out)
    said = f"{out}/run.json is missing, but there are traces of a run in {out}/traces"
    for reading in (
        lambda: RunFolder.read(out),
        lambda: find_runs([out.parent]),
        lambda: play(out, seeds=[0, 1], steps=STEPS),
        lambda: play(out, seeds=[0, 1], steps=STEPS, redo=True),
    ):
        message, hint = refusal(reading)
        assert message == said
        assert hint.startswith("bring it back from a copy; ")
    assert contents(out) == before


def test_traces_of_others_are_no_run(tmp_path):
    other = tmp_path / "traces" / "a" / "b" / "mine.jsonl"
    other.parent.mkdir(parents=True)
    other.touch()
    assert not find_runs([tmp_path])
    assert refusal(RunFolder.read, tmp_path)[0] == f"no run at '{tmp_path}': there is no {tmp_path}/run.json"


@pytest.mark.parametrize("finished", [True, False])
def test_a_damaged_trace_is_told_before_anything_is_played(whole, out, finished):
    folder = RunFolder.read(out)
    first, _ = folder.config.specs()
    trace = folder.trace_path(first)
    lines = trace.read_bytes().splitlines(keepends=True)
    trace.write_bytes(b"".join(lines[:3] + lines[4 : None if finished else -1]))
    before = contents(out)
    for reading in (
        lambda: play(out, seeds=[0, 1, 2], steps=STEPS),
        lambda: check_run(out, folder.config),
    ):
        message, hint = refusal(reading)
        assert message == f"{trace}, line 4: damaged: step 3 stands where step 2 is due"
        assert hint == "delete this file and run again: its episode is played afresh"
    assert contents(out) == before
    trace.unlink()
    assert [result.steps for result in play(out, seeds=[0, 1], steps=STEPS).results.values()] == [STEPS, STEPS]
    assert same(out, whole)
