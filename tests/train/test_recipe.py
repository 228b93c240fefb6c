import pytest

from automem.errors import UsageError
from automem.models.adapters import served_rank
from automem.train import recipe
from automem.train.commands import accelerate_config, longest, train_command
from automem.train.memory import GIB, KNOWN, Architecture, architecture, estimate
from automem.train.recipe import Lora, Recipe


def test_published_recipes_are_as_published():
    found = {name: recipe.load(name).lora for name in ("crafter", "minihack", "nethack")}
    facts = {
        name: (one.rank, one.alpha, one.epochs, one.batch * one.grad_accum * one.gpus, one.targets)
        for name, one in found.items()
    }
    assert facts == {
        "crafter": (256, 512, 4, 32, "ATTN"),
        "minihack": (128, 256, 3, 16, "ALL"),
        "nethack": (256, 512, 1, 32, "ALL"),
    }
    for one in found.values():
        assert (one.learning_rate, one.dropout, one.cutoff, one.warmup) == (5e-5, 0.0, 16_384, 0.05)
        assert (one.scheduler, one.sharding, one.gpus, one.seed) == ("cosine", "zero3", 2, 42)


def test_every_shipped_recipe_loads_and_says_its_name():
    assert set(recipe.names()) == {"pocket", "crafter", "minihack", "nethack"}
    assert all(recipe.load(name).name == name for name in recipe.names())


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("lora.rank", 0, "lora.rank"),
        ("lora.rank", 513, "lora.rank"),
        ("lora.rnk", 8, "unknown key 'rnk'"),
        ("lora.targets", "HEAD", "lora.targets"),
        ("lora.targets", [], "lora.targets"),
        ("lora.scheduler", "wavy", "lora.scheduler"),
        ("selection.noop_share", 1.0, "selection.noop_share"),
        ("selection.phases", ["gameplay"], "selection.phases"),
        ("selection", 3, "selection"),
    ],
)
def test_what_is_wrong_is_named(key, value, told):
    with pytest.raises(UsageError, match=told):
        recipe.load("pocket", {key: value})


def test_a_file_is_a_recipe_and_a_wrong_name_has_a_hint(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nlora: {rank: 4, targets: [q_proj]}\n")
    assert recipe.load(str(file)).lora.modules() == ["q_proj"]
    with pytest.raises(UsageError, match="unknown recipe 'crafte'") as error:
        recipe.load("crafte")
    assert "crafter" in error.value.hint
    file.write_text("name: mine\nlora:\n  rnak: 4\n")
    with pytest.raises(UsageError, match="line 3"):
        recipe.load(str(file))


def test_the_digest_is_of_all_but_the_name():
    one = Recipe(name="a")
    assert one.digest == Recipe(name="b").digest
    assert one.digest != Recipe(name="a", lora=Lora(seed=1)).digest


@pytest.mark.parametrize(("rank", "served"), [(1, 1), (2, 8), (16, 16), (17, 32), (256, 256), (300, 320), (512, 512)])
def test_the_server_makes_room_for_the_rank(rank, served):
    assert served_rank(rank) == served


def test_commands_of_a_large_base(tmp_path):
    lora = recipe.load("crafter").lora
    train = train_command(tmp_path / "job.json", lora)
    assert train[0].endswith("accelerate")
    assert train[1:3] == ["launch", "--config_file"]
    assert train[3].endswith("zero3.yaml")
    assert train[4:] == ["--num_processes", "2", "-m", "automem.train.sft", str(tmp_path / "job.json")]


def test_a_server_has_room_for_the_longest_row_and_its_reply_or_for_all_that_the_base_can(tmp_path):
    assert longest("Qwen/Qwen2.5-32B-Instruct", Lora(cutoff=16_384)) == 16_384 + 4096
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 2048}')
    assert longest(str(tmp_path), Lora(cutoff=1024)) == 2048
    assert longest(str(tmp_path), Lora(cutoff=16)) == 2048


@pytest.mark.parametrize(
    ("gpus", "sharding", "name"),
    [(1, "none", "gpus-1"), (2, "none", "gpus-2"), (8, "none", "gpus-8"), (4, "none", "gpus-8"), (4, "fsdp", "fsdp")],
)
def test_accelerate_configs_are_shipped(gpus, sharding, name):
    import yaml

    path = accelerate_config(Lora(gpus=gpus, sharding=sharding))
    assert path.name == f"{name}.yaml"
    config = yaml.safe_load(path.read_text())
    assert config["mixed_precision"] == "bf16"
    assert gpus == 1 or config["main_process_port"] == 0, "two jobs on one node would meet on one port"


def test_one_process_where_there_is_one_device(tmp_path):
    assert train_command(tmp_path, Lora(gpus=0))[1:3] == ["-m", "automem.train.sft"]


def test_sizes_of_known_models_and_of_a_folder(tmp_path):
    billions = {"Qwen2.5-0.5B-Instruct": 0.49, "Qwen2.5-7B-Instruct": 7.6, "Qwen2.5-32B-Instruct": 32.8}
    for name, size in billions.items():
        found = architecture(f"Qwen/{name}")
        assert found.parameters / 1e9 == pytest.approx(size, rel=0.02)
    (tmp_path / "config.json").write_text(
        '{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,'
        ' "intermediate_size": 96, "vocab_size": 261}'
    )
    assert architecture(str(tmp_path)) == Architecture(64, 2, 2, 1, 96, 261)
    assert architecture("nobody/knows") is None


def test_the_estimate_adds_up():
    sizes, lora = KNOWN["Qwen2.5-32B-Instruct"], recipe.load("crafter").lora
    found = estimate(sizes, lora, 20_480)
    # 64 layers, rank 256: q and o are 5120 by 5120, k and v 5120 by 1024.
    assert found.trainable == 64 * 256 * (2 * (5120 + 5120) + 2 * (5120 + 1024))
    assert found.weights == sizes.parameters * 2 // 2
    alone = estimate(sizes, lora.model_copy(update={"sharding": "none"}), 20_480)
    assert alone.weights == 2 * found.weights
    assert 40 * GIB < found.train < 80 * GIB
    # On two GPUs: 8 KV heads of 128, keys and values, 2 bytes; and an adapter in the MLP's layers, too.
    assert found.kv == 2 * 64 * 8 * 128 * 2 * 20_480 // 2
    assert found.slot > found.trainable
    assert found.serve_weights == sizes.parameters * 2 // 2
    on_cpu = estimate(sizes, lora.model_copy(update={"gpus": 0}), 20_480)
    assert on_cpu.serve_weights == sizes.parameters * 4
    with pytest.raises(UsageError, match=r"lora\.targets"):
        estimate(sizes, lora.model_copy(update={"targets": ["w1"]}), 20_480)
