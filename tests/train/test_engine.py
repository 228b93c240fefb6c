import json

import pytest

from automem.errors import ModelFailure, RunError, UsageError
from automem.messages import Usage
from automem.models.base import Completion
from automem.train.engine import Config, ModelEngine, Plan, RulesEngine, View, recipes
from automem.train.job import Trained
from automem.train.ledger import LedgerRow
from automem.train.recipe import Lora, Recipe, Selection

START = Recipe(name="start", lora=Lora(rank=8, alpha=16, epochs=3, learning_rate=1e-3))


def row(iteration, recipe=START, held_out=(), gain=0.0, **others):
    trained = Trained(
        job="j", adapter="a", rows=9, held_out_rows=3, supervised_tokens=99, tokens=999, trainable=9, updates=3,
        train_loss=1.0, held_out_curve=[(n, loss) for n, loss in enumerate(held_out)], seconds=1.0, device="cpu",
    )  # fmt: skip
    facts = {
        "iteration": iteration, "config": 1, "recipe": recipe, "recipe_digest": recipe.digest, "engine": "rules",
        "reason": "r", "data": "regenerate", "base": "b", "trained": trained, "gate": {"difference": gain},
        "report": {"small/100": 0.987}, "base_report": {"small/100": 0.123}, "difference": {"mean": 0.864},
        "verdict": "rejected", "why": "w", "evaluator": "e",
    }  # fmt: skip
    return LedgerRow(**{**facts, **others})


def propose(*rows, iteration=None):
    view = View(iteration or len(rows) + 1, START, rows)
    plan = RulesEngine().propose(view)
    return plan, recipes(plan, view) if plan else []


def test_first_the_recipe_as_asked_for():
    plan, made = propose()
    assert plan.data == "regenerate"
    assert [(one.selection, one.lora) for one in made] == [(START.selection, START.lora)]


def test_then_what_the_losses_ask_for():
    plan, made = propose(row(1, held_out=[1.0, 0.8, 0.95]))
    assert plan.data == "reuse"
    assert [(one.lora.epochs, one.lora.learning_rate) for one in made] == [(2, 1e-3), (3, 5e-4)]
    assert "lowest after epoch 2" in plan.configs[0].reason
    plan, made = propose(row(1, held_out=[1.0, 0.8, 0.7]))
    assert [(one.lora.epochs, one.lora.rank, one.lora.alpha) for one in made] == [(6, 8, 16), (3, 16, 32)]
    assert "still falling" in plan.configs[0].reason


def test_then_other_data_then_other_layers_then_nothing():
    rows = [row(1, gain=0.1), row(2, recipe=Recipe(name="x", lora=Lora(rank=32)), gain=0.2)]
    plan, made = propose(*rows)
    assert plan.data == "regenerate"
    assert (made[0].selection.used_share, made[0].selection.top_episodes, made[0].lora.rank) == (1.0, 0.5, 32)
    assert "iteration 2 brought +0.200" in plan.configs[0].reason
    assert propose(*rows, iteration=4)[1][0].selection.horizon == 20
    assert propose(*rows, iteration=5)[1][0].lora.targets == "ATTN"
    assert propose(*rows, iteration=6) == (None, [])


def test_the_ladder_is_the_same_for_the_same_ledger():
    rows = [row(1, held_out=[1.0, 0.8])]
    assert propose(*rows) == propose(*rows)


def test_at_most_two_configs_each_with_a_reason():
    one = {"lora": {}, "reason": "because"}
    with pytest.raises(ValueError, match="configs"):
        Plan(data="reuse", configs=[one] * 3)
    with pytest.raises(ValueError, match="configs"):
        Plan(data="reuse", configs=[])
    with pytest.raises(ValueError, match="reason"):
        Plan(data="reuse", configs=[{"lora": {}, "reason": ""}])


class Answers:
    name = "openai:meta"

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def generate(self, messages, request):
        self.asked.append([message["content"] for message in messages])
        answer = self.answers.pop(0)
        if answer is None:
            raise ModelFailure("endpoint down")
        return Completion(answer if isinstance(answer, str) else json.dumps(answer), Usage(1, 1))

    async def close(self):
        pass


def plan_of(lora=None, reason="why not", **others):
    return {"data": "regenerate", "configs": [{"lora": lora or {}, "reason": reason}], **others}


def ask(*answers, rows=()):
    model = Answers(*answers)
    engine = ModelEngine(model, lambda _: None)
    view = View(len(rows) + 1, START, rows)
    try:
        return engine.propose(view), model, view
    finally:
        engine.close()


def test_a_model_proposes_within_the_constraints():
    answer = "I think so: " + json.dumps(plan_of({"rank": 32, "targets": "QV"}, selection={"horizon": 20})) + " OK?"
    plan, model, view = ask(answer)
    made = recipes(plan, view)[0]
    assert (made.lora.rank, made.lora.targets, made.lora.epochs, made.selection.horizon) == (32, "QV", 3, 20)
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("no JSON here", "no JSON object"),
        ("{broken}", "no valid JSON"),
        (plan_of({"rank": 0}), "rank"),
        (plan_of({"rnk": 8}), "lora.rnk"),
        (plan_of({"gpus": 8}), "lora.gpus"),
        (plan_of({"seed": 8}), "lora.seed"),
        (plan_of(selection={"selector": "all"}), "selection.selector"),
        (plan_of(selection={"held_out": 0}), "selection.held_out"),
        (plan_of(selection={"horizon": -1}), "horizon"),
        (plan_of(cleaning="off"), "cleaning"),
        (plan_of(reason=""), "reason"),
        ({**plan_of(), "data": "reuse", "reuse_from": 7}, "reuse_from"),
        ({**plan_of(), "data": "reuse", "selection": {"horizon": 3}}, "selection"),
        ({**plan_of(), "configs": [{"lora": {}, "reason": "a"}] * 3}, "configs"),
    ],
)
def test_what_is_not_valid_is_named_sent_back_and_refused_the_second_time(answer, named):
    plan, model, _ = ask(answer, plan_of())
    assert plan.configs[0].reason == "why not"
    assert named in model.asked[1][-1]
    with pytest.raises(RunError, match=named.replace(".", r"\.")):
        ask(answer, answer)


def test_an_engine_that_is_down_is_an_outage():
    with pytest.raises(RunError, match="could not be asked"):
        ask(None)


def test_an_engine_never_sees_the_report_seeds():
    _, model, _ = ask(plan_of(), rows=[row(1, gain=0.25)])
    told = "\n".join(model.asked[0])
    assert "0.25" in told
    assert not any(hidden in told for hidden in ("0.987", "0.123", "0.864", "small/100"))


def test_reuse_takes_the_selection_of_that_iteration():
    strict = Recipe(name="s", selection=Selection(used_share=1.0))
    rows = [row(1, recipe=strict), row(2)]
    plan = Plan(data="reuse", reuse_from=1, configs=[Config(lora={"rank": 4}, reason="r")])
    assert recipes(plan, View(3, START, rows))[0].selection == strict.selection
    with pytest.raises(UsageError, match="reuse_from"):
        recipes(plan.model_copy(update={"reuse_from": 9}), View(3, START, rows))
