"""`automem table --paper`: run folders and experiments on one command line, checked, drawn, and refused."""

import json
import shlex
import time

import pytest
import yaml

from automem.cli.loops import train_differences
from automem.launch.experiment import load_experiment
from automem.launch.folder import Record
from automem.scaffold.spec import load
from automem.train.config import TrainConfig
from automem.train.recipe import load as load_recipe

EXPERIMENT = {
    "about": "Short games.",
    "models": {"base": "scripted:courier"},
    "games": {"courier": {"play": "courier/small", "seeds": "0-3", "limits": {"max_steps": 30}}},
    "agents": {"v0": {"scaffold": "courier-v0"}, "v1": {"scaffold": "courier-v1"}},
    "stages": {"play": {"do": "evaluate", "games": ["courier"], "agents": ["v0", "v1"], "split": 2, "jobs": 2}},
}
ROWS = [
    {"game": "Courier", "agent": "log", "cell": "play/courier-v0", "mean": 0.0, "n": 4, "tolerance": 0.1},
    {"game": "Courier", "agent": "table", "cell": "play/courier-v1", "mean": 0.0, "n": 4, "tolerance": 0.1},
    {"game": "Courier", "agent": "someone else", "mean": 90.0},
]


@pytest.fixture
def mini(automem, tmp_path):
    """An experiment `mini` in the working directory whose published values are what v0 and v1 score; runs its cells."""
    folder = tmp_path / "experiments" / "mini"
    folder.mkdir(parents=True)
    (folder / "experiment.yaml").write_text(yaml.safe_dump(EXPERIMENT))

    def publish(*means):
        rows = [{**row, "mean": mean} for row, mean in zip(ROWS, [*means, 90.0], strict=True)]
        (folder / "expected.yaml").write_text(yaml.safe_dump({"paper": "made up", "source": "Table 1", "rows": rows}))

    def played(*agents):
        publish(0.0, 0.0)
        for task in load_experiment("mini").jobs(tmp_path / "out")[0].tasks:
            if any(f"courier-{agent}." in word for word in task for agent in agents):
                code, _, err = automem(*task[1:])
                assert code == 0, err
        _, out, _ = automem("table", "mini", "out", "--paper", "--json")
        publish(*[round(row["ours"] or 0.0, 3) for row in json.loads(out)["rows"][:2]])
        return publish

    return played


def test_all_rows_as_published(mini, automem):
    mini("v0", "v1")
    code, out, err = automem("table", "out", "mini", "--paper", "--check")
    assert (code, err) == (0, "")
    rows = [line.split(" | ") for line in out.splitlines() if line.startswith("| Courier")]
    assert [(row[1], row[3], row[7]) for row in rows] == [("log", "4", "+0.00"), ("table", "4", "+0.00"),
                                                         ("someone else", "–", "–")]  # fmt: skip


def test_check_names_what_is_off_and_what_is_missing(mini, automem):
    publish = mini("v0")
    publish(99.0, 50.0)
    code, out, err = automem("table", "out", "mini", "--paper", "--check")
    assert code == 1
    assert "| Courier | log |" in out
    first, second, error, *_ = err.splitlines()
    assert first.startswith("mini: Courier, log: -") and first.endswith("more than 0.1")
    assert second == "mini: Courier, table: missing: nothing of play/courier-v1 was given"
    assert error == "error: 2 of 2 rows are not as published"
    assert automem("table", "out", "mini", "--paper")[0] == 0


def test_a_run_of_something_else_is_told_and_not_compared(mini, automem):
    mini("v0")
    for out, *others in (("steps", "--max-steps", "5"), ("model", "-m", "scripted:null", "--max-steps", "30")):
        words = ["courier/small", "-S", "courier-v0", "-m", "scripted:courier", "--seeds", "0", *others, "-o", out]
        assert automem("run", *words)[0] == 0
    _, out, _ = automem("table", "steps", "model", "mini", "--paper")
    assert "No runs of ours were given: published values alone." in out
    assert "steps is not compared: of play/courier-v0 it differs in that its limits are" in out
    assert "model is not compared: of play/courier-v0 it differs in that its gameplay model is scripted:null." in out


def test_the_parts_of_a_cell_are_one_row(mini, automem):
    mini("v0")
    code, out, _ = automem("table", "out", "--json")
    (row,) = json.loads(out)["rows"]
    assert (code, row["run"], sorted(row["seeds"]), row["n"]) == (0, "out/play/courier-v0", [0, 1, 2, 3], 4)


def test_the_folder_of_a_launch_says_which_experiment(mini, automem, tmp_path):
    mini("v0", "v1")
    code, _, err = automem("table", "out", "--paper")
    assert (code, err.splitlines()[0]) == (2, "error: --paper of which experiment?")
    record = Record(experiment="mini", on="local", cluster="local", commit=None, command=shlex.join(["automem"]),
                    cwd=str(tmp_path), created=time.time(), jobs=[])  # fmt: skip
    (tmp_path / "out" / "launch.json").write_text(record.model_dump_json())
    assert automem("table", "out", "--paper", "--check")[0] == 0


def test_a_launch_with_other_keys_is_told(mini, automem, tmp_path):
    mini("v0")
    keys = ("stages.play.jobs=1", "stages.play.split=1", "games.courier.seeds=0-1")
    overrides = [word for key in keys for word in ("-s", key)]
    assert automem("launch", "mini", "--on", "local", "-o", "mine", *overrides)[0] == 0
    for place in ("mine", "mine/play", "."):
        _, out, _ = automem("table", place, "mini", "--paper")
        assert "mine was launched with other settings than mini has: games.courier.seeds: 0-1 there, 0-3 here." in out
    log = next((tmp_path / "mine/jobs/table").rglob("task-0.log")).read_text()
    assert "was launched with other settings" in log
    experiment = {**EXPERIMENT, "games": {"courier": {**EXPERIMENT["games"]["courier"], "seeds": "0-1"}}}
    (tmp_path / "experiments/mini/experiment.yaml").write_text(yaml.safe_dump(experiment))
    _, out, _ = automem("table", "mine", "mini", "--paper")
    assert "other settings" not in out


def test_a_loop_is_compared_where_it_was_asked_the_same(mini, automem, tmp_path):
    mini("v0")
    stage = {"do": "loop1", "games": ["courier"], "agents": ["v0"], "gate_seeds": "0-1", "report_seeds": "8-9"}

    def write(**changes):
        experiment = {**EXPERIMENT, "stages": {"evolve": {**stage, "revisions": 1, **changes}}}
        row = {"game": "Courier", "agent": "log", "cell": "evolve/courier-v0/start", "mean": 0.0}
        (tmp_path / "experiments/mini/experiment.yaml").write_text(yaml.safe_dump(experiment))
        (tmp_path / "experiments/mini/expected.yaml").write_text(
            yaml.safe_dump({"paper": "made up", "source": "Table 1", "rows": [row]})
        )

    write()
    assert automem(*load_experiment("mini").jobs(tmp_path / "loop")[0].tasks[0][1:])[0] == 0
    _, out, _ = automem("table", "loop", "mini", "--paper", "--json")
    told = json.loads(out)
    assert (told["rows"][0]["n"], told["notes"]) == (2, [])
    for changes, difference in (
        ({"revisions": 2}, "its revisions are 1"),
        ({"gate": "mean"}, "its gate is paired"),
        ({"gate_seeds": "0-2"}, "its gate seeds are 0, 1"),
        ({"allow": ["memory-prompt"]}, "its kinds of change are "),
        ({"proposer": "openai", "proposer_model": "some"}, "its proposer is rules"),
    ):
        write(**changes)
        _, out, _ = automem("table", "loop", "mini", "--paper", "--json")
        told = json.loads(out)
        (note,) = told["notes"]
        assert told["rows"][0]["n"] == 0
        assert note.startswith("loop/evolve/courier-v0 is not compared: of evolve/courier-v0 it differs in that")
        assert difference in note


def test_a_specialist_is_compared_where_it_was_asked_the_same():
    (cell,) = [cell for cell in load_experiment("smoke").cells() if cell.stage.do == "loop2"]
    played = load(cell.of_env(cell.agent.scaffold), cell.agent.set)
    asked = TrainConfig(
        runs=["collect"],
        env="courier",
        tasks=["small"],
        options={},
        scaffold=played.name,
        scaffold_digest=played.digest,
        base="local:pocket",
        limits={"max_steps": 60},
        recipe=load_recipe("pocket"),
        selector="rules",
        engine="rules",
        gate="paired at 0.95",
        training_seeds=[0, 1, 2, 3],
        gate_seeds=[40, 41, 42, 43],
        report_seeds=[100, 101, 102, 103],
    )
    assert train_differences(cell, asked) == []
    for changes, difference in (
        ({"iterations": 2}, "its iterations are 2"),
        ({"training_seeds": list(range(10))}, "its training seeds are 0, 1, 2, 3, 4, 5, …"),
        ({"base": "local:other"}, "its base is local:other"),
        ({"recipe": load_recipe("pocket", {"lora.rank": 3})}, "its recipe is another pocket"),
        ({"limits": {}}, "its limits are none"),
        ({"selector": "all"}, "its selector is all"),
    ):
        assert train_differences(cell, asked.model_copy(update=changes)) == [difference]


def test_published_values_alone(automem):
    code, out, _ = automem("table", "--paper", "main-table")
    assert code == 0
    assert "| Crafter | evolved scaffold | 47.27 ± 2.05 | 10 |  | play/crafter-evolved |" in out
    assert "No runs of ours were given: published values alone." in out
    code, _, err = automem("table", "--paper", "main-table", "--check")
    assert code == 1
    assert "main-table: NetHack, file memory v0: missing: nothing of play/nethack-v0 was given" in err


def test_figures_are_drawn_beside_the_table(automem, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, err = automem("table", "per-version", "--paper", "--figures", "pictures")
    assert (code, "v4" in out) == (0, True)
    assert "wrote pictures/progress-per-version.svg" in err
    assert (tmp_path / "pictures" / "progress-per-version.png").is_file()


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["main-tabel", "--paper"], "unknown experiment 'main-tabel'", "did you mean 'main-table'?"),
        (["main-table"], "'main-table' is an experiment, not a run", "--paper"),
        (["nowhere"], "no run at 'nowhere': there is no such folder", "automem run"),
        (["empty"], "no run in 'empty', nor below it", "automem run"),
        (["ablations", "--paper"], "experiment 'ablations' has no published values", "automem table RUN"),
        (["main-table", "--check"], "--check needs --paper", "published"),
        (["main-table", "--paper", "--by", "task"], "--by has no meaning with --paper", "runs"),
        (["main-table", "--paper", "--lineage"], "--paper has no meaning with --lineage", "runs"),
        (["main-table", "behaviour", "--paper", "--json"], "--format json is for one experiment", "one by one"),
    ],
)
def test_what_cannot_be_done_is_said(words, said, hint, automem, tmp_path):
    (tmp_path / "empty").mkdir()
    code, out, err = automem("table", *words)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[0]
    assert hint in err.splitlines()[1]
