"""Episodes end to end: what is played, what is written, and that chance and order have no part in it."""

import difflib
import json
import os
from pathlib import Path

import pytest
from playing import COURIER, TOY, failures, memories, play, run, same, timeless, traces

from automem.errors import ModelFailure, UsageError
from automem.models import make_model
from automem.results.table import build_table
from automem.trace import read_result, read_trace

GOLDEN = Path(__file__).parent.parent / "golden" / "courier-small-12-steps.jsonl"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A search path with the environment `toy`."""
    folder = tmp_path / "plugins" / "envs" / "toy"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(TOY)
    monkeypatch.setenv("AUTOMEM_PATH", str(tmp_path / "plugins"))


def test_four_episodes_from_end_to_end(tmp_path):
    played = play(tmp_path / "run", seeds=range(4), jobs=4)
    assert [result.end for result in played.results.values()] == ["truncated"] * 4
    (row,) = build_table([played.folder]).rows
    assert (row.n, row.failed, row.behaviour.steps) == (4, 0, 800)
    assert row.mean > 0.5
    for spec in played.folder.config.specs():
        trace = read_trace(played.folder.trace_path(spec))
        assert trace.result == played.results[spec.id]
        assert [step.t for step in trace.steps] == list(range(200))
        assert trace.result.score == sum(step.reward for step in trace.steps) == trace.result.progress * 20
        last = sorted(line for step in trace.steps for splice in step.memory for line in splice.inserted)
        final = (played.folder.memory_path(spec) / "places.txt").read_text().splitlines()
        assert set(final) <= set(last)


def test_traces_do_not_depend_on_how_many_are_in_flight(tmp_path):
    one, four = tmp_path / "one", tmp_path / "four"
    play(one, seeds=range(4), jobs=1, steps=50)
    play(four, seeds=range(4), jobs=4, steps=50)
    assert same(one, four)


def test_traces_do_not_depend_on_the_process(tmp_path):
    for hash_seed in ("1", "2"):
        arguments = ["run", "courier/small", "-S", "courier-v1", "-m", COURIER, "--seeds", "0-1", "--max-steps", "40"]
        code, _, err = run(*arguments, "-o", hash_seed, cwd=tmp_path, PYTHONHASHSEED=hash_seed)
        assert code == 0, err
    assert same(tmp_path / "1", tmp_path / "2")


def test_the_golden_trace(tmp_path):
    """To renew the file after a change that is meant: AUTOMEM_GOLDEN=renew pytest tests/play -k golden."""
    played = play(tmp_path / "run", seeds=[42], steps=12)
    (spec,) = played.folder.config.specs()
    lines = timeless(played.folder.trace_path(spec)).decode().splitlines(keepends=True)
    if os.environ.get("AUTOMEM_GOLDEN") == "renew":
        GOLDEN.write_text("".join(lines))
    golden = GOLDEN.read_text().splitlines(keepends=True)
    difference = list(difflib.unified_diff(golden, lines, "golden", "now", n=0))
    assert not difference, "".join(difference)[:2_000]
    assert [json.loads(line)["kind"] for line in golden] == ["header", *["step"] * 12, "result"]


def test_every_policy_plays_every_scaffold_for_any_game(tmp_path):
    for scaffold in ("courier-v0", "courier-v1", "window", "window-cot"):
        for policy in ("null", "random", "malformed"):
            played = play(tmp_path / f"{scaffold}-{policy}", scaffold=scaffold, model=f"scripted:{policy}", steps=10)
            assert failures(played) == []


def test_malformed_replies_are_answered_and_recorded(tmp_path):
    played = play(tmp_path / "run", scaffold="courier-v0", model="scripted:malformed", steps=30)
    (spec,) = played.folder.config.specs()
    operations = [
        operation
        for step in read_trace(played.folder.trace_path(spec)).steps
        for call in step.calls
        for operation in call.operations
    ]
    assert {"?", "APPEND", "TAIL", "COUNT", "ACTION", "DONE"} & {operation.name for operation in operations}
    assert all(operation.result for operation in operations)
    assert {operation.ok for operation in operations} == {True, False}


def test_an_episode_ends_where_the_game_ends(tmp_path, toy, scaffold):
    played = play(tmp_path / "run", seeds=[7, 8], env="toy", tasks=["a"], scaffold=scaffold(), model="scripted:null")
    ends = [(result.end, result.steps, result.score) for result in played.results.values()]
    assert ends == [("terminated", 7, 7.0), ("truncated", 9, 9.0)]


def test_limits_on_steps_truncate_and_other_limits_fail(tmp_path, toy, scaffold):
    made = scaffold()
    common = {"env": "toy", "tasks": ["a"], "scaffold": made, "model": "scripted:null"}
    (result,) = play(tmp_path / "steps", **common, steps=3).results.values()
    assert (result.end, result.steps, result.failure) == ("truncated", 3, None)
    played = play(tmp_path / "calls", **common, limits={"max_calls": 6})
    (result,) = played.results.values()
    assert (result.end, result.failure, result.steps) == ("failed", "limit", 3)
    assert "used its 6 model calls" in result.message
    again = play(tmp_path / "calls", **common, limits={"max_calls": 6})
    assert list(again.results.values()) == [result]


@pytest.mark.parametrize("seeds", ["2", "1 3"])
def test_a_game_that_breaks_fails_its_own_episode_only(tmp_path, toy, scaffold, monkeypatch, seeds):
    common = {"seeds": range(4), "jobs": 2, "env": "toy", "tasks": ["a"], "scaffold": scaffold()}
    play(tmp_path / "undisturbed", model="scripted:null", **common)
    monkeypatch.setenv("TOY_FAILS", seeds)
    played = play(tmp_path / "run", model="scripted:null", **common)
    broken = [int(seed) for seed in seeds.split()]
    found = {spec.seed: played.results[spec.id] for spec in played.folder.config.specs()}
    assert [seed for seed, result in found.items() if result.failure] == broken
    for seed in broken:
        assert (found[seed].failure, found[seed].steps) == ("env", 4)
        assert found[seed].message == f"Oops in step 4 of toy/a seed {seed}: the counter is broken"
    (row,) = build_table([played.folder]).rows
    assert (row.n, row.failed, dict(row.failures)) == (4 - len(broken), len(broken), {"env": len(broken)})
    monkeypatch.delenv("TOY_FAILS")
    assert failures(play(tmp_path / "run", model="scripted:null", **common)) == []
    assert same(tmp_path / "run", tmp_path / "undisturbed")


@pytest.mark.parametrize("key", ["progress", "state"])
def test_a_game_that_does_not_tell_what_it_must_fails(tmp_path, toy, scaffold, monkeypatch, key):
    monkeypatch.setenv("TOY_LACKS", key)
    played = play(tmp_path / "run", env="toy", tasks=["a"], scaffold=scaffold(), model="scripted:null")
    assert failures(played) == [("env", f"KeyError in reset of toy/a seed 0: '{key}'")]


@pytest.mark.parametrize("dialect", ["tags", "tools"])
def test_the_scripted_courier_acts_alike_with_and_without_a_handoff(tmp_path, scaffold, dialect):
    actions = []
    for plan in ("merged", "handoff"):
        made = scaffold(name=plan, plan=plan, dialect=dialect)
        played = play(tmp_path / plan, scaffold=made, steps=40, seeds=[3])
        (spec,) = played.folder.config.specs()
        actions.append([step.action for step in read_trace(played.folder.trace_path(spec)).steps])
    assert actions[0] == actions[1]
    assert {"take", "deliver"} <= set(actions[0])


def test_a_fault_of_the_scaffold_fails_the_episode_at_its_step(tmp_path, toy, scaffold):
    made = scaffold(prompts={"log.j2": "# LOG\n{{ history.last.action }}\n{{ 1 // (4 - step) }}"})
    played = play(tmp_path / "run", env="toy", tasks=["a", "b"], scaffold=made, model="scripted:null")
    for kind, message in failures(played):
        assert kind == "scaffold"
        assert "prompts/log.j2, line 3, step 4: " in message
    assert [result.steps for result in played.results.values()] == [4, 4]


def test_a_fault_of_the_scaffold_before_the_first_step(tmp_path, scaffold):
    played = play(tmp_path / "run", scaffold=scaffold(logic="def guard(a, b):\n    return None\n"))
    assert [(result.failure, result.steps) for result in played.results.values()] == [("scaffold", 0)]


class Outage:
    """A model that is out of reach at some calls, counted from 0; it answers as another one otherwise."""

    def __init__(self, model, out):
        self.name = model.name
        self._model = model
        self._out = out
        self.asked = 0

    async def generate(self, messages, request):
        number, self.asked = self.asked, self.asked + 1
        if number in self._out:
            raise ModelFailure("out of reach")
        return await self._model.generate(messages, request)

    async def close(self):
        await self._model.close()


@pytest.mark.parametrize("call", [0, 1, 2, 7, 30])
def test_an_outage_is_a_failure_and_never_an_action(tmp_path, call):
    play(tmp_path / "undisturbed", steps=15)
    played = play(tmp_path / "run", steps=15, models={"gameplay": Outage(make_model(COURIER, {}), {call})})
    assert failures(played) == [("model", "out of reach")]
    (failed,) = played.results.values()
    (good,), (written,) = (traces(tmp_path / name).values() for name in ("undisturbed", "run"))
    assert written.splitlines()[:-1] == good.splitlines()[: failed.steps + 1]
    assert read_result(played.folder.trace_path(*played.folder.config.specs())) == failed
    (row,) = build_table([played.folder]).rows
    assert (row.n, row.mean, dict(row.failures)) == (0, None, {"model": 1})
    play(tmp_path / "run", steps=15)
    assert same(tmp_path / "run", tmp_path / "undisturbed")


def test_a_bug_is_no_failure_of_an_episode(tmp_path):
    class Bug(Outage):
        async def generate(self, messages, request):
            raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        play(tmp_path / "run", seeds=range(3), jobs=2, models={"gameplay": Bug(make_model(COURIER, {}), ())})
    assert [read_result(path) for path in (tmp_path / "run" / "traces").rglob("*.jsonl")] == [None] * 3
    assert failures(play(tmp_path / "run", seeds=range(3))) == []


def test_the_models_are_closed(tmp_path):
    class Closed(Outage):
        closed = 0

        async def close(self):
            self.closed += 1

    model = Closed(make_model(COURIER, {}), ())
    play(tmp_path / "run", steps=1, models={"gameplay": model, "memory": model})
    assert model.closed == 1


def test_a_trace_of_another_episode_is_not_overwritten(tmp_path):
    played = play(tmp_path / "run", seeds=[0, 1], steps=3)
    one, other = (played.folder.trace_path(spec) for spec in played.folder.config.specs())
    other.write_bytes(b"".join(one.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(UsageError, match="is the trace of another episode"):
        play(tmp_path / "run", seeds=[0, 1], steps=3)


def test_leftovers_in_the_memory_directory_are_removed(tmp_path):
    played = play(tmp_path / "run", steps=5)
    (spec,) = played.folder.config.specs()
    before = memories(tmp_path / "run")
    directory = played.folder.memory_path(spec)
    (directory / "old.txt").write_text("of an earlier try")
    (directory / "places.txt").write_text("something else")
    (directory / ".places.txt.part").symlink_to(tmp_path / "elsewhere")
    path = played.folder.trace_path(spec)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    play(tmp_path / "run", steps=5)
    assert memories(tmp_path / "run") == before
    assert not (tmp_path / "elsewhere").exists()
