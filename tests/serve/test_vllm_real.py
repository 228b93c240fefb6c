"""vLLM itself: a tiny base and a trained adapter on one server, played through and ended. Takes a few minutes."""

import json
import re
import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
sys.path.insert(0, str(Path(__file__).parents[1] / "train"))
import tiny
from made_turns import WEST, append, moment, run, search

from automem.errors import RunError
from automem.models.adapters import ask, load_adapter, probe
from automem.scaffold import spec as scaffolds
from automem.serve import vllm
from automem.serve.process import members
from automem.trace import TraceReader

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(vllm.installed() is None, reason="vLLM is not installed: pip install -e '.[serve-cpu]'"),
    pytest.mark.filterwarnings("ignore"),
]
POCKET = Path(str(resources.files("automem.models") / "pocket"))
AUTOMEM = [sys.executable, "-c", "from automem.cli.main import main; main()"]
QUICK = ("-s", "model.max_tokens=24", "-s", "limits.max_steps=3")
PLAY = ("run", "courier/small", "-S", "./short", "--max-steps", "3", "-j", "2", "-s", "constrained=true")
PROMPTS = {
    "system": "Play.",
    "log": "{{ observation }}\nWrite it down.",
    "plan": "{{ observation }}\nSearch, then act.",
    "gameplay": "Act.",
}
SHORT = """
name: short
files: [{name: notes.txt, kind: log}]
operations: {log: [APPEND, DONE], plan: [SEARCH, ACTION], gameplay: [SEARCH, ACTION]}
budget: {log_rounds: 1, plan_rounds: 2, gameplay_rounds: 2}
"""


def automem(*arguments, cwd, **settings):
    command = [*AUTOMEM, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=3600, **settings)


def until_serving(process):
    """What a server says until it says where it serves."""
    told = []
    while not told or not told[-1].startswith(("serving at ", "error: ")):
        told.append(process.stderr.readline())
        assert told[-1], told
    return told


def calls(folder):
    """Role and phase of every call of a run, and its prompt tokens that came from the cache."""
    found = []
    for trace in sorted(Path(folder).rglob("traces/**/*.jsonl")):
        for step in TraceReader(trace).steps():
            found += [(call.role, call.phase, call.usage.cached) for call in step.calls]
    return found


def models_of(folder):
    models = json.loads((Path(folder) / "run.json").read_text())["config"]["models"]
    return {role: spec["name"] for role, spec in models.items()}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a tiny base of head_dim 32, a scaffold of few words, and a run that can be learnt from."""
    folder = tmp_path_factory.mktemp("serving")
    tiny.save_model(folder / "base", context=2048)
    (folder / "short" / "prompts").mkdir(parents=True)
    (folder / "short" / "scaffold.yaml").write_text(SHORT)
    for name, text in PROMPTS.items():
        (folder / "short" / "prompts" / f"{name}.j2").write_text(text + "\n")
    good = [
        moment("a", log=[append("lamp at 3,1")]),
        moment("b", plan=[search("lamp"), WEST]),
        moment("c", progress=0.5),
    ]
    run(folder / "p0", scaffolds.load(str(folder / "short")), good, good, good)
    return folder


@pytest.fixture(scope="module")
def trained(place):
    """`automem train --serve vllm`: trained, played on one server, decided."""
    return automem(
        "train", "p0", "--select", "all", "--recipe", "pocket", "--base", "local:base", "--serve", "vllm",
        "--report-seeds", "100-101", "--gate-seeds", "110-111", "-o", "t0", "-s", "lora.rank=4", "-s", "lora.epochs=1",
        "-s", "lora.learning_rate=0.01", "-s", "lora.cutoff=512", "-s", "lora.batch=2", *QUICK, cwd=place,
    )  # fmt: skip


@pytest.fixture(scope="module")
def server(place, trained):
    """Base and trained adapter on a server that the command line started."""
    adapter = place / "t0" / "recipes" / "i1-c1" / "adapter"
    command = [*AUTOMEM, "serve", "base", "--lora", f"memory={adapter}", "--port", "0", "--log", "serve.log"]
    with subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True) as process:
        told = until_serving(process)
        process.url = told[-1].split()[-1]
        process.server = int(told[0].split()[4].rstrip(";"))
        process.told = told
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == "stopped\n"
    assert members(process.server) == []


def test_training_plays_on_a_server_of_its_own(place, trained):
    assert trained.returncode == 0, trained.stderr
    rows = [json.loads(line) for line in (place / "t0" / "ledger.jsonl").read_text().splitlines()]
    assert [row["verdict"] for row in rows] == ["rejected"]
    assert set(rows[0]["report"]) == {"small/100", "small/101"}
    played = place / "t0" / "plays" / f"report-{rows[0]['adapter']}"
    base = str(place / "base")
    assert models_of(played) == {"gameplay": f"openai:{base}", "memory": f"openai:memory-{rows[0]['adapter']}"}
    assert models_of(place / "t0" / "plays" / "report-base") == {"gameplay": f"openai:{base}"}
    assert {(role, phase) for role, phase, _ in calls(played)} == {("memory", "log"), ("gameplay", "plan")}
    pids = re.findall(r"starting vLLM as process (\d+)", trained.stderr)
    assert len(pids) == 1
    assert members(int(pids[0])) == []
    assert "changes a log-probability by up to" in trained.stderr


def test_the_same_command_again_starts_no_server(place, trained):
    assert trained.returncode == 0
    again = automem(*trained.args[3:], cwd=place)
    assert again.returncode == 0, again.stderr
    assert "starting vLLM" not in again.stderr


@pytest.mark.parametrize("plan", ["merged", "handoff"])
def test_an_episode_with_memory_on_the_adapter_and_play_on_the_base(place, server, plan):
    done = automem(
        *PLAY, "-s", f"plan={plan}", "-m", "openai:base", "--memory-model", "openai:memory", "--base-url", server.url,
        "-s", "model.max_tokens=48", "-s", "memory_model.max_tokens=48", "--seeds", "5", "-o", f"play-{plan}",
        cwd=place,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = calls(place / f"play-{plan}")
    wanted = {"merged": {("memory", "log"), ("gameplay", "plan")}}.get(
        plan, {("memory", "log"), ("memory", "plan"), ("gameplay", "gameplay")}
    )
    assert {(role, phase) for role, phase, _ in found} == wanted
    assert sum(cached or 0 for _, _, cached in found) > 0


def test_the_server_reads_a_prompt_as_play_in_process_does(place, server):
    from transformers import AutoTokenizer

    from automem.models.local import _prompt

    talk = [{"role": "system", "content": "Play."}, {"role": "user", "content": "Here: a lamp, <|END|> ö."}]
    status, told = ask(f"{server.url.removesuffix('/v1')}/tokenize", {"model": "base", "messages": talk})
    assert status == 200
    assert json.loads(told)["tokens"] == _prompt(AutoTokenizer.from_pretrained(place / "base"), talk)


def test_an_adapter_that_is_not_there_is_named(place, server):
    done = automem(*PLAY, "-m", "openai:memroy", "--base-url", server.url, "-o", "wrong", cwd=place)
    assert done.returncode == 1
    assert "did you mean 'memory'?" in done.stderr


def test_an_adapter_that_changes_nothing_is_found(place, server):
    import torch
    from safetensors.torch import load_file, save_file

    weak = place / "weak"
    tiny.save_adapter(place / "base", weak)
    weights = load_file(weak / "adapter_model.safetensors")
    nothing = {name: torch.zeros_like(tensor) if "lora_B" in name else tensor for name, tensor in weights.items()}
    save_file(nothing, weak / "adapter_model.safetensors")
    load_adapter(server.url, "weak", weak)
    with pytest.raises(RunError, match="the adapter 'weak' changes nothing"):
        probe(server.url, "base", "weak")


def test_what_the_server_refuses_is_told(place, server):
    high = tiny.save_adapter(place / "base", place / "high")
    config = json.loads((high / "adapter_config.json").read_text())
    (high / "adapter_config.json").write_text(json.dumps({**config, "r": 64}))
    with pytest.raises(RunError, match="rank 64"):
        load_adapter(server.url, "high", high)
    with pytest.raises(RunError, match="404"):
        load_adapter(server.url, "gone", place / "gone")


def test_merged_weights_say_what_base_and_adapter_say(place, server):
    adapter = place / "t0" / "recipes" / "i1-c1" / "adapter"
    command = [
        "serve",
        "base",
        "--lora",
        f"memory={adapter}",
        "--merged",
        "whole",
        "--port",
        "0",
        "--log",
        "merged.log",
    ]
    with subprocess.Popen([*AUTOMEM, *command], cwd=place, stderr=subprocess.PIPE, text=True) as process:
        told = []
        while not told or not told[-1].startswith(("serving at ", "error: ")):
            told.append(process.stderr.readline())
            assert told[-1], told
        merged, layered, base = (
            odds(url, name)
            for url, name in ((told[-1].split()[-1], "memory"), (server.url, "memory"), (server.url, "base"))
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130
    assert merged == pytest.approx(layered, abs=1e-3)
    assert max(abs(a - b) for a, b in zip(merged, base, strict=True)) > 1e-2


def odds(url, name):
    wanted = {"model": name, "prompt": "where is the lamp?", "max_tokens": 1, "prompt_logprobs": 0}
    rows = json.loads(ask(f"{url}/completions", wanted)[1])["choices"][0]["prompt_logprobs"]
    return [next(iter(row.values()))["logprob"] for row in rows[1:]]


def test_a_server_that_dies_while_it_loads_ends_with_the_end_of_its_log(place):
    (place / "broken").mkdir()
    for file in (place / "base").iterdir():
        (place / "broken" / file.name).write_bytes(file.read_bytes())
    config = json.loads((place / "broken" / "config.json").read_text())
    (place / "broken" / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 9}))
    began = time.monotonic()
    done = automem("serve", "broken", "--port", "0", "--log", "broken.log", cwd=place)
    assert done.returncode == 3
    assert "error: the server ended with code 1: " in done.stderr
    assert "hint: broken.log has all of it" in done.stderr
    assert time.monotonic() - began < 600
    pid = int(re.search(r"process (\d+)", done.stderr)[1])
    assert not Path(f"/proc/{pid}").exists()
    assert members(pid) == []


@pytest.mark.skipif(not (POCKET / "model.safetensors").is_file(), reason="the pocket model has no weights yet")
def test_the_pocket_model_plays_on_vllm_as_it_was_trained_to(tmp_path):
    command = [*AUTOMEM, "serve", "pocket", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        url = until_serving(process)[-1].split()[-1]
        play = ("run", "courier/small", "-S", "courier-v0", "--max-steps", "5", "--seeds", "300-301", "-j", "2")
        done = automem(*play, "-m", "openai:pocket", "--base-url", url, "-o", "p", cwd=tmp_path)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert done.returncode == 0, done.stderr
    steps = [step for trace in (tmp_path / "p").rglob("*.jsonl") if "traces" in str(trace) for step in steps_of(trace)]
    assert len(steps) == 10
    assert sum(step.fallback for step in steps) <= 1


def steps_of(trace):
    return list(TraceReader(trace).steps())
