"""The command line of `automem serve`, up to where a server would start."""

import json

import pytest

from automem.serve import vllm


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"hidden_size": 64, "num_attention_heads": 2}))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("nowhere",), "no model at nowhere", "a name on the hub"),
        (("scripted:courrier",), "unknown scripted policy 'courrier'", "did you mean 'courier'?"),
        (("scriptd:courier",), "unknown model 'scriptd:courier'", "did you mean 'scripted'?"),
        (("scripted:courier", "--lora", "a=b"), "--lora is for vLLM, not for scripted:courier", "a folder"),
        (("scripted:courier", "--dry-run"), "--dry-run is for vLLM", "a folder"),
        (("scripted:courier", "--", "--x"), "-- is for vLLM", "a folder"),
        (("base", "--faults", "cut=1"), "--faults is not for vLLM", "--max-model-len"),
        (("base", "--lora", "memory"), "--lora memory: a name and a folder are needed", "memory=runs/t0/best"),
        (("base", "--lora", "a=x", "--lora", "a=y"), "--lora a=y: there is another adapter of this name", ""),
        (("base", "--lora", "a=x"), "no adapter at x: there is no adapter_config.json", "PEFT"),
        (("base", "--merged", "out"), "--merged needs exactly one --lora", ""),
        (("base", "--max-lora-rank", "20"), "--max-lora-rank 20: vLLM makes room for", ""),
    ],
)
def test_wrong_input_is_named(automem, base, arguments, error, hint):
    code, out, err = automem("serve", *arguments)
    assert (code, out) == (2, "")
    assert error in err
    assert hint in err
    assert "Traceback" not in err


def test_a_dry_run_prints_the_command(automem, base, tmp_path, monkeypatch):
    told = tmp_path / "packages" / "vllm-0.32.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n")
    monkeypatch.syspath_prepend(told.parent)
    arguments = ("--tensor-parallel", "2", "--max-model-len", "4096", "-n", "--", "--swap-space", "8")
    code, out, err = automem("serve", "base", *arguments)
    assert (code, err) == (0, "")
    assert out.startswith("env VLLM_NO_USAGE_STATS=1 ")
    assert "vllm serve base --max-model-len 4096 --tensor-parallel-size 2 " in out
    assert out.endswith("--host 127.0.0.1 --port 8000 --swap-space 8\n")


def test_without_vllm_it_says_how_to_get_it(automem, base):
    if vllm.installed():
        pytest.skip("vLLM is installed here")
    code, _, err = automem("serve", "base")
    assert code == 2
    assert "error: vLLM is not installed" in err
    assert "automem[serve-cpu]" in err


def test_training_has_one_server_at_most(automem, tmp_path):
    run = ("run", "courier/small", "-S", "courier-v0", "-m", "scripted:courier", "--max-steps", "3", "-o", "p0")
    assert automem(*run)[0] == 0
    train = ("train", "p0", "--recipe", "pocket", "--report-seeds", "9", "--base", "x/y", "--serve", "vllm")
    code, _, err = automem(*train, "--base-url", "http://127.0.0.1:1/v1")
    assert code == 2
    assert "--serve vllm starts a server, --base-url names one that runs" in err
