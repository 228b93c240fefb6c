"""Counterfactual trials: a step is hidden, the run's own model plays on, and what is missing then is the loss."""

import asyncio

import pytest
from playing import play

from automem.errors import ModelFailure, UsageError
from automem.evict.identifiers import identifiers
from automem.models import make_model
from automem.play.counterfactual import cost, play_trials, read_outcomes, trials
from automem.results.episodes import labelled_episodes, with_losses
from automem.scaffold.spec import load
from automem.trace import read_trace

DESK = "scripted:desk"


class Watched:
    """The clerk, who remembers what it was shown, and may fail at a call."""

    def __init__(self, fail_at=None):
        self.name = DESK
        self.shown = []
        self._model = make_model(DESK, {})
        self._fail_at = fail_at

    async def generate(self, messages, request):
        if len(self.shown) == self._fail_at:
            raise ModelFailure("gone")
        self.shown.append((request.step, "\n".join(message["content"] for message in messages)))
        return await self._model.generate(messages, request)

    async def close(self):
        pass


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One easy game of the clerk with its whole history."""
    out = tmp_path_factory.mktemp("desk") / "run"
    return play(out, env="desk", tasks=["easy"], scaffold=load("desk-full"), model=DESK).folder


def outcomes(run, chosen, path, model=None, jobs=2):
    return asyncio.run(play_trials(run, chosen, {"gameplay": model or make_model(DESK, {})}, jobs, path))


def test_every_step_that_could_have_gone_has_a_trial(run):
    chosen = trials(run)
    assert [(trial.hidden, trial.start, trial.stop) for trial in chosen] == [(n, n + 6, 31) for n in range(25)]
    assert {trial.progress for trial in chosen} == {1.0}
    short = trials(run, horizon=3)
    assert [(trial.start, trial.stop) for trial in short][-3:] == [(28, 31), (29, 31), (30, 31)]
    assert short[0].progress == read_trace(run.trace_path(short[0].spec)).steps[8].progress < 1


def test_the_cost_is_counted_from_the_recorded_calls(run):
    told = cost(trials(run, horizon=2))
    steps = read_trace(run.trace_path(run.config.specs()[0])).steps
    assert (told.trials, told.steps, told.calls, told.replayed) == (25, 49, 49, sum(range(6, 31)))
    pairs = [step.calls[0].usage.prompt for start in range(6, 31) for step in steps[start : start + 2]]
    assert told.tokens == sum(pairs)


def test_nothing_to_try(run, tmp_path):
    with pytest.raises(UsageError, match="no finished episode"):
        trials(run, keep_last=31)


def test_the_hidden_step_and_no_other_is_out_of_the_prompts(run, tmp_path):
    (trial,) = [trial for trial in trials(run, horizon=2) if trial.hidden == 3]
    model = Watched()
    outcomes(run, [trial], tmp_path / "o.jsonl", model)
    assert [step for step, _ in model.shown] == [9, 10]
    for step, text in model.shown:
        assert [number for number in range(step) if f"# Step {number}\n" not in text] == [3]


def test_losses_agree_with_what_was_needed(run, tmp_path):
    chosen = trials(run)
    found = outcomes(run, chosen, tmp_path / "o.jsonl")
    (episode,) = with_losses(run, chosen, found)
    (gold,) = labelled_episodes(run, "gold")
    assert len(episode.units) == len(episode.labels) == 25
    assert [int(loss > 0) for loss in episode.labels] == list(gold.labels[:25])
    assert all(0 <= loss <= 1 for loss in episode.labels)
    assert {outcome.steps for outcome in found.values()} == {trial.stop - trial.start for trial in chosen}
    assert "CS-" in " ".join(identifiers(episode.units[3].text))


def test_what_is_in_the_file_is_not_played_again(run, tmp_path):
    chosen, path = trials(run, horizon=2), tmp_path / "o.jsonl"
    whole = outcomes(run, chosen, path)
    model = Watched()
    assert outcomes(run, chosen, path, model) == whole and not model.shown
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:20]) + lines[20][:15])
    assert len(read_outcomes(path, chosen)) == 20
    assert outcomes(run, chosen, path, model) == whole and len(model.shown) == sum(
        t.stop - t.start for t in chosen[20:]
    )
    assert sorted(path.read_text().splitlines()) == sorted(line.strip() for line in lines)


def test_of_other_trials_nothing_is_taken(run, tmp_path):
    outcomes(run, trials(run, horizon=1)[:2], tmp_path / "o.jsonl")
    assert read_outcomes(tmp_path / "o.jsonl", trials(run, horizon=2)) == {}


def test_a_failure_stops_and_keeps_what_was_played(run, tmp_path):
    chosen, path = trials(run, horizon=1), tmp_path / "o.jsonl"
    with pytest.raises(ModelFailure, match="gone"):
        outcomes(run, chosen, path, Watched(fail_at=4), jobs=1)
    assert len(read_outcomes(path, chosen)) == 4
    assert len(outcomes(run, chosen, path)) == 25


def test_a_damaged_file_is_refused(run, tmp_path):
    (tmp_path / "o.jsonl").write_text('{"episode": 1}\n')
    with pytest.raises(UsageError, match=r"o\.jsonl, line 1"):
        read_outcomes(tmp_path / "o.jsonl", trials(run))
