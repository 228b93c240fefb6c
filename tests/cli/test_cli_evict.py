"""`automem evict` as commands: drift, and what fits and measures."""

import json
import re

import pytest
from asking import fault


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A run of two easy games with the whole history, and one whose history is short."""
    from automem.models import make_model
    from automem.play.folder import RunConfig
    from automem.play.run import play_run
    from automem.scaffold.spec import load

    folder = tmp_path_factory.mktemp("desk")
    for name, scaffold in (
        ("full", load("desk-full")),
        ("short", load("desk-full", {"context": {"policy": "window", "budget": 1500}})),
    ):
        config = RunConfig.model_validate(
            {
                "env": "desk",
                "tasks": ["easy"],
                "seeds": [0, 1],
                "scaffold": scaffold.name,
                "scaffold_digest": scaffold.digest,
                "models": {"gameplay": {"name": "scripted:desk"}},
            }
        )
        play_run(folder / name, config, scaffold, {"gameplay": make_model("scripted:desk", {})}, 1)
    return folder


def test_drift_tells_that_much_was_asked_for_again(automem, desk):
    code, out, _ = automem("evict", "drift", desk / "short", "--json")
    told = json.loads(out)
    assert code == 0 and told["refit"] and told["episodes"] == 2
    assert 0 < told["asked_again"] <= told["lost"] <= told["evicted"]
    code, out, _ = automem("evict", "drift", desk / "short")
    assert re.search(r"asked for again by an action: \d+ \(\d+\.\d %\)\n.*\nabove 1 %: fit the scorer anew", out)


def test_drift_without_evictions(automem, desk):
    code, out, _ = automem("evict", "drift", desk / "full")
    assert code == 0 and out.endswith("not above 1 %: no need to fit the scorer anew\n")


def test_drift_of_no_run(automem):
    assert "no run at 'nowhere'" in fault(automem("evict", "drift", "nowhere"))[0]


def test_counterfactual_labels_tell_their_cost_and_wait_for_yes(automem, desk):
    asked = ("evict", "fit", desk / "full", "--labels", "counterfactual", "--horizon", "4", "-o", "lre.json")
    code, out, _ = automem(*asked, "-n")
    assert code == 0 and out.startswith(
        "counterfactual labels: 50 episodes to replay, each without one step: 900 steps"
    )
    assert "then 188 steps to play, about 188 model calls and " in out
    code, out, err = automem(*asked)
    assert (code, out) == (2, "") and "say --yes" in err and "50 episodes to replay" in err
    code, out, err = automem(*asked, "--yes")
    assert code == 0 and out.startswith("lre.json: ") and "2 episodes, 50 units" in out
    code, out, _ = automem(*asked, "-n")
    assert "0 episodes to replay (50 are done)" in out
    code, out, _ = automem(*asked, "--scorer", "mlp", "--json")
    told = json.loads(out)
    assert (told["labels"], told["settings"]["loss"]) == ("counterfactual", "mse")


def test_fit_then_measure(automem, desk):
    assert automem("evict", "fit", desk / "full", "--scorer", "mlp", "-o", "mlp.json")[0] == 0
    asked = ("evict", "eval", desk / "full", "--budget", "25%", "--seeds", "500")
    code, out, _ = automem(*asked, "--policies", "mlp:mlp.json,window", "--json")
    rows = json.loads(out)["rows"]
    assert code == 0 and [row["policy"] for row in rows] == ["mlp:mlp.json", "window"]
    assert rows[0]["solved"] > rows[1]["solved"]
    assert "is not a scorer" in fault(automem("evict", "explain", "mlp.json", desk / "full"))[0]
