"""`replay:`: a run played again from its traces, without its model."""

import shutil

import pytest

from automem.config import parse_seeds
from automem.episode import Limits, ModelSpec
from automem.errors import ModelFailure, UsageError
from automem.models import make_model
from automem.models.base import Request
from automem.models.replay import ReplayModel
from automem.play.folder import RunConfig, RunFolder, locked
from automem.play.run import play_run
from automem.results.diff import diff_runs
from automem.scaffold.spec import load
from automem.trace import read_trace


def play(out, model="scripted:courier", scaffold="courier-v1", seeds="0-1", steps=10, jobs=2):
    made = load(scaffold) if isinstance(scaffold, str) else scaffold
    config = RunConfig(
        env="courier",
        tasks=["small"],
        seeds=parse_seeds(seeds),
        scaffold=made.name,
        scaffold_digest=made.digest,
        models={"gameplay": ModelSpec(name=model)},
        limits=Limits(max_steps=steps),
    )
    return play_run(out, config, made, {"gameplay": make_model(model, {})}, jobs)


@pytest.fixture
def recorded(tmp_path):
    play(tmp_path / "recorded")
    return tmp_path / "recorded"


def failures(played):
    return [(result.failure, result.steps, result.message) for result in played.failures]


def paths(out):
    return sorted((out / "traces").rglob("*.jsonl"))


def test_a_replay_is_identical(recorded, tmp_path):
    assert play(tmp_path / "again", f"replay:{recorded}").failures == []
    assert diff_runs(recorded, tmp_path / "again") is None


def test_a_replay_of_a_replay(recorded, tmp_path):
    play(tmp_path / "again", f"replay:{recorded}")
    play(tmp_path / "third", f"replay:{tmp_path / 'again'}")
    assert diff_runs(recorded, tmp_path / "third") is None


def test_a_replay_of_one_trace_file(recorded, tmp_path):
    play(tmp_path / "again", f"replay:{paths(recorded)[0]}", seeds="0")
    (one,) = paths(tmp_path / "again")
    assert read_trace(one).steps[-1].calls[0].reply == read_trace(paths(recorded)[0]).steps[-1].calls[0].reply


def test_tool_calls_are_replayed(scaffold, tmp_path):
    made = scaffold(dialect="tools")
    play(tmp_path / "recorded", scaffold=made)
    assert play(tmp_path / "again", f"replay:{tmp_path / 'recorded'}", scaffold=made).failures == []
    assert diff_runs(tmp_path / "recorded", tmp_path / "again") is None


def test_another_scaffold_is_a_failure_that_names_the_step(recorded, tmp_path):
    played = play(tmp_path / "again", f"replay:{recorded}", scaffold="courier-v0", seeds="0")
    ((kind, steps, message),) = failures(played)
    assert (kind, steps) == ("model", 0)
    assert "step 0, call 0 was asked something else when it was recorded" in message


def test_a_difference_that_shows_later_names_its_step(recorded, tmp_path, scaffold_folder):
    folder = shutil.copytree(load("courier-v1").folder, tmp_path / "changed")
    prompt = folder / "prompts" / "log.j2"
    prompt.write_text(prompt.read_text() + "{% if step == 4 %}Be brief.{% endif %}\n")
    played = play(tmp_path / "again", f"replay:{recorded}", scaffold=load(str(folder)), seeds="0")
    ((kind, steps, message),) = failures(played)
    assert (kind, steps) == ("model", 4)
    assert "step 4, call 0" in message


def test_a_seed_that_was_not_recorded(recorded, tmp_path):
    played = play(tmp_path / "again", f"replay:{recorded}", seeds="1-2")
    assert failures(played) == [("model", 0, f"replay:{recorded} has no trace of courier/small seed 2")]


def test_steps_that_were_not_recorded(recorded, tmp_path):
    played = play(tmp_path / "again", f"replay:{recorded}", seeds="0", steps=12)
    assert failures(played) == [("model", 10, f"replay:{recorded}: courier/small seed 0 has no call 0 at step 10")]


def test_an_unfinished_recording_is_replayed_as_far_as_it_goes(recorded, tmp_path):
    path = paths(recorded)[0]
    path.write_bytes(path.read_bytes()[:-700])
    kept = len(read_trace(path).steps)
    ((_, steps, _),) = failures(play(tmp_path / "again", f"replay:{recorded}", seeds="0"))
    assert steps == kept < 10


def test_a_replay_that_was_cut_short_is_resumed(recorded, tmp_path):
    play(tmp_path / "again", f"replay:{recorded}")
    for path in paths(tmp_path / "again"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert play(tmp_path / "again", f"replay:{recorded}").failures == []
    assert diff_runs(recorded, tmp_path / "again") is None


def test_a_replay_that_failed_goes_on_when_the_recording_is_longer(recorded, tmp_path):
    play(tmp_path / "longer", seeds="0", steps=15)
    short = shutil.copytree(recorded, tmp_path / "source")
    assert play(tmp_path / "again", f"replay:{short}", seeds="0", steps=15).failures
    for path in paths(short):
        path.unlink()
    shutil.copy(paths(tmp_path / "longer")[0], short / "traces" / "courier" / "small")
    assert play(tmp_path / "again", f"replay:{short}", seeds="0", steps=15).failures == []
    assert diff_runs(tmp_path / "longer", tmp_path / "again") is None


async def test_calls_may_come_again_and_from_the_start(recorded):
    model = ReplayModel(recorded)
    (path, _) = paths(recorded)
    steps = read_trace(path).steps

    async def answer(t):
        spec = read_trace(path).spec
        request = Request("gameplay", "plan", "courier", "small", spec.seed, t, 0, 0)
        return (await model.generate(steps[t].calls[0].messages, request)).text

    for t in (3, 3, 7, 2, 0, 9):
        assert await answer(t) == steps[t].calls[0].reply
    with pytest.raises(ModelFailure, match="no call 5 at step 9"):
        await model.generate([], Request("gameplay", "plan", "courier", "small", read_trace(path).spec.seed, 9, 5, 0))
    await model.close()
    assert await answer(1) == steps[1].calls[0].reply


@pytest.mark.parametrize("source", ["nowhere", "empty"])
def test_without_traces(tmp_path, source):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no traces at") as caught:
        make_model(f"replay:{tmp_path / source}", {})
    assert caught.value.hint == "replay: takes a run folder or a trace file"


def test_a_file_that_is_no_trace(tmp_path):
    (tmp_path / "x.jsonl").write_text("hello\n")
    with pytest.raises(UsageError):
        make_model(f"replay:{tmp_path / 'x.jsonl'}", {})


def test_the_recorded_run_is_only_read(recorded, tmp_path):
    before = [path.read_bytes() for path in paths(recorded)]
    with locked(RunFolder.read(recorded).path / "run.lock"):
        play(tmp_path / "again", f"replay:{recorded}")
    assert [path.read_bytes() for path in paths(recorded)] == before
