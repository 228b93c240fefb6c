"""Going on with what was cut short: the end is as if nothing had happened."""

import json
import os
import random
import shutil
import socket

import pytest
from playing import COURIER, TOY, failures, memories, play, same, start, timeless, traces

from automem.errors import UsageError
from automem.models import make_model
from automem.play.folder import RunFolder, locked
from automem.scaffold.spec import load
from automem.trace import read_result, read_trace

STEPS = 25


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An undisturbed run of one episode."""
    out = tmp_path_factory.mktemp("whole") / "run"
    play(out, steps=STEPS)
    return out


@pytest.fixture
def copy(whole, tmp_path):
    """A copy of it that may be spoilt, and the path of its trace."""
    out = shutil.copytree(whole, tmp_path / "run")
    (path,) = (out / "traces").rglob("*.jsonl")
    return out, path


def offsets(data):
    """Where to cut: in the header, around ends of lines, and anywhere."""
    ends = [number + 1 for number, byte in enumerate(data) if byte == ord("\n")]
    fixed = [0, 1, ends[0] // 2, ends[0] - 1, ends[0], ends[0] + 1, ends[5] - 1, ends[5], ends[-2], ends[-1] - 1]
    return sorted([*fixed, *random.Random(7).sample(range(len(data)), 12)])


def test_a_trace_cut_anywhere_is_completed(whole, copy):
    out, path = copy
    data = path.read_bytes()
    for offset in offsets(data):
        path.write_bytes(data[:offset])
        shutil.rmtree(out / "memory")
        played = play(out, steps=STEPS)
        assert failures(played) == [], offset
        assert same(out, whole), offset


def test_what_stands_in_whole_lines_is_not_played_again(copy):
    out, path = copy
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:11]) + lines[11][:-1])

    class Counting:
        name = COURIER

        def __init__(self):
            self.steps = set()
            self._model = make_model(COURIER, {})

        async def generate(self, messages, request):
            self.steps.add(request.step)
            return await self._model.generate(messages, request)

        async def close(self):
            pass

    model = Counting()
    play(out, steps=STEPS, models={"gameplay": model})
    assert model.steps == set(range(10, STEPS))
    assert path.read_bytes().startswith(b"".join(lines[:11]))


def test_a_finished_run_is_not_touched(copy):
    out, path = copy
    before, asked = path.read_bytes(), path.stat().st_mtime_ns
    play(out, steps=STEPS)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, asked)


def test_resume_with_logic_auto_files_and_guard(tmp_path, scaffold):
    logic = """
def observe(state, history):
    return {"visits": str(sorted(history["visits"].items()))}

def upsert(file, rows, entry):
    return [row for row in rows if row["key"] != entry["key"]] + [entry]

def auto_files(state, history, files):
    return {"status.txt": files.get("status.txt", "")[-200:] + " " + str(history["step"]) + str(state["position"])}

def guard(action, state, history):
    return "you were there" if history["unchanged"] and action == history["last"]["action"] else None
"""
    files = [{"name": "places.txt", "kind": "table", "logic": True}, {"name": "status.txt", "kind": "auto"}]
    prompt = '{% include "automem/observation.j2" %}\n\n{% include "automem/memory.j2" %}\n{{ blocks.visits }}\n'
    prompt += '{{ memory.text("status.txt") }}\n# PLAN\n{% include "automem/offered.j2" %}'
    made = scaffold(logic=logic, files=files, prompts={"plan.j2": prompt})
    play(tmp_path / "whole", scaffold=made, steps=15)
    shutil.copytree(tmp_path / "whole", tmp_path / "run")
    (path,) = (tmp_path / "run" / "traces").rglob("*.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:9]))
    play(tmp_path / "run", scaffold=made, steps=15)
    assert same(tmp_path / "run", tmp_path / "whole")
    assert read_trace(path).result.steps == 15


@pytest.fixture
def toy(tmp_path, monkeypatch):
    folder = tmp_path / "plugins" / "envs" / "toy"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(TOY)
    monkeypatch.setenv("AUTOMEM_PATH", str(tmp_path / "plugins"))


def test_a_changed_environment_is_an_error_that_names_the_step(tmp_path, toy, scaffold, monkeypatch):
    common = {"env": "toy", "tasks": ["a"], "scaffold": scaffold(), "model": "scripted:null"}
    play(tmp_path / "run", **common)
    (path,) = (tmp_path / "run" / "traces").rglob("*.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:8]))
    before = timeless(path)
    monkeypatch.setenv("TOY_SHIFT", "1")
    ((kind, message),) = failures(play(tmp_path / "run", **common))
    assert kind == "env"
    assert "at step 4 the environment shows something else than was recorded" in message
    assert timeless(path).startswith(before)
    monkeypatch.delenv("TOY_SHIFT")
    assert failures(play(tmp_path / "run", **common)) == []


def test_an_environment_that_breaks_during_replay_fails_the_episode(tmp_path, toy, scaffold, monkeypatch):
    common = {"env": "toy", "tasks": ["a"], "scaffold": scaffold(), "model": "scripted:null", "seeds": [2]}
    play(tmp_path / "run", **common)
    (path,) = (tmp_path / "run" / "traces").rglob("*.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:8]))
    monkeypatch.setenv("TOY_FAILS", "2")
    ((kind, message),) = failures(play(tmp_path / "run", **common))
    assert kind == "env"
    assert "replay of step 4" in message


def test_limits_count_what_was_spent_before(tmp_path, toy, scaffold):
    common = {"env": "toy", "tasks": ["a"], "scaffold": scaffold(), "model": "scripted:null"}
    common["limits"] = {"max_calls": 7}
    (first,) = play(tmp_path / "run", **common).results.values()
    (again,) = play(tmp_path / "run", **common).results.values()
    assert (first.failure, first.steps) == ("limit", 4)
    assert again == first


def test_memory_that_does_not_fit_is_an_error(copy):
    out, path = copy
    lines = path.read_bytes().splitlines(keepends=True)
    steps = [json.loads(line) for line in lines[1:10]]
    first = next(step for step in steps if step.get("memory"))
    first["memory"][0]["removed"] = 99
    changed = [json.dumps(step).encode() + b"\n" for step in steps]
    path.write_bytes(lines[0] + b"".join(changed))
    with pytest.raises(Exception, match="recorded memory does not fit"):
        play(out, steps=STEPS)


def test_redo_plays_afresh(whole, copy):
    out, path = copy
    played = play(out, steps=10, redo=True)
    assert [result.steps for result in played.results.values()] == [10]
    assert not path.exists()
    assert len(traces(out)) == len(list((out / "memory").rglob("places.txt"))) == 1
    play(out, steps=STEPS, redo=True)
    assert same(out, whole)


def test_redo_of_nothing_is_a_run(tmp_path, whole):
    play(tmp_path / "run", steps=STEPS, redo=True)
    assert same(tmp_path / "run", whole)


def test_more_seeds_extend_a_run(copy):
    out, path = copy
    before = path.read_bytes()
    played = play(out, seeds=[2, 1], steps=STEPS)
    assert played.folder.config.seeds == [0, 2, 1]
    assert [spec.seed for spec in played.folder.config.specs()] == [0, 2, 1]
    assert path.read_bytes() == before
    assert RunFolder.read(out).config.seeds == [0, 2, 1]
    assert len(play(out, seeds=[1], steps=STEPS).results) == 3


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"steps": 26}, "limits.max_steps"),
        ({"model": "scripted:null"}, "models.gameplay.name"),
        ({"scaffold": "courier-v0"}, "scaffold"),
        ({"options": {"orders": 3}}, "options.orders"),
    ],
)
def test_another_setting_is_refused_and_named(copy, changed, named):
    out, path = copy
    before = path.read_bytes()
    with pytest.raises(UsageError, match=rf"was made with other settings: {named}: ") as caught:
        play(out, **{"steps": STEPS, **changed})
    assert "--redo" in caught.value.hint
    assert path.read_bytes() == before


def test_a_scaffold_that_was_changed_is_another_setting(tmp_path, scaffold_folder):
    folder = scaffold_folder()
    play(tmp_path / "run", scaffold=load(str(folder)), steps=2)
    (folder / "prompts" / "plan.j2").write_text('# PLAN\n{% include "automem/offered.j2" %}')
    with pytest.raises(UsageError, match="scaffold_digest"):
        play(tmp_path / "run", scaffold=load(str(folder)), steps=2)


def test_the_scaffold_played_is_kept_by_value(copy):
    out, _ = copy
    assert load(str(out / "scaffold")).digest == RunFolder.read(out).config.scaffold_digest


def test_two_writers_the_second_is_refused(copy):
    out, _ = copy
    folder = RunFolder.read(out)
    with locked(folder.path / "run.lock"), pytest.raises(UsageError) as caught:
        play(out, seeds=[5], steps=STEPS)

    assert f"is being written by pid {os.getpid()} on {socket.gethostname()}" in caught.value.message
    with locked(folder.path / "run.lock"), pytest.raises(UsageError, match="is being written"):
        play(out, steps=STEPS, redo=True)
    assert len(traces(out)) == 1
    play(out, seeds=[5], steps=STEPS)


def test_two_writers_in_two_processes(copy, tmp_path):
    out, _ = copy
    arguments = [
        "run",
        "courier/small",
        "-S",
        "courier-v1",
        "-m",
        COURIER,
        "--max-steps",
        STEPS,
        "--seeds",
        5,
        "-o",
        out,
    ]
    with locked(RunFolder.read(out).path / "run.lock"), start(*arguments, cwd=tmp_path) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "error: " in err
    assert "is being written by pid" in err


@pytest.mark.parametrize("content", ["other.txt", ".git", "traces"])
def test_a_folder_that_holds_something_else_is_refused(tmp_path, content):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / content).mkdir()
    with pytest.raises(UsageError, match="holds something else"):
        play(tmp_path / "run")


def test_what_a_killed_start_leaves_is_no_obstacle(tmp_path, whole):
    out = tmp_path / "run"
    (out / "logs" / "attempt_1").mkdir(parents=True)
    (out / "scaffold").mkdir()
    (out / "run.lock").write_text("pid 1 on elsewhere")
    (out / ".run.json.123").write_text("{")
    play(out, steps=STEPS)
    assert same(out, whole)


def test_attempts_are_numbered_on(copy):
    out, _ = copy
    shutil.rmtree(out / "logs")
    (out / "logs" / "attempt_7").mkdir(parents=True)
    play(out, steps=STEPS)
    play(out, steps=STEPS)
    assert sorted(path.name for path in (out / "logs").iterdir()) == ["attempt_7", "attempt_8", "attempt_9"]


def test_events_of_an_earlier_attempt_stay(copy):
    out, _ = copy
    events = (out / "logs" / "attempt_1" / "events.jsonl").read_bytes()
    assert [json.loads(line)["event"] for line in events.splitlines()] == ["started", "finished"]
    play(out, seeds=[3], steps=STEPS)
    assert (out / "logs" / "attempt_1" / "events.jsonl").read_bytes() == events


def test_a_damaged_run_file_is_named(copy):
    out, _ = copy
    (out / "run.json").write_text('{"config": {')
    with pytest.raises(UsageError, match=r"run\.json is damaged"):
        play(out, steps=STEPS)


def test_a_damaged_line_in_the_middle_is_an_error_and_no_restart(copy):
    out, path = copy
    lines = path.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5][:40] + b"\n"
    path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(UsageError, match="line 6: not JSON"):
        play(out, steps=STEPS)
    assert path.read_bytes() == b"".join(lines[:-1])
    assert read_result(path) is None
    assert memories(out)
