"""The training process, with a random tiny model: what is supervised, that it resumes, and how it fails."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("trl", reason="trl is not installed")
pytest.importorskip("peft", reason="peft is not installed")

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
import tiny

from automem.errors import RunError, UsageError
from automem.models.weights import adapter_digest
from automem.train import sft
from automem.train.dataset import SPLITS, Row, file_digest
from automem.train.job import Job, read_trained
from automem.train.recipe import Lora, Unfit
from automem.train.run import run_job
from automem.train.tokens import IGNORED, encode

pytestmark = [pytest.mark.local, pytest.mark.filterwarnings("ignore")]
FAST = Lora(rank=4, alpha=8, learning_rate=1e-2, epochs=2, batch=2, grad_accum=1, cutoff=120, save_steps=2, gpus=0)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.save_model(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def tokenizer(base):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base)


def row(*turns, step=0, **others):
    """A row of a conversation that begins with the user, behind a system message."""
    roles = ["user", "assistant"] * len(turns)
    talk = [{"role": "system", "content": "rules"}]
    talk += [{"role": role, "content": text} for role, text in zip(roles, turns, strict=False)]
    facts = {
        "run": "r", "episode": "e", "env": "courier", "task": "small", "seed": 0, "step": step, "phase": "log",
        "role": "memory", "call": 0, "model": "m", "source": "s", "reason": "used",
    }  # fmt: skip
    return Row(prompt=talk[:-1], completion=[talk[-1]], **{**facts, **others})


def write_dataset(folder, train, held_out=()):
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in zip(SPLITS, (train, held_out), strict=True):
        (folder / f"{split}.jsonl").write_text("".join(one.model_dump_json() + "\n" for one in rows))
    return {split: file_digest(folder / f"{split}.jsonl") for split in SPLITS}


@pytest.fixture
def job(tmp_path, base):
    """Makes a job on a few rows."""

    def make(lora=FAST, rows=8, held_out=2, base=base, **changes):
        train = [row(f"see {n}", f"<|APPEND|>notes|saw {n}<|END|>", step=n) for n in range(rows)]
        digests = write_dataset(tmp_path / "data", train, train[:held_out])
        facts = {"name": "t", "base": str(base), "dataset": str(tmp_path / "data"), "digests": digests, "lora": lora}
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        return Job(out=str(out), **{**facts, **changes})

    return make


def supervised(tokenizer, encoded):
    return tokenizer.decode([label for label in encoded.labels if label != IGNORED])


def test_the_completion_alone_is_supervised(tokenizer):
    two = row("see a", "<|SEARCH|>notes|a<|END|>", "no lines match", "<|APPEND|>notes|a<|END|>")
    found = encode(tokenizer, two, 1000, True, [tokenizer.eos_token_id])
    assert supervised(tokenizer, found) == "<|APPEND|>notes|a<|END|><|eot|>"
    assert found.supervised == len(found.labels) - found.labels.count(IGNORED)
    whole = tokenizer.decode(found.input_ids)
    assert whole.startswith("<|system|>rules<|eot|><|user|>see a<|eot|><|assistant|><|SEARCH|>notes|a<|END|><|eot|>")
    assert whole.endswith("<|assistant|><|APPEND|>notes|a<|END|><|eot|>")


def test_the_prompt_has_the_ids_it_has_in_play(tokenizer):
    from automem.models.local import _prompt

    one = row("see a", "<|DONE|>")
    found = encode(tokenizer, one, 1000, True, [tokenizer.eos_token_id])
    asked = _prompt(tokenizer, one.prompt)
    assert found.input_ids[: len(asked)] == asked
    assert found.labels[: len(asked)] == [IGNORED] * len(asked)


def test_long_rows_lose_the_front_of_their_prompt_and_nothing_of_their_reply(tokenizer):
    lines = "\n".join(f"line {n}" for n in range(30))
    long = row(lines, "<|SEARCH|>notes|a<|END|>", "no lines match", "<|APPEND|>notes|a<|END|>")
    ends = [tokenizer.eos_token_id]
    for cutoff in range(70, 200, 9):
        found = encode(tokenizer, long, cutoff, True, ends)
        text = tokenizer.decode(found.input_ids)
        assert len(found.input_ids) <= cutoff
        assert found.cut
        assert text.startswith("<|system|>rules<|eot|><|user|>")
        assert supervised(tokenizer, found) == "<|APPEND|>notes|a<|END|><|eot|>"
        assert "line 29" in text or "no lines match" in text
    assert encode(tokenizer, long, 30, True, ends) is None
    assert encode(tokenizer, long, 200, False, ends) is None
    assert not encode(tokenizer, long, 1000, False, ends).cut


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{% for m in messages %}{{ m['content'] }}{% endfor %}", "never stops"),
        ("{{ raise_exception('no system message, please') }}", "no system message, please"),
        ("{% if add_generation_prompt %}A{% else %}B{% endif %}", "otherwise once it has been answered"),
    ],
)
def test_a_template_that_cannot_be_trained_on_is_an_error(tokenizer, template, told):
    from copy import copy

    other = copy(tokenizer)
    other.chat_template = template
    with pytest.raises(UsageError, match=told):
        encode(other, row("a", "b"), 100, True, [tokenizer.eos_token_id])


def test_native_calls_are_objects_to_the_template(tokenizer):
    from copy import copy

    other = copy(tokenizer)
    other.chat_template = (
        "{% for m in messages %}{{ m['role'] }}{% for c in m['tool_calls'] %}{{ c['function']['arguments']['file'] }}"
        "{% endfor %}<|eot|>{% endfor %}{% if add_generation_prompt %}assistant{% endif %}{{ '' if tools else 'none' }}"
    )
    call = {"id": "1", "type": "function", "function": {"name": "READ", "arguments": '{"file": "notes"}'}}
    one = row("a", "b", tools=[{"type": "function"}])
    one.completion[0]["tool_calls"] = [call]
    assert supervised(other, encode(other, one, 100, True, [tokenizer.eos_token_id])) == "notes<|eot|>"


@pytest.fixture(scope="module")
def trained(tmp_path_factory, base):
    """One job, trained in this process."""
    folder = tmp_path_factory.mktemp("trained")
    rows = [row(f"see {n}", f"<|APPEND|>notes|saw {n}<|END|>", step=n) for n in range(8)]
    rows.append(row("x" * 400, "<|DONE|>"))
    rows.append(row("short", "y" * 200))
    digests = write_dataset(folder / "data", rows, rows[:2])
    (folder / "out").mkdir()
    made = Job(
        name="tiny", base=str(base), dataset=str(folder / "data"), digests=digests, lora=FAST, out=str(folder / "out"),
        provenance={"runs": "p0", "base_digest": "d0"},
    )  # fmt: skip
    return made, sft.train(made, folder / "out"), folder


def test_training_is_told_in_numbers(trained, tokenizer):
    job, result, _ = trained
    assert (result.rows, result.held_out_rows, result.cut, result.too_long) == (8, 2, 0, 2)
    reply = len(tokenizer("<|APPEND|>notes|saw 0<|END|><|eot|>")["input_ids"])
    assert result.supervised_tokens == 8 * reply
    assert result.updates == 8
    assert result.curve[-1][1] < result.curve[0][1]
    assert result.held_out_after < result.held_out_before
    assert len(result.held_out_curve) == FAST.epochs
    assert result.changed > 0
    assert result.job == job.digest
    assert result.device == "cpu"


def test_the_adapter_is_in_pefts_format_with_its_provenance(trained, base):
    _, result, folder = trained
    adapter = folder / "out" / "adapter"
    assert {file.name for file in adapter.iterdir()} == {
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    assert json.loads((adapter / "adapter_config.json").read_text())["base_model_name_or_path"] == str(base)
    assert adapter_digest(adapter) == result.adapter
    readme = (adapter / "README.md").read_text()
    assert "| runs | p0 |" in readme
    assert "| rank | 4 |" in readme


def test_the_adapter_changes_what_is_said(trained, base):
    import asyncio

    from automem.models import make_model
    from automem.models.base import Request

    _, _, folder = trained
    said = []
    for name in (f"local:{base}", f"local:{base}+{folder / 'out' / 'adapter'}"):
        model = make_model(name, {"max_tokens": 24, "temperature": 0})

        async def ask(model=model):
            request = Request("memory", "log", "courier", "small", 0, 0, 0, sampling_seed=1)
            talk = [{"role": "system", "content": "rules"}, {"role": "user", "content": "see 3"}]
            completion = await model.generate(talk, request)
            await model.close()
            return completion.text

        said.append(asyncio.run(ask()))
    assert said[0] != said[1]


def test_the_same_job_trains_the_same_adapter(trained, tmp_path):
    job, result, _ = trained
    (tmp_path / "again").mkdir()
    again = sft.train(job.model_copy(update={"out": str(tmp_path / "again")}), tmp_path / "again")
    assert again.curve == result.curve
    assert again.adapter == result.adapter


def test_training_goes_on_from_the_last_whole_checkpoint(trained, tmp_path):
    job, result, folder = trained
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    checkpoints = out / "checkpoints"
    shutil.rmtree(out / "adapter")
    last = max(checkpoints.glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    (last / "trainer_state.json").unlink()
    assert read_trained(out, job) is None
    resumed = sft.train(job.model_copy(update={"out": str(out)}), out)
    assert resumed.resumed_at == 6
    assert resumed.updates == 8
    assert resumed.adapter == result.adapter
    assert resumed.held_out_before == result.held_out_before


def test_another_job_never_takes_over_an_adapter(trained, tmp_path):
    job, _, folder = trained
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    other = job.model_copy(update={"out": str(out), "lora": FAST.model_copy(update={"targets": ["nowhere"]})})
    with pytest.raises(Unfit, match=r"lora\.targets: .* has no layer 'nowhere'"):
        sft.train(other, out)
    assert not (out / "adapter").exists()
    assert not list((out / "checkpoints").glob("checkpoint-*"))


def test_rows_that_were_not_verified_are_not_trained_on(job, tmp_path):
    made = job()
    with (tmp_path / "data" / "train.jsonl").open("a") as file:
        file.write(row("sneaked", "in").model_dump_json() + "\n")
    with pytest.raises(UsageError, match="not the file that was verified"):
        sft.train(made, Path(made.out))


def test_no_row_that_fits_is_an_error(job):
    made = job(FAST.model_copy(update={"cutoff": 16}))
    with pytest.raises(Unfit, match="no row fits in 16 tokens"):
        sft.train(made, Path(made.out))


def test_a_base_without_a_chat_template_is_an_error(job, base, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(base, bare)
    (bare / "chat_template.jinja").unlink()
    with pytest.raises(UsageError, match="has no chat template"):
        sft.train(job(base=bare), tmp_path / "out")


def test_a_base_that_is_none_is_an_error(job, tmp_path):
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match="cannot load the base"):
        sft.train(job(base=tmp_path / "none"), tmp_path / "out")


def test_a_gpu_that_is_not_there_is_an_error(job, tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(UsageError, match="no GPU"):
        sft.train(job(FAST.model_copy(update={"gpus": 1})), tmp_path / "out")


@pytest.mark.slow
def test_the_process_trains_and_is_not_started_twice(job):
    made, told = job(), []
    result = run_job(made, told.append)
    assert result == read_trained(Path(made.out), made)
    assert run_job(made, told.append) == result
    assert len(told) == 2


@pytest.mark.slow
def test_the_process_says_what_is_wrong(job, tmp_path):
    with pytest.raises(Unfit, match="no row fits") as error:
        run_job(job(FAST.model_copy(update={"cutoff": 16})), print)
    assert error.value.hint == "raise lora.cutoff"


@pytest.mark.slow
def test_a_process_that_is_killed_goes_on(job):
    made = job(FAST.model_copy(update={"epochs": 30, "save_steps": 3}))
    out = Path(made.out)
    (out / "job.json").write_text(made.model_dump_json())
    process = subprocess.Popen([sys.executable, "-m", "automem.train.sft", str(out / "job.json")])
    deadline = time.monotonic() + 240
    while not list(out.glob("checkpoints/checkpoint-*/trainer_state.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert read_trained(out, made) is None
    assert run_job(made, print).resumed_at


def _small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


@pytest.mark.slow
def test_a_full_disk_is_told_and_leaves_no_adapter(job):
    made = job()
    out = Path(made.out)
    (out / "job.json").write_text(made.model_dump_json())
    done = subprocess.run(
        [sys.executable, "-m", "automem.train.sft", str(out / "job.json")],
        capture_output=True,
        text=True,
        preexec_fn=_small_files,
        env={**os.environ, "HF_DATASETS_IN_MEMORY_MAX_SIZE": "0"},
        check=False,
    )
    assert done.returncode == 1
    assert "error: cannot write to" in done.stderr
    assert "make room" in done.stderr
    assert not (out / "adapter").exists()
    assert read_trained(out, made) is None


def test_a_disk_that_fills_up_under_an_archive_of_torch_is_told(tmp_path):
    torch = pytest.importorskip("torch")
    with pytest.raises(RunError, match=f"cannot write to {tmp_path}") as error, sft._faults_named(tmp_path):
        torch.save({"weights": torch.zeros(10_000)}, "/dev/full")
    assert error.value.hint.startswith("make room")


def test_a_training_that_diverges_is_refused(job, tmp_path):
    wild = FAST.model_copy(update={"alpha": 10**18, "learning_rate": 0.9})
    with pytest.raises(Unfit, match="training diverged: the loss became nan"):
        sft.train(job(wild), tmp_path / "out")
    assert not (tmp_path / "out" / "adapter").exists()
    assert not (tmp_path / "out" / "checkpoints").exists()
