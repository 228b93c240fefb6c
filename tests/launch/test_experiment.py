"""Every experiment expands into command lines that the real command line takes; wrong ones say what is wrong."""

import re
from pathlib import Path

import pytest
import typer.main
import yaml

from automem import plugins
from automem.cli.main import app
from automem.errors import UsageError
from automem.launch.experiment import EXPERIMENT, load_experiment
from automem.results.published import load_expected

OUT = Path("runs/out")
SHIPPED = sorted(plugins.available(EXPERIMENT))
WITH_VARIANTS = [
    name
    for experiment in SHIPPED
    for name in [experiment, *(f"{experiment}@{variant}" for variant in load_experiment(experiment).spec.variants)]
]
WANTED = {
    *("quickstart", "scripted", "smoke", "main-table", "per-version", "behaviour", "ablations"),
    *(f"loop{number}-{game}" for number in (1, 2) for game in ("crafter", "minihack", "nethack")),
}

SMALL = {
    "about": "small",
    "models": {"base": "scripted:courier", "served": "openai:some", "other": "openai:other"},
    "adapters": {"tuned": {"path": "runs/x/best", "made_by": "automem launch x"}},
    "games": {"courier": {"play": "courier/small", "seeds": "0-9", "limits": {"max_steps": 5}}},
    "agents": {"v0": {"scaffold": "courier-v0"}},
    "stages": {"play": {"do": "evaluate", "games": ["courier"], "agents": ["v0"]}},
}
EVOLVE = {"do": "loop1", "games": ["courier"], "agents": ["v0"], "gate_seeds": "0-4", "report_seeds": "10-14"}
TRAIN = {
    "do": "loop2",
    "games": ["courier"],
    "agents": ["v0"],
    "runs": "play",
    "recipe": "pocket",
    "gate_seeds": "20-24",
    "report_seeds": "10-14",
}


@pytest.fixture
def made(tmp_path):
    """Writes an experiment that differs from SMALL in dotted keys, and loads it."""

    def make(changes=None, **options):
        folder = tmp_path / "experiments" / "made"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "experiment.yaml").write_text(yaml.safe_dump(SMALL, sort_keys=False))
        return load_experiment(str(folder), changes, **options)

    return make


COMMAND = typer.main.get_command(app)


def parsed(command):
    """The parameters of a command line, as the real command reads them."""
    program, verb, *words = command
    assert program == "automem"
    return COMMAND.commands[verb].make_context(verb, words).params


def tasks(experiment):
    return [task for job in experiment.jobs(OUT) for task in job.tasks]


def test_the_experiments_are_there():
    assert set(SHIPPED) >= WANTED


@pytest.mark.parametrize("name", WITH_VARIANTS)
def test_every_command_is_one_that_the_command_line_takes(name):
    experiment = load_experiment(name)
    read = [parsed(task) for task in tasks(experiment)]
    outs = [parameters["out"] for parameters in read if "out" in parameters]
    assert len(set(outs)) == len(outs) > 0, "a run folder has one writer"
    cells = {cell.id for cell in experiment.cells()}
    assert {re.sub(r"\.\d+$", "", str(out.relative_to(OUT))) for out in outs} == cells


@pytest.mark.parametrize("name", WITH_VARIANTS)
def test_jobs_name_what_they_need_and_the_table_is_last(name):
    experiment = load_experiment(name)
    *stages, table = experiment.jobs(OUT)
    names = [job.name for job in stages]
    assert (table.stage, table.needs) == ("aggregate", tuple(names))
    assert all(set(job.needs) < set(names) for job in stages)
    for job in stages:
        agents = [experiment.spec.agents[each] for each in experiment.spec.stages[job.name].agents]
        models = [experiment.spec.model(agent.model).name for agent in agents]
        trained = "train" in job.tasks[0] and any(model.startswith("openai:") for model in models)
        served = any(word.startswith("openai:") for task in job.tasks for word in task) or trained
        assert (job.server is not None) == served


@pytest.mark.parametrize("name", SHIPPED)
def test_published_values_name_cells_that_are_there(name):
    experiment = load_experiment(name)
    assert (experiment.folder / "README.md").is_file()
    if experiment.expected:
        from automem.cli.papers import names_of

        load_expected(experiment.expected, [part for cell in experiment.cells() for part in names_of(cell)])
    else:
        assert name in ("ablations", "quickstart")


def test_the_main_table_is_played_as_published():
    experiment = load_experiment("main-table")
    read = [parsed(task) for task in tasks(experiment)[:-1]]
    assert len(read) == 15
    for parameters in read:
        settings = dict(pair.split("=") for pair in parameters["overrides"])
        assert parameters["model"] == "openai:Qwen/Qwen2.5-32B-Instruct"
        assert parameters["seeds"] == ("42-51" if parameters["game"] == "crafter" else "42-46")
        assert settings["model.temperature"] == "1.0" and settings["model.max_tokens"] == "4096"
        assert settings["model.timeout"] == "60" and settings["model.retries"] == "1"
    trained = [parameters for parameters in read if parameters["memory_model"]]
    assert [parameters["memory_model"] for parameters in trained] == [
        f"openai:{game}-specialist" for game in ("crafter", "minihack", "nethack")
    ]
    assert all("plan=handoff" in parameters["overrides"] for parameters in trained)


def test_training_seeds_are_drawn_as_published():
    for game, count in (("crafter", 100), ("minihack", 50), ("nethack", 50)):
        (cell, _) = load_experiment(f"loop2-{game}").cells()
        assert len(set(cell.seeds)) == count
        assert all(1000 <= seed <= 99999 for seed in cell.seeds)
        dealt = [parsed(task)["seeds"] for task in load_experiment(f"loop2-{game}").jobs(OUT)[0].tasks]
        assert sorted(int(seed) for seeds in dealt for seed in seeds.split(",")) == sorted(cell.seeds)


def test_an_adapter_is_what_another_experiment_makes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = load_experiment("main-table")
    missing = experiment.missing(OUT)
    assert [stage for stage, _, _ in missing] == ["specialist-crafter", "specialist-minihack", "specialist-nethack"]
    for _, path, made_by in missing:
        *_, name, _, out = made_by.split()
        train = next(job for job in load_experiment(name).jobs(Path(out)) if job.stage == "loop2")
        assert parsed(train.tasks[0])["out"] / "best" == path
        path.mkdir(parents=True)
        (path / "adapter_config.json").write_text("{}")
    assert experiment.missing(OUT) == []


def test_an_adapter_is_served_under_the_name_it_is_asked_by(made):
    experiment = made({"agents.v0.model": "served", "agents.v0.memory": "tuned"})
    job = experiment.jobs(OUT)[0]
    assert job.server is not None
    assert (job.server.model, job.server.adapters) == ("some", {"tuned": "runs/x/best"})
    assert parsed(job.tasks[0])["memory_model"] == "openai:tuned"


def test_what_an_experiment_makes_itself_is_found_in_its_folder(made):
    experiment = made({"agents.v0.scaffold": "{out}/evolve/courier-v0/best"})
    assert parsed(tasks(experiment)[0])["scaffold"] == "runs/out/evolve/courier-v0/best"


def test_seeds_are_dealt_out_and_trained_on_together(made):
    experiment = made({"stages.play.split": 3, "stages.train": TRAIN, "games.courier.seeds": "0-6"})
    play, train, _ = experiment.jobs(OUT)
    assert [parsed(task)["seeds"] for task in play.tasks] == ["0,3,6", "1,4", "2,5"]
    assert parsed(train.tasks[0])["runs"] == [parsed(task)["out"] for task in play.tasks]
    assert train.needs == ("play",)
    assert len(made({"stages.play.split": 50}).jobs(OUT)[0].tasks) == 10


def test_values_come_back_from_the_command_line_as_they_were_meant(made):
    from automem.config import parse_overrides

    values = {"a": True, "b": "true", "c": 1.5, "d": "plain", "e": "x: y", "f": ""}
    experiment = made({"agents.v0.set": values})
    overrides = parse_overrides(parsed(tasks(experiment)[0])["overrides"])
    assert {key: overrides[key] for key in values} == values


def test_keys_below_set_add_to_what_is_set(made):
    nested = {"agents.v0.set": {"plan": "handoff"}, "agents.v0.set.budget.history": 8, "agents.v0.set.budget.calls": 3}
    assert made(nested).spec.agents["v0"].set == {"plan": "handoff", "budget.history": 8, "budget.calls": 3}
    trained = made({"stages.train": TRAIN, "stages.train.set.lora.rank": 8}).spec.stages["train"]
    assert trained.set == {"lora.rank": 8}


@pytest.mark.parametrize("name", ["smoke", "scripted", "main-table", "loop1-crafter@published"])
def test_the_commands_would_do_what_is_asked(name, tmp_path, monkeypatch, capsys):
    """Past the options, to where environments, scaffolds, models and proposers are made."""
    monkeypatch.chdir(tmp_path)
    for job in load_experiment(name).jobs(OUT):
        if job.stage not in ("evaluate", "loop1"):
            continue
        with monkeypatch.context() as patch:
            for option in ("RUN_BASE_URL", "EVOLVE_BASE_URL", "EVOLVE_PROPOSER_BASE_URL") if job.server else ():
                patch.setenv(f"AUTOMEM_{option}", "http://127.0.0.1:9/v1")
            for task in job.tasks:
                if "minihack" not in task:  # whose Boxoban needs levels that are not shipped
                    COMMAND.main([*task[1:], "--dry-run"], standalone_mode=False)
                    assert re.search("would play|gate_seeds", capsys.readouterr().out)
    assert not OUT.exists()


def test_a_variant_changes_what_it_names():
    usual, published = (load_experiment(name).jobs(OUT)[0] for name in ("loop1-nethack", "loop1-nethack@published"))
    before, after = parsed(usual.tasks[0]), parsed(published.tasks[0])
    assert (before["gate"].value, before["gate_seeds"], before["proposer"].value) == ("paired", "42-61", "rules")
    assert (after["gate"].value, after["gate_seeds"], after["proposer"].value) == ("mean", "42-46", "openai")


def test_a_stage_can_be_left_out(made):
    assert [job.name for job in load_experiment("main-table@untrained").jobs(OUT)] == ["play", "table"]
    assert load_experiment("main-table@untrained").missing(OUT) == []
    changes = {"stages.more": {**SMALL["stages"]["play"], "needs": ["play"]}, "stages.play": None}
    with pytest.raises(UsageError, match=r"stages\.more\.needs: there is no 'play'"):
        made(changes)


def test_one_seed_may_be_a_number(made):
    stages = {"evolve": {**EVOLVE, "gate_seeds": 4, "report_seeds": {"courier": 5}}}
    (cell,) = made({"games.courier.seeds": 3, "stages": stages}).cells()
    assert cell.seeds == [3]
    assert (cell.stage.gate_seeds, cell.stage.report_seeds) == ("4", {"courier": "5"})


@pytest.mark.parametrize(
    ("changes", "said", "hint"),
    [
        ({"stages.play.game": ["courier"]}, "stages.play.game: unknown key 'game'", "'games'"),
        ({"stages.pla.jobs": 3}, "stages.pla.do: this key is missing", "did you mean 'play'?"),
        ({"stages.play.do": "evalute"}, "stages.play.do: unknown value 'evalute'", "did you mean 'evaluate'?"),
        ({"stages.play.jobs": 0}, "stages.play.jobs: input should be greater than or equal to 1", None),
        ({"stages.pla": None}, "with stages.pla: there is no stage 'pla' to leave out", "did you mean 'play'?"),
        ({"models": {}}, "models: it needs at least 1", None),
        ({"stages.play.games": []}, "stages.play.games: it needs at least 1", None),
        ({"stages": 3}, "stages: expected keys and values, here is a number", None),
        ({"games.curier.seeds": "0-3"}, "games.curier.play: this key is missing", "did you mean 'courier'?"),
        ({"games.courier.seeds": {"draw": 0, "rng": 1, "within": "0-9"}}, "games.courier.seeds.draw: input", None),
        ({"games.courier.seeds": [1]}, "games.courier.seeds: expected text, here is a list", None),
        ({"gmes": {}}, "unknown key 'gmes'", "did you mean 'games'?"),
        ({"agents.v0.scaffold": "courier-v"}, "agents.v0.scaffold: unknown scaffold 'courier-v'", "'courier-v"),
        ({"agents.v0.scaffold": {"crafter": "x"}}, "agents.v0.scaffold: there is no 'crafter'", "known: courier"),
        ({"agents.v0.model": "bas"}, "agents.v0.model: there is no 'bas'", "did you mean 'base'?"),
        ({"agents.v0.memory": "tuend"}, "agents.v0.memory: there is no 'tuend'", "did you mean 'tuned'?"),
        ({"games.courier.play": "curier/small"}, "games.courier.play: there is no 'curier'", "'courier'"),
        ({"games.courier.seeds": "9-0"}, "games.courier.seeds '9-0': the range 9-0 runs backwards", "0-9"),
        ({"games.courier.seeds": {"draw": 9, "rng": 1, "within": "1-5"}}, "9 seeds of 5", "draw fewer"),
        ({"stages.play.agents": ["v1"]}, "stages.play.agents: there is no 'v1'", "'v0'"),
        ({"stages.play.needs": ["paly"]}, "stages.play.needs: there is no 'paly'", "'play'"),
        ({"stages.table": SMALL["stages"]["play"]}, "'table' is a name of the launcher's own", "another"),
        ({"stages.Play": SMALL["stages"]["play"]}, "stages.Play: this is no name here: it is made of small", None),
        ({"stages.play.needs": ["play"]}, "stages need each other: play -> play", None),
        ({"stages.evolve": {**EVOLVE, "report_seeds": "4-8"}}, "seeds 4 are report seeds and gate seeds", "overlap"),
        ({"stages.train": {**TRAIN, "report_seeds": "5-12"}}, "5, 6, 7, 8, 9 are report seeds and training", "overlap"),
        ({"stages.train": {**TRAIN, "runs": "paly"}}, "stages.train.runs: there is no 'paly'", "'play'"),
        ({"stages.train": {**TRAIN, "recipe": {"crafter": "crafter"}}}, "recipe: nothing for courier", None),
        ({"stages.evolve": EVOLVE, "stages.train": {**TRAIN, "runs": "evolve"}}, "'evolve' does not evaluate", None),
        (
            {"agents.v1": {"scaffold": "courier-v1", "model": "served"}, "agents.v0.model": "other",
             "stages.play.agents": ["v0", "v1"]},
            "openai:other, openai:some, but a job serves one",
            "make two stages",
        ),
        ({"agents.v0.memory": "base", "stages.evolve": EVOLVE}, "loop1 plays with one model", None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(made, changes, said, hint):
    with pytest.raises(UsageError) as error:
        made(changes)
    assert said in error.value.message
    assert "experiment.yaml" in error.value.message
    assert hint is None or hint in (error.value.hint or "")


def test_wrong_names_are_answered_with_the_nearest(tmp_path):
    with pytest.raises(UsageError, match="unknown experiment 'man-table'") as error:
        load_experiment("man-table")
    assert "did you mean 'main-table'?" in (error.value.hint or "")
    with pytest.raises(UsageError, match="no variant 'publish'") as error:
        load_experiment("loop1-crafter@publish")
    assert error.value.hint == "did you mean 'published'?"
    with pytest.raises(UsageError, match="no experiment at"):
        load_experiment(f"{tmp_path}/nothing")


def test_the_line_of_a_wrong_key_is_told(tmp_path):
    text = yaml.safe_dump(SMALL, sort_keys=False).replace("seeds:", "seed:")
    (tmp_path / "experiment.yaml").write_text(text)
    line = 1 + next(number for number, said in enumerate(text.splitlines()) if "seed:" in said)
    with pytest.raises(UsageError, match=f"line {line}: games.courier.seed: unknown key 'seed'") as error:
        load_experiment(str(tmp_path))
    assert error.value.hint == "did you mean 'seeds'?"


def test_the_example_of_the_documentation_is_one(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")
    experiment, expected = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "experiment.yaml").write_text(experiment)
    (tmp_path / "expected.yaml").write_text(expected)
    loaded = load_experiment(f"{tmp_path}@greedy")
    assert loaded.spec.model("base").settings["temperature"] == 0.0
    assert [parsed(task)["out"] for task in tasks(loaded)[:2]] == [
        OUT / "play/crafter-v0",
        OUT / "play/crafter-trained",
    ]
    assert load_expected(tmp_path / "expected.yaml", [cell.id for cell in loaded.cells()]).figure == "points"
