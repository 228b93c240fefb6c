"""Names of nothing are told before anything is launched; what cannot be known passes."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from automem import plugins
from automem.launch.experiment import EXPERIMENT, load_experiment

SHIPPED = sorted(plugins.available(EXPERIMENT))
SMOKE = ("launch", "smoke", "--on", "local", "-o", "out")


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("override", "said", "hint"),
    [
        ("games.courier.play=courier/smal", "games.courier.play: environment 'courier' has no task", "'small'"),
        ("games.courier.play=courier/", "games.courier.play: 'courier/' names no task", "courier/TASK"),
        ("stages.train.recipe=pockt", "stages.train: unknown recipe 'pockt'", "'pocket'"),
        ("stages.train.set={lora.ranks: 3}", "stages.train: ", "'rank'"),
        ("stages.train.set={lroa.rank: 3}", "stages.train: -s lroa.rank: unknown", "lora."),
        ("stages.train.engine=opnai:x", "stages.train: unknown model 'opnai:x'", "'openai'"),
        ("stages.evolve.allow=[action-gard]", "stages.evolve: --allow: unknown kind of change", "'action-guard'"),
        ("stages.evolve.set={loop.attempt: 1}", "stages.evolve: -s loop: ", "'attempts'"),
        ("models.scripted=scripted:couri", "models.scripted: unknown scripted policy 'couri'", "'courier'"),
        ("models.pocket=local:nowhere", "models.pocket: no model at 'local:nowhere'", "pocket"),
        ("models.served.name=openai:scripted:couri", "models.served: unknown scripted policy 'couri'", "'courier'"),
        ("models.served.settings.timeuot=3", "models.served: openai:scripted:courier", "'timeout'"),
        ("agents.v0.scaffold=courier-v", "agents.v0.scaffold: unknown scaffold 'courier-v'", "'courier-v"),
        ("agents.v0.scaffold=crafter-v0", "agents.v0.scaffold: scaffold 'crafter-v0' is for crafter", None),
        ("agents.v0.set={budget.log_round: 3}", "agents.v0.scaffold: ", "'log_rounds'"),
    ],
)
def test_a_name_of_nothing(automem, override, said, hint, dry_run):
    code, out, err = automem(*SMOKE, "-s", override, *dry_run)
    assert (code, out) == (2, "")
    error, *more = err.splitlines()
    assert f"experiment.yaml: {said}" in error
    assert hint is None or hint in more[0]
    assert not Path("out").exists()


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("on", [("local",), ("slurm", "--cluster", "example")])
def test_what_is_shipped_has_no_such_name(automem, name, on):
    for variant in ["", *(f"@{each}" for each in load_experiment(name).spec.variants)]:
        code, _, err = automem("launch", f"{name}{variant}", "--on", *on, "--dry-run")
        assert (code, err) == (0, "")


@pytest.mark.parametrize(
    "override",
    [
        "models.pocket=local:pocket+out/train/short-pocket/best",  # made by an earlier stage
        "models.pocket=local:smollm2",  # made when it is first asked for
        "models.served.name=openai:Some/Model-7B",  # on a hub, or elsewhere
        "models.scripted={name: openai:scripted-courier}",
    ],
)
def test_what_cannot_be_known_passes(automem, override):
    code, _, err = automem(*SMOKE, "-s", override, "--dry-run")
    assert (code, err) == (0, "")


def test_what_an_endpoint_serves_cannot_be_known(automem):
    Path("site.yaml").write_text(yaml.safe_dump({"resources": {"cpu": {}}, "endpoint": {"url": "http://node7/v1"}}))
    words = (*SMOKE, "--cluster", "site.yaml", "-s", "models.served.name=openai:local:weights", "--dry-run")
    assert automem(*words)[0] == 0


def test_an_environment_that_is_not_installed_passes(tmp_path):
    """Its tasks cannot be told, but those of others can."""
    without = "import sys; sys.modules['crafter'] = None; from automem.cli.main import main; main()"
    words = [sys.executable, "-c", without, "launch", "scripted", "--on", "local", "--dry-run"]
    for play, said in (("crafter/anything", ""), ("courier/smal", "environment 'courier' has no task 'smal'")):
        command = [*words, "-s", f"games.{play.partition('/')[0]}.play={play}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == (2 if said else 0), done.stderr
        assert said in done.stderr
