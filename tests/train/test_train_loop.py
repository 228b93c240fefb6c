import json
import shutil
from pathlib import Path

import pytest
from made_turns import WEST, append, moment, run, search

from automem.episode import Limits, ModelSpec
from automem.errors import RunError, UsageError
from automem.models import make_model
from automem.models.weights import adapter_digest
from automem.results.gate import MeanGate
from automem.results.plays import Game
from automem.train import report
from automem.train.config import TrainConfig, default_gate_seeds
from automem.train.engine import Config, Plan
from automem.train.hindsight import RulesSelector
from automem.train.job import Trained
from automem.train.ledger import Ledger
from automem.train.loop import Bench, Training, opened
from automem.train.recipe import Lora, Recipe
from automem.train.turns import episodes

START = Recipe(name="start", lora=Lora(gpus=0))


class Players:
    """The base waits; an adapter whose weights say `good` plays."""

    base, digest = "the base", "d0"

    def specs(self, adapter, digest):
        return {"gameplay": ModelSpec(name="scripted:courier" if self._good(adapter) else "scripted:null")}

    def models(self, adapter, digest):
        return {role: make_model(spec.name, {}) for role, spec in self.specs(adapter, digest).items()}

    def _good(self, adapter):
        return adapter is not None and "good" in (adapter / "adapter_model.safetensors").read_text()


class Trainer:
    """Writes the adapters it is given, and remembers its jobs."""

    def __init__(self, *weights):
        self.weights, self.jobs = list(weights), []

    def __call__(self, job):
        self.jobs.append(job)
        folder = Path(job.out) / "adapter"
        weights = self.weights.pop(0)
        if isinstance(weights, Exception):
            raise weights
        folder.mkdir(parents=True)
        (folder / "adapter_config.json").write_text(json.dumps({"r": job.lora.rank}))
        (folder / "adapter_model.safetensors").write_text(weights)
        return Trained(
            job=job.digest, adapter=adapter_digest(folder), rows=2, held_out_rows=1, supervised_tokens=7, tokens=9,
            trainable=1, updates=1, train_loss=0.5, held_out_before=2.0, held_out_after=1.0, seconds=1.0, device="cpu",
        )  # fmt: skip


class Plans:
    name = "plans"

    def __init__(self, *plans):
        self.plans = list(plans)

    def propose(self, view):
        return self.plans.pop(0) if self.plans else None


def ranks(*wanted, data="regenerate", **others):
    return Plan(data=data, configs=[Config(lora={"rank": rank}, reason=f"rank {rank}") for rank in wanted], **others)


@pytest.fixture
def collected(tmp_path, scaffold):
    good = [
        moment("a", log=[append("lamp at 3,1")]),
        moment("b", plan=[search("lamp"), WEST]),
        moment("c", progress=0.5),
    ]
    return run(tmp_path / "p0", scaffold(), good, good, good)


@pytest.fixture
def loop(tmp_path, collected):
    """Runs the loop in one folder, with other trainers and plans each time."""

    def once(trainer, plans, iterations=1, gate=None, **changes):
        from automem.scaffold.spec import load

        gate = gate or MeanGate()
        made = load(str(collected.path / "scaffold"))
        config = TrainConfig(
            runs=[collected.name], env="courier", tasks=["small"], options={}, scaffold=made.name,
            scaffold_digest=made.digest, base="the base", recipe=START, selector="rules", engine="plans",
            gate=str(gate), training_seeds=[0, 1, 2], gate_seeds=list(range(10, 13)), report_seeds=[20, 21],
            iterations=iterations,
        ).model_copy(update=changes)  # fmt: skip
        game = Game("courier", ("small",), {}, {}, dict, Limits(max_steps=40), jobs=3)
        told = []
        bench = Bench(
            episodes=list(episodes([collected])), scaffold=made, players=Players(), game=game, engine=plans, gate=gate,
            make_selector=lambda recipe: RulesSelector(recipe.selection), train=trainer, report_to="none",
            tell=told.append,
        )  # fmt: skip
        with opened(tmp_path / "t0", config):
            return Training(tmp_path / "t0", config, bench).run()

    once.folder = tmp_path / "t0"
    return once


def test_what_helps_is_adopted_and_written_down(loop):
    outcome = loop(Trainer("good"), Plans(ranks(8)))
    row = outcome.best
    assert (row.verdict, row.rows, row.held_out_rows, row.recipe.lora.rank) == ("adopted", 6, 2, 8)
    assert row.adapter == adapter_digest(loop.folder / "best")
    assert set(row.report) == {"small/20", "small/21"}
    assert set(row.after) == {f"small/{seed}" for seed in range(10, 13)}
    assert row.base_report == dict.fromkeys(row.report, 0.0)
    assert row.difference["mean"] == pytest.approx(sum(row.report.values()) / 2)
    assert row.difference["n"] == 2
    assert row.dropped == {}
    assert "against the base alone" in row.why
    assert (loop.folder / row.dataset / "README.md").read_text().count("7 tokens") == 1


def test_a_damaged_train_json_and_a_damaged_plan(loop):
    loop(Trainer("bad"), Plans(ranks(8)))
    plan = loop.folder / "plans/i1.json"
    kept = plan.read_text()
    plan.write_text("{")
    with pytest.raises(UsageError, match=r"plans/i1\.json is damaged: it breaks off in the middle$") as caught:
        loop(Trainer("bad"), Plans())
    assert caught.value.hint == "delete it: the engine is then asked again"
    plan.write_text(kept)
    file = loop.folder / "train.json"
    file.write_text(file.read_text().replace('"env"', '"enw"'))
    with pytest.raises(UsageError, match=r"train\.json is damaged: enw: unknown key 'enw'$") as caught:
        loop(Trainer("bad"), Plans())
    assert caught.value.hint.endswith("put it right, bring it back from a copy, or choose another -o")


def test_what_does_not_help_is_not_adopted(loop):
    outcome = loop(Trainer("bad"), Plans(ranks(8)))
    assert outcome.best is None
    assert [row.verdict for row in Ledger(loop.folder).rows] == ["rejected"]
    assert not (loop.folder / "best").exists()


def test_the_next_must_beat_the_best(loop):
    outcome = loop(Trainer("good", "good too"), Plans(ranks(8), ranks(16, data="reuse")), iterations=2)
    rows = Ledger(loop.folder).rows
    assert [row.verdict for row in rows] == ["adopted", "rejected"]
    assert "against recipes/i1-c1" in rows[1].why
    assert rows[1].dataset == rows[0].dataset
    assert outcome.best == rows[0]


def test_two_configs_and_an_engine_that_has_no_more(loop):
    outcome = loop(Trainer("bad", "good"), Plans(ranks(4, 8)), iterations=3)
    assert [(row.iteration, row.config, row.verdict) for row in Ledger(loop.folder).rows] == [
        (1, 1, "rejected"),
        (1, 2, "adopted"),
    ]
    assert outcome.stopped == "the engine had nothing to try in iteration 2"


def test_the_same_command_goes_on_and_repeats_nothing(loop):
    first = Trainer("bad", RunError("cannot write: the disk is full"))
    with pytest.raises(RunError, match="disk is full"):
        loop(first, Plans(ranks(4, 8)))
    assert [row.config for row in Ledger(loop.folder).rows] == [1]
    again = Trainer("good")
    assert loop(again, Plans()).best.config == 2
    assert [job.lora.rank for job in again.jobs] == [8]
    assert loop(Trainer(), Plans()).best.config == 2


def test_a_recipe_that_was_tried_is_not_trained_again(loop):
    trainer = Trainer("bad")
    loop(trainer, Plans(ranks(4, 4)))
    assert [row.verdict for row in Ledger(loop.folder).rows] == ["rejected", "refused"]
    assert Ledger(loop.folder).rows[1].why == "the same recipe as in recipes/i1-c1"


NOTHING = Plan(
    data="regenerate",
    selection={"horizon": 0, "phases": ["log"], "used_share": 1.0},
    configs=[Config(reason="nothing is of use within no time")],
)


def test_no_rows_stop_the_first_iteration_and_cost_a_later_one_its_turn(loop):
    with pytest.raises(UsageError, match="no row to train on is left: unused 3"):
        loop(Trainer(), Plans(NOTHING))
    outcome = loop(
        Trainer("good"), Plans(ranks(4), NOTHING), iterations=2, recipe=START.model_copy(update={"name": "looser"})
    )
    refused = Ledger(loop.folder).rows[1]
    assert (refused.verdict, refused.adapter, refused.trained) == ("refused", "", None)
    assert "no row to train on is left" in refused.why
    assert outcome.best.iteration == 1


def test_an_adapter_that_was_swapped_is_never_scored(loop):
    loop(Trainer("good"), Plans(ranks(8)))
    (loop.folder / "recipes/i1-c1/adapter/adapter_model.safetensors").write_text("better")
    with pytest.raises(UsageError, match="is not the adapter that was trained"):
        loop(Trainer("good"), Plans(ranks(16)), iterations=2)


def test_best_is_made_again_when_it_is_lost(loop):
    loop(Trainer("good"), Plans(ranks(8)))
    shutil.rmtree(loop.folder / "best")
    outcome = loop(Trainer(), Plans())
    assert adapter_digest(loop.folder / "best") == outcome.best.adapter


def test_other_settings_need_another_folder(loop):
    loop(Trainer("bad"), Plans(ranks(8)))
    with pytest.raises(UsageError, match=r"made with other settings: report_seeds: \[20, 21\] there, \[30\] here$"):
        loop(Trainer(), Plans(), report_seeds=[30])
    other = START.model_copy(update={"lora": Lora(gpus=0, rank=9)})
    with pytest.raises(UsageError, match=r"made with other settings: recipe.lora.rank: \d+ there, 9 here$"):
        loop(Trainer(), Plans(), recipe=other)


def test_a_training_on_its_way_is_not_thrown_away_for_other_settings(loop):
    def killed(job):
        (Path(job.out) / "checkpoints" / "checkpoint-2").mkdir(parents=True)
        raise RunError("killed")

    with pytest.raises(RunError, match="killed"):
        loop(killed, Plans(ranks(8)))
    with pytest.raises(UsageError, match="made with other settings"):
        loop(Trainer(), Plans(), report_seeds=[30])
    assert (loop.folder / "recipes/i1-c1/checkpoints/checkpoint-2").is_dir()
    assert loop(Trainer("good"), Plans()).best.config == 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"report_seeds": [2, 30]}, "seeds 2 are training seeds and report seeds"),
        ({"gate_seeds": [0, 1, 2]}, "seeds 0, 1, 2 are training seeds and gate seeds"),
        ({"gate_seeds": [20]}, "seeds 20 are gate seeds and report seeds"),
    ],
)
def test_overlapping_seeds_are_refused_before_anything_is_written(loop, changes, told):
    with pytest.raises(UsageError, match=told):
        loop(Trainer(), Plans(), **changes)
    assert not loop.folder.exists()


def test_default_gate_seeds_are_free_ones():
    assert default_gate_seeds([0, 1, 19], [100, 101]) == [102, 103]


def test_an_edited_row_is_found_before_training(loop):
    loop(Trainer("bad"), Plans(ranks(8)))
    dataset = next((loop.folder / "datasets").iterdir())
    rows = dataset / "train.jsonl"
    rows.write_text(rows.read_text().replace("lamp at 3,1", "lamp at 9,9", 1))
    with pytest.raises(UsageError, match="its completion is not that of"):
        loop(Trainer(), Plans(ranks(16)), iterations=2)


def test_the_table_has_all_of_it(loop):
    loop(Trainer("good"), Plans(ranks(8)))
    rows = report.ledger_rows(loop.folder)
    text = report.to_markdown(rows)
    assert "start-i1-c1 | 4 | 7 | r 8, α 32" in text
    assert "2.000 -> 1.000" in text
    assert "| adopted |" in text
    assert json.loads(report.to_json(rows))["rows"][0]["report_mean"] > 0
    with pytest.raises(UsageError, match="not a train folder"):
        report.ledger_rows(loop.folder / "plays")
