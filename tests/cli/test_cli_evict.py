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
