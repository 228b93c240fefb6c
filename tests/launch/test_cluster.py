"""Cluster files: the shipped ones are valid, mistakes are named with file, line and key."""

import pytest
import yaml
from made import cluster

from automem.errors import UsageError
from automem.launch.cluster import load_cluster, shipped

SHIPPED = sorted(path.stem for path in (shipped() / "clusters").glob("*.yaml"))


def test_the_shipped_ones_are_these():
    assert SHIPPED == ["ci", "example", "local"]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_one_is_valid_by_name_and_by_path(name):
    found = load_cluster(name)
    assert found == load_cluster(str(shipped() / "clusters" / f"{name}.yaml"))
    assert {"cpu", "serve", "train"} <= set(found.resources)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("resources: {cpu: {}}\npartion: x", "line 2: partion: unknown key 'partion'", "did you mean 'partition'?"),
        ("resources:\n  cpu: {cpu: 4}", "line 2: resources.cpu.cpu: unknown key 'cpu'", None),
        ("resources: {cpu: {}}\ntime: 24:00:00", "line 2: time: write it in quotes", None),
        ("resources: {cpu: {}}\ntime: soon", "line 2: time: ", None),
        ("resources: {cpu: {}}\npartition: two words", "line 2: partition: one word", None),
        ("resources: {cpu: {memory: 8 GB}}", "line 1: resources.cpu.memory: ", None),
        ("resources: {cpu: {gpus_as: gpus}}", "line 1: resources.cpu.gpus_as: ", None),
        ("resources: {cpu: {}}\nextra_directives: [constraint=a100]", "an option of sbatch on one line", None),
        (
            "resources: {cpu: {}}\nextra_directives: ['--mem=4G']",
            "--mem is set by the launcher: use the key memory",
            None,
        ),
        ("resources: {cpu: {}}\nextra_directives: ['--array=1-3']", "--array is set by the launcher", None),
        (
            "resources: {cpu: {}}\ncontainer: {kind: apptainer}",
            "container.image is missing",
            "container.kind is apptainer",
        ),
        ("resources: {cpu: {}}\nscratch: " + "/long" * 20, "scratch: ", None),
        ("resources: {cpu: {}}\nmodels: {m: {resources: big}}", "the cluster has no resources 'big'", "known: cpu"),
        ("resources: {cpu: {}}\nendpoint: {url: node7}", "line 2: endpoint.url: ", None),
        ("partition: x", "resources: this key is missing", "clusters/example.yaml"),
        ("", "mine.yaml is empty", "`resources` is needed; copy "),
        ("# to be written", "mine.yaml is empty", "clusters/example.yaml"),
    ],
)
def test_a_mistake_is_named(tmp_path, text, message, hint):
    file = tmp_path / "mine.yaml"
    file.write_text(text + "\n")
    with pytest.raises(UsageError) as caught:
        load_cluster(str(file))
    assert message in str(caught.value)
    assert hint is None or hint in caught.value.hint


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="no cluster file 'exampel'") as caught:
        load_cluster("exampel")
    assert "did you mean 'example'?" in caught.value.hint


@pytest.mark.parametrize("name", ["{}/c8.yaml", "{}/example", "example.yaml", "{}"])
def test_a_path_is_not_taken_for_a_name(tmp_path, name):
    path = name.format(tmp_path)
    with pytest.raises(UsageError, match=f"no cluster file '{path}': th") as caught:
        load_cluster(path)
    assert "did you mean" not in caught.value.hint
    assert "clusters/example.yaml" in caught.value.hint


def test_a_class_wins_over_the_cluster():
    site = cluster(partition="main", qos="normal", resources={"cpu": {}, "gpu": {"partition": "gpu", "gpus": 2}})
    assert (site.ask("cpu").partition, site.ask("gpu").partition, site.ask("gpu").qos) == ("main", "gpu", "normal")
    with pytest.raises(UsageError, match="the cluster has no resources 'gpus'") as caught:
        site.ask("gpus")
    assert caught.value.hint == "did you mean 'gpu'?"


def test_every_key_is_explained():
    text = (shipped() / "README.md").read_text()
    for name in ("resources", *yaml.safe_load((shipped() / "clusters/example.yaml").read_text())):
        assert f"`{name}`" in text, name
