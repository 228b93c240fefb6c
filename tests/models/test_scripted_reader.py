"""`scripted:courier-reader`: its score is the score of the steps that its prompt shows."""

import pytest

from automem.models import make_model
from automem.models.scripted.courier_reader import facts
from automem.play.folder import RunConfig
from automem.play.run import play_run
from automem.scaffold.spec import load

STEPS = """# Step 7
Room: hall at 0,1 in a grid of 6 by 4.
Here: tin cup.
Carrying: nothing.
Order: iron book to dairy.
News: the iron book is now in 3,2.
You did: south

"""


def test_what_a_prompt_tells():
    known = ["step 7: hall at 0,1, no iron book", "step 7: tin cup at 0,1", "step 7: iron book at 3,2"]
    assert list(facts(f"{STEPS}# Observation\nRoom: vault at 0,0 in a grid of 6 by 4.\n")) == known
    summary = "# Summary of steps\nstep 6: old lamp at 5,1\nstep 2: tin cup at 4,4\n\n"
    assert list(facts(summary + STEPS)) == ["step 2: tin cup at 4,4", "step 6: old lamp at 5,1", *known]


@pytest.fixture(scope="module")
def progress(tmp_path_factory):
    """Plays two games of courier with a context; gives the mean progress."""

    def played(**context):
        made = load("window", {"context": context})
        config = RunConfig.model_validate(
            {
                "env": "courier",
                "tasks": ["small"],
                "seeds": [0, 1],
                "scaffold": made.name,
                "scaffold_digest": made.digest,
                "models": {"gameplay": {"name": "scripted:courier-reader"}},
            }
        )
        folder = tmp_path_factory.mktemp("courier")
        models = {"gameplay": make_model("scripted:courier-reader", {})}
        run = play_run(folder, config, made, models, 1)
        return sum(result.progress for result in run.results.values()) / 2

    return played


def test_more_history_more_progress_and_a_summary_makes_up_for_it(progress):
    full, short = progress(policy="full"), progress(policy="window", budget=0)
    assert full > 0.8 > 0.6 > short
    assert progress(policy="summary", budget=2000, summary=0.6) > short + 0.2
