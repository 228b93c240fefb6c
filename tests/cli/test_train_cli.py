import json
import os

import pytest

RUN = ("run", "courier/small", "-S", "courier-v1", "-m", "scripted:courier", "--max-steps", "40", "--seeds", "0-3")
TRAIN = ("train", "runs/p0", "--recipe", "pocket", "--report-seeds", "100-105", "-o", "runs/t0")
BIG = ("train", "runs/p0", "--recipe", "crafter", "--base", "Qwen/Qwen2.5-32B-Instruct", "--dry-run")


def fault(answer):
    """The error and the hint of a usage error, behind what was told of progress."""
    code, out, err = answer
    assert (code, out) == (2, ""), (code, out, err)
    assert "Traceback" not in err
    lines = err.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("error: "))
    return lines[at], "\n".join(lines[at + 1 :])


@pytest.fixture
def played(automem, tmp_path):
    os.chdir(tmp_path)
    assert automem(*RUN, "-o", "runs/p0")[0] == 0
    return tmp_path / "runs"


def test_a_dry_run_prints_the_commands_and_the_memory(automem, played):
    code, out, _ = automem(*BIG)
    assert code == 0
    assert "accelerate launch --config_file" in out
    assert "zero3.yaml --num_processes 2 -m automem.train.sft runs/train/recipes/i1-c1/job.json" in out
    assert "vllm serve Qwen/Qwen2.5-32B-Instruct --enable-lora --max-lora-rank 256" in out
    assert "32.76 billion parameters" in out
    assert "training takes about " in out
    assert sorted(path.name for path in played.iterdir()) == ["p0"]
    assert "--max-lora-rank 512" in automem(*BIG, "-s", "lora.rank=400")[1]


def test_a_dry_run_of_an_unknown_base_says_so(automem, played):
    assert "the sizes of who/knows are not known here" in automem(*BIG, "--base", "who/knows")[1]


@pytest.mark.parametrize(
    ("base", "error"),
    [
        ("local:nosuch", "no model at 'local:nosuch'"),
        ("nosuch:thing", "--base nosuch:thing cannot be trained"),
        ("scripted:courier", "--base scripted:courier cannot be trained"),
    ],
)
def test_a_dry_run_refuses_a_base_that_cannot_be_trained(automem, played, base, error):
    assert error in fault(automem(*BIG, "--base", base))[0]


def test_a_run_is_learnt_from_once(automem, played):
    assert "runs/../runs/p0 is given twice" in fault(automem(TRAIN[0], "runs/../runs/p0", *TRAIN[1:]))[0]


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("--report-seeds", "3-9"), "seeds 3 are training seeds and report seeds", "must differ"),
        (("--gate-seeds", "0-9"), "seeds 0, 1, 2, 3 are training seeds and gate seeds", "must differ"),
        (("--gate-seeds", "102-103"), "seeds 102, 103 are gate seeds and report seeds", "must differ"),
        (("--recipe", "poket"), "unknown recipe 'poket'", "did you mean 'pocket'?"),
        (("-s", "lora.rnk=3"), "unknown key 'rnk'", "did you mean 'rank'?"),
        (("-s", "lora.rank=0"), "lora.rank", ""),
        (("-s", "rank=3"), "-s rank: unknown", "keys begin with selection., lora."),
        (("-s", "gate.confidence=2"), "confidence", ""),
        (("--base", "nowhere/model"), "--base nowhere/model: no folder of that name", "--base-url"),
        (("--base", "scripted:courier"), "--base scripted:courier cannot be trained", "local:PATH"),
        (("--base", "openai:x"), "where is it served?", "--base-url"),
        (("--select", "judge"), "--select judge needs --judge", "openai:MODEL"),
        (("--engine", "openai"), "--engine openai: unknown", "openai:MODEL"),
        (("--engine", "opnai:x"), "unknown model 'opnai:x'", "did you mean 'openai'?"),
    ],
)
def test_wrong_input_is_named_and_nothing_is_trained(automem, played, arguments, error, hint):
    where = () if "--base" in arguments else ("--base", "some/model", "--base-url", "http://127.0.0.1:1/v1")
    first, rest = fault(automem(*TRAIN, *where, *arguments))
    assert error in first
    assert hint in rest
    assert not (played / "t0" / "recipes").exists()


def test_report_seeds_are_needed(automem, played):
    arguments = ("train", "runs/p0", "--recipe", "pocket", "--base", "m", "--base-url", "http://127.0.0.1:1/v1")
    assert "--report-seeds is missing" in fault(automem(*arguments))[0]


def test_an_edited_trace_is_named(automem, played):
    trace = next((played / "p0" / "traces").rglob("*.jsonl"))
    text = trace.read_text()
    trace.write_text(text.replace("<|UPSERT|>places.txt|", "<|UPSERT|>places.txt|the ", 1))
    first, _ = fault(automem(*TRAIN, "--base", "m", "--base-url", "http://127.0.0.1:1/v1"))
    assert trace.name in first
    assert "the recorded operations are not those of the reply" in first


def test_no_row_left_is_an_error(automem, played):
    changes = ("-s", "selection.horizon=0", "-s", "selection.phases=[log]", "-s", "selection.used_share=1.0")
    first, _ = fault(automem(*TRAIN, "--base", "m", "--base-url", "http://127.0.0.1:1/v1", *changes))
    assert "no row to train on is left" in first


def test_a_folder_that_holds_something_else_is_left_alone(automem, played):
    arguments = ("--base", "m", "--base-url", "http://127.0.0.1:1/v1", "-o", "runs/p0")
    assert "the folder holds something else" in fault(automem(*TRAIN, *arguments))[0]


def test_a_ledger_needs_a_train_folder(automem, played):
    assert "is not a train folder" in fault(automem("table", "runs/p0", "--ledger"))[0]
    assert "cannot be printed as csv" in fault(automem("table", "runs/p0", "--ledger", "-f", "csv"))[0]


def test_a_dataset_goes_to_llama_factory(automem, played):
    from pathlib import Path

    from automem.train import dataset
    from automem.train.recipe import Selection
    from automem.train.select import AllSelector
    from automem.train.turns import episodes, read_runs

    found = list(episodes(read_runs([Path("runs/p0")])))
    card = dataset.build(found, Selection(selector="all"), AllSelector(), Path("data"), lambda _: None)
    code, out, _ = automem("trace", "export", "data", "--format", "sharegpt", "-o", "share/turns.json")
    assert (code, out.split()[0]) == (0, str(card.rows - card.held_out))
    rows = json.loads(Path("share/turns.json").read_text())
    assert len(rows) == card.rows - card.held_out
    for row in rows:
        roles = [turn["from"] for turn in row["conversations"]]
        assert roles == ["human", "gpt"] * (len(roles) // 2)
        assert row["system"]
    assert json.loads(Path("share/dataset_info.json").read_text())["turns"]["formatting"] == "sharegpt"
    assert "is not a dataset" in fault(automem("trace", "export", "runs/p0", "--format", "sharegpt", "-o", "x.json"))[0]
