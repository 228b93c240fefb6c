"""`automem evict` as commands: drift, and what fits and measures."""

import json
import re
from pathlib import Path

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


@pytest.fixture
def scorer(automem, desk):
    assert automem("evict", "fit", desk / "full", "-o", "lre.json")[0] == 0
    return "lre.json"


def test_explain_by_seed_and_by_place(automem, desk, scorer):
    code, by_seed, _ = automem("evict", "explain", scorer, desk / "short", "--episode", "1", "--step", "12")
    assert code == 0 and re.match(r"desk/easy seed 1 \(s1-\w+\): 12 past steps, best first\n", by_seed)
    assert by_seed.count("\nstep ") == 12 and "evicted at step" in by_seed


def test_an_episode_by_its_place(automem, desk, scorer):
    asked = ("evict", "eval", desk / "full", "--policies", "window", "--budget", "600", "--seeds", "70-71")
    assert automem(*asked, "-o", "evals")[0] == 0
    (run,) = Path("evals").iterdir()
    for command in (("evict", "explain", scorer, run, "--step", "5"), ("trace", "show", run, "--step", "5")):
        code, out, err = automem(*command, "--episode", "1")
        assert code == 0 and f"note: {run} has no seed 1; by place, from 0, that is easy, seed 71 (s71-" in err
        assert automem(*command, "--episode", "71") == (0, out, "")
        assert "there is no episode '2'" in fault(automem(*command, "--episode", "2"))[0]
        assert "there is no episode '" in fault(automem(*command, "--episode", "9" * 5000))[0]


def test_explain_of_no_such_step(automem, desk, scorer):
    message, hint = fault(automem("evict", "explain", scorer, desk / "full", "--step", "31"))
    assert "has no step 31" in message and "it has 31" in hint


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"--policies": "full,windwo"}, "unknown eviction policy 'windwo'", "did you mean 'window'?"),
        ({"--policies": "lre"}, "needs a scorer", "lre:PATH"),
        ({"--policies": "lre:none.json"}, "cannot read the scorer none.json", "automem evict fit"),
        ({"--policies": "lre:broken.json"}, "broken.json is not a scorer", "automem evict fit"),
        ({"--policies": "tfidf:x"}, "the policy tfidf takes no argument", "given: x"),
        ({"--policies": "window,,full"}, "unknown eviction policy ''", ""),
        ({"--policies": "window", "--budget": "0"}, "--budget '0' is neither", "2048 or 25%"),
        ({"--policies": "window", "--budget": "-5"}, "--budget '-5' is neither", "2048 or 25%"),
        ({"--policies": "window", "--budget": "much"}, "--budget 'much' is neither", "2048 or 25%"),
        ({"--policies": "window", "--budget": "9" * 400}, "--budget '999", "2048 or 25%"),
        ({"--policies": "window", "--budget": "0.0%"}, "--budget '0.0%' is neither", "2048 or 25%"),
        ({"--policies": "window", "--budget": "250%"}, "--budget '250%' is neither", "2048 or 25%"),
    ],
)
def test_wrong_input_is_told_before_anything_is_played(automem, desk, changes, message, hint):
    Path("broken.json").write_text('{"format": 1, "kind": "lre-agent"')
    options = {"--policies": "window", "--budget": "25%", "--seeds": "500", "-o": "evals", **changes}
    told = fault(automem("evict", "eval", desk / "full", *[part for pair in options.items() for part in pair]))
    assert message in told[0] and hint in (told[1] or "")
    assert not Path("evals").exists()


@pytest.mark.parametrize(
    ("key", "message"),
    [("policy=windwo", "unknown eviction policy 'windwo'"), ("policy=summary", "the policy summary needs a budget")],
)
def test_a_wrong_policy_in_play_leaves_nothing_behind(automem, key, message):
    asked = ("run", "desk/easy", "-S", "desk-full", "-s", f"context.{key}", "-m", "scripted:desk", "--seeds", "0")
    assert message in fault(automem(*asked, "-o", "made"))[0]
    assert not Path("made").exists()
