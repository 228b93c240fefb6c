"""The shipped pocket model: its files are what they should be, and it plays Courier by its memory."""

import json
from pathlib import Path

import pytest
import tiny

import automem
from automem.grammar import Operation, parse
from automem.models import make_model
from automem.models.base import Request
from automem.play.folder import RunFolder
from automem.trace import TraceReader

pytest.importorskip("torch", reason="torch is not installed: pip install 'automem[local]'")

POCKET = Path(automem.__file__).parent / "models" / "pocket"
pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(not (POCKET / "config.json").exists(), reason="no trained pocket model: experiments/pocket"),
]
OBSERVED = "Room: attic at 3,1 in a grid of 6 by 4.\nHere: {here}.\nCarrying: nothing.\nOrder: {order} to study."


def automem_run(folder, *arguments):
    from typer.testing import CliRunner

    from automem.cli.main import app

    result = CliRunner().invoke(
        app, ["run", "courier/small", "-m", "local:pocket", *arguments, "-o", str(folder)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    run = RunFolder.read(folder)
    return [list(TraceReader(run.trace_path(spec)).steps()) for spec in run.config.specs()]


def calls(episodes):
    return [call for steps in episodes for step in steps for call in step.calls]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return automem_run(tmp_path_factory.mktemp("run"), "-S", "courier-v0", "--max-steps", "20", "--seeds", "0-3", "-j4")


def test_it_is_small_and_its_heads_can_be_served():
    config = json.loads((POCKET / "config.json").read_text())
    assert (POCKET / "model.safetensors").stat().st_size < 10_000_000
    assert config["head_dim"] in (32, 64)
    assert config["architectures"] == ["Qwen3ForCausalLM"]


def test_the_tokenizer_that_is_loaded_is_the_one_it_was_trained_with(played):
    import tokenizers
    from transformers import AutoTokenizer

    loaded, own = AutoTokenizer.from_pretrained(POCKET), tokenizers.Tokenizer.from_file(str(POCKET / "tokenizer.json"))
    for call in calls(played):
        text = loaded.apply_chat_template(call.messages, add_generation_prompt=True, tokenize=False)
        ids = loaded(text, add_special_tokens=False)["input_ids"]
        assert ids == own.encode(text, add_special_tokens=False).ids
        assert len(ids) < 200
        assert loaded.decode(ids) == text


def test_the_template_marks_what_the_model_says():
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    reply = "<|SEARCH|>notes.txt|brass lamp<|END|>"
    chat = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": reply}]
    made = tokenizer.apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)
    said = [token for token, mark in zip(made["input_ids"], made["assistant_masks"], strict=True) if mark]
    assert tokenizer.decode(said) == f"{reply}<|eot|>"


def test_its_measured_quality_is_good_enough():
    quality = json.loads((POCKET / "quality.json").read_text())
    for figure in quality.values():
        assert figure["parsed"] >= 0.98
        assert figure["valid"] >= 0.95
    progress = {name: figure["progress"] for name, figure in quality.items()}
    assert progress["memory off"] < 0.45
    assert progress["window"] + 0.05 < progress["courier-v0"] < progress["courier-v1"] - 0.03
    card = (POCKET / "README.md").read_text()
    assert all(f"{value:.3f}" in card for value in progress.values())


def test_it_plays_by_the_protocol(played):
    replies = calls(played)
    wellformed = [call for call in replies if call.operations and all(o.name != "?" for o in call.operations)]
    assert len(wellformed) >= 0.97 * len(replies)
    assert not any(call.usage.estimated for call in replies)
    assert sum(step.fallback for steps in played for step in steps) <= 2
    assert {name for call in replies for name in (o.name for o in call.operations)} >= {"SEARCH", "APPEND", "ACTION"}


def test_another_batch_is_the_same_run(played, tmp_path):
    alone = automem_run(tmp_path / "run", "-S", "courier-v0", "--max-steps", "20", "--seeds", "0-3", "-j1")
    assert [call.reply for call in calls(alone)] == [call.reply for call in calls(played)]


async def plan(kind, answer, order="brass lamp", here="nothing", name="pocket"):
    """What the model says after its search was answered so."""
    system = "\n".join(m["content"] for m in SYSTEM[kind])
    file = {"log": "notes.txt (log, 9 lines)", "table": "places.txt (table, 9 rows)"}[kind]
    asked = f"<|SEARCH|>{file.split()[0]}|{order}<|END|>"
    user = (
        f"# Observation\n{OBSERVED.format(order=order, here=here)}\n\n# Memory\n- {file}: what was seen where\n\n"
        "# PLAN\nSearch memory for the parcel you need, or for the room if you carry it. Then commit one ACTION.\n"
        "Operations now: SEARCH, READ, TAIL, ACTION."
    )
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": user},
        {"role": "assistant", "content": asked},
        {"role": "user", "content": f"[1] SEARCH {file.split()[0]} {order}: {answer}"},
    ]
    model = make_model(f"local:{name}", {"temperature": 0})
    request = Request("gameplay", "plan", "courier", "small", 0, 5, 1, 0)
    completion = await model.generate(messages, request)
    await model.close()
    return completion.text


SYSTEM = {"log": [], "table": []}


@pytest.fixture(scope="module", autouse=True)
def system_prompts(tmp_path_factory):
    for kind, scaffold in (("log", "courier-v0"), ("table", "courier-v1")):
        folder = tmp_path_factory.mktemp(kind)
        episodes = automem_run(folder, "-S", scaffold, "--max-steps", "1", "--seeds", "0")
        SYSTEM[kind] = calls(episodes)[0].messages[:1]


@pytest.mark.parametrize(
    ("place", "action"), [("5,1", "east"), ("0,1", "west"), ("3,3", "north"), ("3,0", "south"), ("0,3", "west")]
)
async def test_it_goes_where_memory_says(place, action):
    step = [Operation("ACTION", (action,))]
    assert parse(await plan("log", f"1 line matches 'brass lamp':\n4: brass lamp at {place}")) == step
    assert parse(await plan("table", f"1 line matches 'brass lamp':\n4: brass lamp | {place} | step 3")) == step


async def test_without_memory_it_knows_nothing():
    told = await plan("log", "1 line matches 'brass lamp':\n4: brass lamp at 5,1")
    silent = await plan("log", "no lines match 'brass lamp'")
    assert told.startswith("5,1 from 3,1")
    assert silent.startswith("nowhere from 3,1")


async def test_an_adapter_changes_what_it_says(tmp_path):
    adapter = tiny.save_adapter(POCKET, tmp_path / "adapter")
    answer = "1 line matches 'brass lamp':\n4: brass lamp at 5,1"
    assert await plan("log", answer) != await plan("log", answer, name=f"pocket+{adapter}")


@pytest.mark.slow
def test_memory_is_what_it_lives_on(tmp_path):
    with_memory = automem_run(tmp_path / "with", "-S", "courier-v1", "--seeds", "0-7", "-j8")
    without = automem_run(tmp_path / "without", "-S", "courier-v1", "-s", "operations.log=[]", "--seeds", "0-7", "-j8")
    worth = [sum(steps[-1].progress for steps in episodes) / 8 for episodes in (with_memory, without)]
    assert worth[0] > worth[1] + 0.12
