"""The loop: what becomes of a proposal, in which order, what is kept, and when it stops."""

import json
import shutil

import pytest
from loops import (
    COURIER,
    GATE,
    REPORT,
    Shelf,
    best,
    config,
    evolve,
    forgetful,
    nothing,
    raising,
    revised,
    rows,
    steps_played,
    verdicts,
)

from automem import env as envs
from automem.errors import ModelFailure, ProposerFailure, RunError, UsageError
from automem.evolve.config import LoopBudget
from automem.evolve.loop import best_gate_run, opened, read_config
from automem.models import make_model
from automem.results.gate import PairedGate
from automem.results.plays import Cost
from automem.scaffold.spec import load
from automem.trace import read_trace

LONG = {"budget": {"attempts": 2, "continuations": 1}}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "evolve"


# What becomes of a proposal


def test_a_better_candidate_becomes_the_best(out):
    outcome = evolve(out, Shelf(revised()))
    assert outcome.stopped == "all revisions were made"
    (row,) = rows(out)
    assert (row["verdict"], row["scaffold"], row["parent"]) == ("accepted", "courier-v1-x", "courier-v0")
    assert row["reason"] == "mean gate: 0.100 -> 0.150"
    assert row["changes"] == [{"kind": "memory-structure", "title": "changed"}]
    assert (row["before"], row["after"]) == ({"small/7": 0.1}, {"small/7": 0.15})
    assert row["play_cost"]["calls"] > 100
    assert best(out).digest == row["digest"]
    assert outcome.best.run.config.scaffold == "courier-v1-x"
    assert (outcome.start.run.config.seeds, outcome.report.n) == (REPORT, 1)


def test_the_best_is_a_copy(out):
    evolve(out, Shelf(revised()))
    assert not any(path.is_symlink() for path in [out / "best", *(out / "best").rglob("*")])
    shutil.rmtree(out / "proposals")
    assert best(out).digest == rows(out)[0]["digest"]
    assert best_gate_run(out).config.scaffold_digest == best(out).digest


def test_a_candidate_that_is_no_better_is_rejected_and_the_best_stays(out):
    outcome = evolve(out, Shelf(forgetful()))
    assert verdicts(out) == ["1.1: rejected"]
    assert rows(out)[0]["reason"].startswith("mean gate: 0.100 -> ")
    assert outcome.stopped == "revision 1 found nothing better"
    assert best(out).digest == load("courier-v0").digest
    assert outcome.best is outcome.start


def test_equal_scores_are_rejected(out):
    evolve(out, Shelf(revised("courier-v0", "courier-same", budget={"log_rounds": 3, "plan_rounds": 4, "history": 1})))
    (row,) = rows(out)
    assert (row["verdict"], row["before"]) == ("rejected", row["after"])


def test_nothing_proposed_is_empty_and_costs_no_play(out):
    evolve(out, Shelf(nothing))
    (row,) = rows(out)
    assert (row["verdict"], row["reason"], row["after"]) == ("empty", "nothing was proposed", {})
    assert [path.name for path in (out / "plays").glob("gate-*")] == [f"gate-{load('courier-v0').digest}"]


def test_a_refused_candidate_is_not_played(out):
    proposer = Shelf(revised(env="crafter"), nothing)
    evolve(out, proposer)
    (row,) = rows(out)
    assert (row["verdict"], row["repaired"], row["digest"]) == ("refused", True, None)
    assert row["reason"] == "scaffold.yaml: env is 'crafter', but the game is 'courier'"
    assert len(proposer.asked) == 2
    assert len(list((out / "plays").glob("gate-*"))) == 1


def test_one_repair_round_with_the_errors(out):
    proposer = Shelf(revised(env="crafter"), revised())
    evolve(out, proposer)
    (row,) = rows(out)
    assert (row["verdict"], row["repaired"]) == ("accepted", True)
    assert [asked.errors for asked in proposer.asked] == [
        None,
        "- scaffold.yaml: env is 'crafter', but the game is 'courier'",
    ]
    assert row["diagnosis"] == "proposal 1\n\nproposal 2"


def test_half_a_folder_is_refused(out):
    def half(assignment):
        revised()(assignment)
        (assignment.output / "prompts" / "plan.j2").unlink()

    evolve(out, Shelf(half))
    assert verdicts(out) == ["1.1: refused"]
    assert "prompts/plan.j2 must be there" in rows(out)[0]["reason"]


def test_a_proposer_that_fails(out):
    evolve(out, Shelf(raising(ProposerFailure("timed out after 5 s"))))
    (row,) = rows(out)
    assert (row["verdict"], row["reason"]) == ("failed", "timed out after 5 s")
    assert best(out).digest == load("courier-v0").digest


def outage(assignment):
    raise ProposerFailure("no answer") from ModelFailure("connection refused")


def test_an_outage_decides_nothing_and_the_slot_is_owed_again(out):
    with pytest.raises(RunError, match="no answer"):
        evolve(out, Shelf(outage))
    assert verdicts(out) == ["1.1: outage"]
    with pytest.raises(RunError):
        evolve(out, Shelf(outage))
    evolve(out, Shelf(revised()))
    assert verdicts(out) == ["1.1: outage", "1.1: outage", "1.1: accepted"]
    played = steps_played(out)
    evolve(out, Shelf(forgetful()))
    assert len(rows(out)) == 3
    assert steps_played(out) == played


FAILS_LATE = "def observe(state, history):\n    return {'a': 'x' * (1 // (history['step'] - 20))}\n"


def test_a_scaffold_that_fails_in_play_is_rejected(out):
    evolve(out, Shelf(revised(kinds=("memory-structure", "observation-processing"), logic=FAILS_LATE)))
    (row,) = rows(out)
    assert row["verdict"] == "rejected"
    assert row["reason"].startswith("failed in play: scaffold 'courier-v1-x': logic.py, line 2, in observe, step 20: ")
    assert best(out).digest == load("courier-v0").digest


STUBBORN = "def guard(action, state, history):\n    return 'no'\n"


def test_a_scaffold_that_uses_up_the_limits_of_an_episode_is_rejected(out, tmp_path):
    evolve(tmp_path / "free", Shelf(), limits={"max_steps": 5})
    (trace,) = best_gate_run(tmp_path / "free").path.rglob("s*.jsonl")
    calls = sum(len(step.calls) for step in read_trace(trace).steps)
    more = revised(kinds=("memory-structure", "action-guard"), logic=STUBBORN)
    evolve(out, Shelf(more), limits={"max_steps": 5, "max_calls": calls})
    (row,) = rows(out)
    assert row["verdict"] == "rejected"
    assert row["reason"] == f"failed in play: the episode has used its {calls} model calls"


def test_a_start_that_fails_in_play_is_not_improved(out):
    with pytest.raises(RunError, match="'courier-v0' itself fails in play: the episode has used its 3 model calls"):
        evolve(out, Shelf(revised()), limits={"max_steps": 5, "max_calls": 3})
    assert not (out / "lineage.jsonl").exists()


class Flaky:
    """Plays as the courier, and cannot be asked while a file stands there."""

    name = COURIER

    def __init__(self, down, folder):
        self.model = make_model(COURIER, {})
        self.down = down
        self.folder = folder

    async def generate(self, messages, request):
        if self.down.exists() and (self.folder / "proposals").exists():
            raise ModelFailure("connection refused", "is the server up?")
        return await self.model.generate(messages, request)

    async def close(self):
        await self.model.close()


def test_a_candidate_waits_while_the_model_cannot_be_asked(out, tmp_path):
    down = tmp_path / "down"
    down.touch()

    def models():
        return {"gameplay": Flaky(down, out)}

    for _ in range(2):
        with pytest.raises(RunError, match=r"1 episodes of 'courier-v1-x' failed \(model\): connection refused"):
            evolve(out, Shelf(revised()), models=models)
        assert not (out / "lineage.jsonl").exists()
        assert best(out).digest == load("courier-v0").digest
    down.unlink()
    proposer = Shelf(forgetful())
    evolve(out, proposer, models=models)
    assert verdicts(out) == ["1.1: accepted"]
    assert proposer.asked == []


# Attempts and continuations


def test_attempts_and_continuations_in_order(out):
    proposer = Shelf(forgetful(1), forgetful(2), forgetful(3), forgetful(4))
    outcome = evolve(out, proposer, **LONG)
    assert verdicts(out) == ["1.1: rejected", "1.1+: rejected", "1.2: rejected", "1.2+: rejected"]
    assert outcome.stopped == "revision 1 found nothing better"
    first, mended, second, _ = proposer.asked
    assert (first.failed, second.failed) == (None, None)
    assert mended.failed.folder == out / "proposals" / "r1-a1-c0" / "candidate"
    assert mended.failed.reason == rows(out)[0]["reason"]
    assert mended.failed.after == rows(out)[0]["after"]
    assert mended.failed.run.config.scaffold == "courier-short-1"
    assert (mended.failed.folder / "scaffold.yaml").is_file()
    assert [len(asked.lineage) for asked in proposer.asked] == [0, 1, 2, 3]


def test_a_continuation_sees_what_was_refused(out):
    proposer = Shelf(revised(env="crafter"), nothing, revised())
    evolve(out, proposer, budget={"continuations": 1})
    assert verdicts(out) == ["1.1: refused", "1.1+: accepted"]
    failed = proposer.asked[2].failed
    assert (failed.run, failed.after) == (None, {})
    assert "env is 'crafter'" in failed.reason
    assert (failed.folder / "scaffold.yaml").is_file()


def test_nothing_proposed_is_not_continued(out):
    evolve(out, Shelf(), **LONG)
    assert verdicts(out) == ["1.1: empty", "1.2: empty"]


def test_an_accepted_attempt_ends_its_revision_and_the_next_starts_from_it(out):
    proposer = Shelf(forgetful(), revised(), nothing)
    outcome = evolve(out, proposer, budget={"revisions": 3, "attempts": 2})
    assert verdicts(out) == ["1.1: rejected", "1.2: accepted", "2.1: empty", "2.2: empty"]
    assert outcome.stopped == "revision 2 found nothing better"
    third = proposer.asked[2]
    assert third.scaffold.digest == best(out).digest == rows(out)[1]["digest"]
    assert third.run.config.scaffold == "courier-v1-x"
    assert rows(out)[2]["before"] == rows(out)[1]["after"]
    assert rows(out)[2]["parent_digest"] == rows(out)[1]["digest"]


def test_a_proposer_sees_only_gate_runs(out):
    proposer = Shelf(forgetful())
    evolve(out, proposer)
    assert proposer.asked[0].run.config.seeds == GATE
    assert not set(proposer.asked[0].run.config.seeds) & set(REPORT)


def test_the_same_scaffold_is_not_played_twice(out):
    proposer = Shelf(forgetful(), forgetful(), revised(name="other"), revised(name="other"))
    evolve(out, proposer, budget={"revisions": 2, "attempts": 3})
    first, twin, accepted, again = rows(out)[:4]
    assert (twin["verdict"], again["verdict"]) == ("rejected", "refused")
    assert twin["reason"].startswith("the same scaffold as in proposals/r1-a1-c0: mean gate")
    assert (twin["after"], twin["play_cost"]["calls"]) == (first["after"], 0)
    assert "nothing that is played was changed" in again["reason"]
    assert accepted["verdict"] == "accepted"
    assert len(list((out / "plays").glob("gate-*"))) == 3


# Going on


def test_a_finished_loop_played_again_changes_nothing(out):
    first = evolve(out, Shelf(forgetful(), revised()), budget={"attempts": 2})
    lineage, played = (out / "lineage.jsonl").read_bytes(), steps_played(out)
    proposer = Shelf(forgetful(3))
    again = evolve(out, proposer, budget={"attempts": 2})
    assert (out / "lineage.jsonl").read_bytes() == lineage
    assert steps_played(out) == played
    assert proposer.asked == []
    assert (again.stopped, again.best.scores, again.report) == (first.stopped, first.best.scores, first.report)


def test_more_revisions_can_be_asked_for_later(out):
    evolve(out, Shelf(revised()))
    outcome = evolve(out, Shelf(forgetful()), budget={"revisions": 2})
    assert verdicts(out) == ["1.1: accepted", "2.1: rejected"]
    assert outcome.best.run.config.scaffold == "courier-v1-x"


def test_the_best_is_never_set_back_while_going_on(out):
    """An interruption at once after the start of the second run must not lose what the first one found."""
    evolve(out, Shelf(revised()))
    found = best(out).digest
    (out / "best").rename(out / "best.old")
    with pytest.raises(RunError):
        evolve(out, Shelf(outage), budget={"revisions": 2})
    assert best(out).digest == found
    (out / "best" / "prompts" / "plan.j2").unlink()
    evolve(out, Shelf(), budget={"revisions": 2})
    assert best(out).digest == found


def test_what_was_checked_is_what_is_played(out, tmp_path):
    down = tmp_path / "down"
    down.touch()
    with pytest.raises(RunError):
        evolve(out, Shelf(revised()), models=lambda: {"gameplay": Flaky(down, out)})
    (out / "proposals" / "r1-a1-c0" / "candidate" / "prompts" / "plan.j2").write_text("# PLAN\nsomething else")
    with pytest.raises(UsageError, match="no longer what was checked"):
        evolve(out, Shelf())


# Budgets


@pytest.mark.parametrize(
    ("budget", "named"),
    [
        ({"max_calls": 100}, "max_calls 100"),
        ({"max_tokens": 1000}, "max_tokens 1000"),
        ({"max_minutes": 1e-6}, "max_minutes 1e-06"),
        ({"max_usd": 0.001, "usd_per_mtok_in": 1.0}, "max_usd 0.001"),
    ],
)
def test_hard_stops_before_the_first_proposal(out, budget, named):
    proposer = Shelf(revised())
    outcome = evolve(out, proposer, budget=budget)
    assert outcome.stopped == f"the budget is used up: {named}"
    assert proposer.asked == []
    assert best(out).digest == load("courier-v0").digest


def test_no_play_starts_that_would_pass_the_limit(out):
    """The start takes some 130 calls; another play as long would pass the limit."""
    proposer = Shelf(revised(), cost=Cost(calls=5))
    outcome = evolve(out, proposer, budget={"max_calls": 240})
    assert outcome.stopped == "the budget is used up: max_calls 240"
    assert len(proposer.asked) == 1
    assert not (out / "lineage.jsonl").exists()
    assert len(list((out / "plays").glob("gate-*"))) == 1
    resumed = Shelf()
    evolve(out, resumed, budget={"max_calls": 6000})
    assert verdicts(out) == ["1.1: accepted"]
    assert resumed.asked == []


def test_what_proposers_use_counts_and_they_are_told_what_is_left(out):
    proposer = Shelf(revised(env="crafter"), nothing, nothing, cost=Cost(calls=100, tokens_in=10, tokens_out=1))
    evolve(out, proposer, budget={"attempts": 5, "max_calls": 420, "max_tokens": 10**9})
    first, repair, second = proposer.asked[:3]
    assert first.calls_left - repair.calls_left == 100
    assert first.calls_left - second.calls_left == 200
    assert first.tokens_left - second.tokens_left == 22
    assert 0 < first.calls_left < 420
    assert len(proposer.asked) == 3
    assert rows(out)[0]["proposal_cost"]["calls"] == 200


def test_a_price_without_prices_is_refused():
    with pytest.raises(ValueError, match="max_usd needs the prices"):
        LoopBudget(max_usd=1)


def test_money():
    budget = LoopBudget(max_usd=3, usd_per_mtok_in=2, usd_per_mtok_out=10)
    assert budget.usd(Cost(tokens_in=500_000, tokens_out=100_000)) == 2.0
    assert budget.reached(Cost(tokens_in=1_000_000)) is None
    assert budget.reached(Cost(tokens_in=1_500_000)) == "max_usd 3.0"


# The folder


def test_overlapping_seeds_are_refused(out):
    with pytest.raises(UsageError, match="seeds 0, 1 are gate seeds and report seeds"):
        evolve(out, Shelf(), gate_seeds=[0, 1], report_seeds=[1, 0, 5])
    assert not out.exists()


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"gate_seeds": [7, 8]}, "gate_seeds"),
        ({"report_seeds": [8]}, "report_seeds"),
        ({"gate": "paired at 0.95"}, "gate"),
        ({"proposer": "rules"}, "proposer"),
        ({"allowed": ["memory-structure"]}, "allowed"),
        ({"start": "courier-v1"}, "start_digest"),
        ({"model": "scripted:null"}, "models.gameplay.name"),
        ({"limits": {"max_steps": 61}}, "limits.max_steps"),
    ],
)
def test_other_settings_are_refused_and_named(out, other, named):
    with opened(out, config()):
        pass
    with pytest.raises(UsageError, match=f"made with other settings: .*{named}: "), opened(out, config(**other)):
        pass
    assert read_config(out) == config()


def test_two_at_once_are_refused(out):
    with opened(out, config()), pytest.raises(UsageError, match="is being written by pid"), opened(out, config()):
        pass


def test_a_folder_of_something_else_is_refused(out):
    out.mkdir()
    (out / "notes.md").touch()
    with pytest.raises(UsageError, match="holds something else"), opened(out, config()):
        pass
    with pytest.raises(UsageError, match="there is a file of that name"), opened(out / "notes.md", config()):
        pass


def test_a_start_that_was_killed_at_once_is_no_obstacle(out):
    out.mkdir()
    (out / "run.lock").touch()
    (out / ".evolve.json.123").touch()
    with opened(out, config()):
        assert read_config(out) == config()


@pytest.mark.parametrize("text", ["", "{}", "[1]", "{not json"])
def test_a_damaged_evolve_json(out, text):
    out.mkdir()
    (out / "evolve.json").write_text(text)
    with pytest.raises(UsageError, match=r"evolve\.json is damaged"):
        read_config(out)


def test_rows_of_another_evaluator_are_not_compared(out):
    evolve(out, Shelf(nothing))
    row = rows(out)[0]
    (out / "lineage.jsonl").write_text(json.dumps({**row, "evaluator": "0123"}) + "\n")
    with pytest.raises(UsageError, match=f"scored by another evaluator \\(0123\\), this one is {row['evaluator']}"):
        evolve(out, Shelf())


def test_plays_of_another_evaluator_are_not_compared(out):
    evolve(out, Shelf(nothing))
    for file in (out / "plays").glob("*/run.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "evaluator": "0123"}))
    (out / "lineage.jsonl").unlink()
    shutil.rmtree(out / "proposals")
    with pytest.raises(UsageError, match=r"plays/gate-.* was scored by another evaluator"):
        evolve(out, Shelf())


# Noise and floors


def test_the_control_tells_the_noise(out, capsys):
    evolve(out, Shelf(), model="scripted:random", control=True, limits={"max_steps": 25}, gate_seeds=list(range(6)))
    control = json.loads((out / "control.json").read_text())
    assert (control["gate"], control["n"]) == ("mean", 6)
    assert control["accepted"] is (control["after"] > control["before"])
    assert "A/A control: " in capsys.readouterr().err
    plays = {path.name.partition("-")[0]: path for path in (out / "plays").iterdir()}
    gate, control_run = ({p.name for p in plays[kind].rglob("s*.jsonl")} for kind in ("gate", "control"))
    assert len(gate) == len(control_run) == 6 and not gate & control_run
    evolve(out, Shelf(), model="scripted:random", control=True, limits={"max_steps": 25}, gate_seeds=list(range(6)))
    assert json.loads((out / "control.json").read_text()) == control


def test_the_control_of_a_model_without_noise_shows_none(out):
    evolve(out, Shelf(), control=True, limits={"max_steps": 10}, gate=PairedGate(0.5))
    control = json.loads((out / "control.json").read_text())
    assert (control["difference"], control["accepted"], control["p"]) == (0.0, False, 1.0)


def test_an_agent_that_does_nothing_scores_at_the_floor(out):
    outcome = evolve(out, Shelf(revised()), model="scripted:null", limits={"max_steps": 30})
    (row,) = rows(out)
    assert set(row["before"].values()) == set(row["after"].values()) == set(outcome.best.scores.values()) == {0.0}
    assert row["verdict"] == "rejected"


def test_a_scaffold_that_ignores_the_world_scores_at_the_floor(out):
    """The courier is asked without being shown anything: no observation, no memory."""

    def blind(assignment):
        revised(
            "courier-v0",
            "courier-blind",
            ("memory-structure", "memory-prompt"),
            budget={"log_rounds": 1, "plan_rounds": 4, "history": 2},
        )(assignment)
        for phase in ("log", "plan"):
            (assignment.output / "prompts" / f"{phase}.j2").write_text(f"# {phase.upper()}\nGo on.\n")

    evolve(out, Shelf(blind))
    (row,) = rows(out)
    assert (row["verdict"], set(row["after"].values())) == ("rejected", {0.0})


def test_the_paired_gate_decides_in_the_loop(out):
    evolve(out, Shelf(revised()), gate=PairedGate(0.95))
    (row,) = rows(out)
    assert (row["verdict"], row["gate"]["gate"], row["gate"]["p"]) == ("rejected", "paired", 0.5)
    assert row["reason"] == "paired gate: 0.100 -> 0.150, p = 0.500"


def test_a_best_that_fails_on_the_report_seeds_is_told_and_not_compared(out):
    env = envs.make("courier", "small")
    first = env.reset(seed=REPORT[0])[1]["state"]
    env.close()
    fails_there = f"def observe(state, history):\n    return {{'a': 1 if str(state) == {str(first)!r} else ''}}\n"
    outcome = evolve(out, Shelf(revised(kinds=("memory-structure", "observation-processing"), logic=fails_there)))
    assert verdicts(out) == ["1.1: accepted"]
    assert outcome.report is None
    assert "in observe, step 0: returned dict" in outcome.best.fault
