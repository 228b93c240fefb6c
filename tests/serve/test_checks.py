"""What cannot be served is told before anything is started."""

import json
import sys
from pathlib import Path

import pytest
from models import save_adapter, save_base

from automem.errors import UsageError
from automem.models.adapters import served_rank
from automem.models.weights import AdapterFacts, has_chat_template
from automem.serve.checks import CPU_HEAD_DIMS, check_adapters, check_base


@pytest.fixture
def base(tmp_path):
    return save_base(tmp_path / "base")


def refused(call, *arguments):
    with pytest.raises(UsageError) as error:
        call(*arguments)
    return f"{error.value.message} | {error.value.hint}"


def test_a_sound_base_and_a_name_on_the_hub_pass(base):
    check_base(str(base), True)
    check_base("Qwen/Qwen2.5-32B-Instruct", False)


def test_what_is_no_model_is_named(tmp_path):
    assert "no model at nowhere" in refused(check_base, "nowhere", False)
    assert "no config.json" in refused(check_base, str(tmp_path), False)
    (tmp_path / "config.json").write_text("{")
    assert "breaks off in the middle" in refused(check_base, str(tmp_path), False)


def test_a_head_size_that_a_cpu_cannot_compute_is_named(tmp_path):
    small = save_base(tmp_path / "small", hidden=64, heads=4)
    told = refused(check_base, str(small), True)
    assert "head_dim 16 cannot be computed" in told
    assert "32, 64" in told
    check_base(str(small), False)
    config = json.loads((small / "config.json").read_text())
    for size in CPU_HEAD_DIMS:
        (small / "config.json").write_text(json.dumps({**config, "head_dim": size}))
        check_base(str(small), True)


def test_a_base_without_a_chat_template_is_refused(tmp_path):
    bare = save_base(tmp_path / "bare", template=False)
    assert "has no chat template | put a chat_template.jinja there" in refused(check_base, str(bare), False)
    (bare / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    assert has_chat_template(bare)
    check_base(str(bare), False)


def test_the_servers_rank_is_that_of_the_adapters(base, tmp_path):
    low, high = (save_adapter(tmp_path / f"r{rank}", base, rank) for rank in (4, 20))
    assert check_adapters(str(base), {}, None) is None
    assert check_adapters(str(base), {"low": low}, None) == served_rank(4) == 8
    assert check_adapters(str(base), {"low": low, "high": high}, None) == 32
    assert check_adapters(str(base), {"low": low}, 64) == 64
    patterned = save_adapter(tmp_path / "patterned", base, 4, rank_pattern={"q_proj": 100})
    assert check_adapters(str(base), {"a": patterned}, None) == 128


def test_a_rank_over_the_limit_is_refused(base, tmp_path):
    high = save_adapter(tmp_path / "high", base, 20)
    told = refused(check_adapters, str(base), {"memory": high}, 16)
    assert "adapter 'memory' has rank 20, over the server's limit 16 | take --max-lora-rank 32" in told
    highest = save_adapter(tmp_path / "highest", base, 600)
    assert "over the server's limit 512 | --merged" in refused(check_adapters, str(base), {"memory": highest}, None)
    assert "--max-lora-rank 20: vLLM makes room for 1, 8" in refused(check_adapters, str(base), {"memory": high}, 20)


def test_an_adapter_of_another_base_is_refused_by_its_name(base, tmp_path):
    other = save_adapter(tmp_path / "other", "Qwen/Qwen2.5-7B-Instruct")
    told = refused(check_adapters, str(base), {"memory": other}, None)
    assert "was trained on another base: Qwen/Qwen2.5-7B-Instruct, not " in told
    assert check_adapters("Qwen/Qwen2.5-7B-Instruct", {"memory": other}, None) == 8
    assert "another base" in refused(check_adapters, "Qwen/Qwen3-8B", {"memory": other}, None)
    moved = save_adapter(tmp_path / "moved", "/another/machine/base")
    assert check_adapters(str(base), {"memory": moved}, None) == 8


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"hidden": 128}, "model.layers.0.self_attn.q_proj is 64 to 64 there, 128 to 128 here"),
        ({"layer": "model.layers.9.self_attn.q_proj"}, "there is no layer model.layers.9.self_attn.q_proj"),
        ({"layer": "model.layers.0.self_attn.q_proj", "peft_type": "IA3"}, "an adapter of the kind IA3"),
        ({"r": 0}, "r must be a positive number, not 0"),
    ],
)
def test_an_adapter_of_another_base_is_refused_by_its_shapes(base, tmp_path, changes, told):
    other = save_adapter(tmp_path / "other", base, **changes)
    assert told in refused(check_adapters, str(base), {"memory": other}, None)


def test_what_is_no_adapter_is_named(base, tmp_path):
    assert "there is no adapter_config.json" in refused(check_adapters, str(base), {"memory": tmp_path}, None)
    broken = save_adapter(tmp_path / "broken", base)
    (broken / "adapter_model.safetensors").write_bytes(b"\x99" * 30)
    assert "is damaged: its header cannot be read" in refused(check_adapters, str(base), {"memory": broken}, None)
    (broken / "adapter_model.safetensors").unlink()
    assert "there is no adapter_model.safetensors" in refused(check_adapters, str(base), {"memory": broken}, None)


@pytest.mark.local
def test_a_real_adapter_is_read(tmp_path):
    sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
    import tiny

    base = tiny.save_model(tmp_path / "base")
    adapter = tiny.save_adapter(base, tmp_path / "adapter")
    facts = AdapterFacts.read(adapter)
    assert (facts.rank, facts.base) == (4, str(base))
    assert facts.shapes["model.layers.1.self_attn.v_proj"] == (64, 32)
    assert check_adapters(str(base), {"memory": adapter}, None) == 8
    check_base(str(base), True)
