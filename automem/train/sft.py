"""The training process: `python -m automem.train.sft JOB.json`, or the same under `accelerate launch`.

    job.json       what to train                      result.json   what came of it
    adapter/       the adapter, once it is whole      checkpoints/  to go on from

TRL's SFTTrainer with a LoRA adapter of PEFT on rows whose labels are made here (`tokens.py`). A job that is done is
not done again; one that was killed goes on from its last whole checkpoint; an adapter of another job is thrown away
before training starts, so that none can be taken for this one's.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from math import ceil, isfinite
from pathlib import Path
from typing import Any

from automem.errors import AutoMemError, RunError, UsageError
from automem.models.companions import hide_broken
from automem.models.weights import adapter_digest
from automem.play.folder import locked, write_atomically
from automem.train.dataset import SPLITS, file_digest, read_rows
from automem.train.job import Job, Trained, read_job, read_trained
from automem.train.recipe import Unfit
from automem.train.tokens import IGNORED, Encoded, check_template, encode

_VERSIONS = ("torch", "transformers", "peft", "trl", "accelerate")
_PR_SET_PDEATHSIG = 1
#: What torch's writer of archives says when it cannot write; its reader says other things.
_TORN_WRITES = ("StreamWriter", "file write", "unexpected pos")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)


def main(arguments: Sequence[str]) -> int:
    """Train the job of the given file; 0, 1 failure, 2 usage, 3 a recipe that does not fit data or base."""
    _die_with_parent()
    try:
        job = read_job(Path(arguments[0]))
        out = Path(job.out)
        if _rank() == 0:
            with locked(out / "sft.lock"):
                _run(job, out)
        else:
            _run(job, out)
    except AutoMemError as error:
        print(f"error: {error}\nhint: {error.hint or 'none'}", file=sys.stderr, flush=True)
        return 3 if isinstance(error, Unfit) else 2 if isinstance(error, UsageError) else 1
    return 0


def _run(job: Job, out: Path) -> None:
    if read_trained(out, job):
        return
    with _faults_named(out):
        trained = train(job, out)
        if _rank() == 0:
            write_atomically(out / "result.json", trained.model_dump_json(indent=2) + "\n")


def train(job: Job, out: Path) -> Trained:
    """Train, and leave the adapter in `out`.

    Raises:
        UsageError: dataset, base or template are not what is needed.
        Unfit: the base has no such layers, no row is short enough, or the loss became no number.
        RunError: the adapter changes nothing.
    """
    began = time.monotonic()
    _forget(job, out)
    tokenizer, model = _load(job)
    encoded, long_rows = _encoded(job, tokenizer, _ends(tokenizer, model))
    trainer = _trainer(job, out, tokenizer, model, encoded)
    _check_labels(trainer, encoded["train"])
    last = _last_checkpoint(out / "checkpoints")
    before = _held_out_before(trainer, encoded["held_out"], out)
    done = trainer.train(resume_from_checkpoint=str(last) if last else None)
    if not isfinite(done.training_loss):
        # Its weights are no numbers either: there is nothing to go on from.
        shutil.rmtree(out / "checkpoints", ignore_errors=True)
        raise Unfit(
            f"training diverged: the loss became {done.training_loss}", "lower lora.learning_rate or lora.alpha"
        )
    changed = _changed(job, trainer, encoded)
    _save(job, trainer, out)
    history = trainer.state.log_history
    held_out = [(row["step"], row["eval_loss"]) for row in history if "eval_loss" in row and row["step"]]
    return Trained(
        job=job.digest,
        adapter=adapter_digest(out / "adapter") if _rank() == 0 else "",
        rows=len(encoded["train"]),
        held_out_rows=len(encoded["held_out"]),
        cut=sum(row.cut for rows in encoded.values() for row in rows),
        too_long=long_rows,
        supervised_tokens=sum(row.supervised for row in encoded["train"]),
        tokens=sum(len(row.input_ids) for row in encoded["train"]),
        trainable=sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
        updates=done.global_step,
        train_loss=done.training_loss,
        curve=[(row["step"], row["loss"]) for row in history if "loss" in row],
        held_out_before=before,
        held_out_after=held_out[-1][1] if held_out else None,
        held_out_curve=held_out,
        changed=changed,
        resumed_at=int(last.name.rpartition("-")[2]) if last else None,
        seconds=round(time.monotonic() - began, 1),
        device=str(trainer.args.device),
        versions={name: metadata.version(name) for name in _VERSIONS},
    )


def _forget(job: Job, out: Path) -> None:
    """Throw away what another job left here; checkpoints of this one stay."""
    if _rank():
        return
    shutil.rmtree(out / "adapter", ignore_errors=True)
    (out / "result.json").unlink(missing_ok=True)
    mark = out / "checkpoints" / "job"
    if not mark.is_file() or mark.read_text(encoding="utf-8") != job.digest:
        shutil.rmtree(out / "checkpoints", ignore_errors=True)
        mark.parent.mkdir(parents=True)
        mark.write_text(job.digest, encoding="utf-8")


def _load(job: Job) -> tuple[Any, Any]:
    hide_broken()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    gpu = bool(job.lora.gpus)
    if gpu and not torch.cuda.is_available():
        raise UsageError("there is no GPU here", "set lora.gpus to 0 to train on the CPU")
    try:
        tokenizer = AutoTokenizer.from_pretrained(job.base)
        model = AutoModelForCausalLM.from_pretrained(job.base, dtype=torch.bfloat16 if gpu else torch.float32)
    except (OSError, ValueError) as error:
        short = str(error).strip().splitlines()[0]
        raise UsageError(f"cannot load the base {job.base}: {short}") from error
    check_template(tokenizer)
    leaves = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    if unknown := [name for name in job.lora.modules() if name not in leaves]:
        raise Unfit(f"lora.targets: {job.base} has no layer '{unknown[0]}'", f"it has {', '.join(sorted(leaves))}")
    return tokenizer, model


def _ends(tokenizer: Any, model: Any) -> list[int]:
    """The tokens that end a reply in play."""
    told = model.generation_config.eos_token_id
    listed = told if isinstance(told, list) else [told]
    return [token for token in (*listed, tokenizer.eos_token_id) if token is not None]


def _encoded(job: Job, tokenizer: Any, ends: Sequence[int]) -> tuple[dict[str, list[Encoded]], int]:
    """The rows of both splits, and how many were too long.

    Raises:
        UsageError: a file of the dataset is not the one that was verified.
        Unfit: no row is short enough.
    """
    folder, lora = Path(job.dataset), job.lora
    found: dict[str, list[Encoded]] = {}
    too_long = 0
    for split in SPLITS:
        path = folder / f"{split}.jsonl"
        rows = read_rows(folder, split)
        if file_digest(path) != job.digests.get(split):
            raise UsageError(f"{path} is not the file that was verified", "run the same command again")
        encoded = [encode(tokenizer, row, lora.cutoff, lora.long_rows == "cut", ends) for row in rows]
        found[split] = [row for row in encoded if row]
        too_long += len(encoded) - len(found[split])
    if not found["train"]:
        raise Unfit(f"no row fits in {lora.cutoff} tokens", "raise lora.cutoff")
    return found, too_long


def _trainer(job: Job, out: Path, tokenizer: Any, model: Any, encoded: dict[str, list[Encoded]]) -> Any:
    from datasets import Dataset
    from peft import LoraConfig
    from trl import SFTConfig, SFTTrainer

    lora = job.lora
    data = {
        split: Dataset.from_dict({"input_ids": [r.input_ids for r in rows], "labels": [r.labels for r in rows]})
        for split, rows in encoded.items()
    }
    updates = ceil(len(encoded["train"]) / (lora.batch * lora.grad_accum * max(1, _world()))) * lora.epochs
    config = SFTConfig(
        output_dir=str(out / "checkpoints"),
        num_train_epochs=lora.epochs,
        per_device_train_batch_size=lora.batch,
        per_device_eval_batch_size=lora.batch,
        gradient_accumulation_steps=lora.grad_accum,
        gradient_checkpointing=lora.checkpointing,
        learning_rate=lora.learning_rate,
        lr_scheduler_type=lora.scheduler,
        warmup_steps=round(lora.warmup * updates),
        weight_decay=lora.weight_decay,
        max_length=None,
        packing=False,
        bf16=bool(lora.gpus),
        use_cpu=not lora.gpus,
        seed=lora.seed,
        data_seed=lora.seed,
        logging_steps=max(1, updates // 50),
        logging_nan_inf_filter=False,
        eval_strategy="epoch" if encoded["held_out"] else "no",
        save_steps=lora.save_steps,
        save_total_limit=2,
        report_to=job.report_to,
        run_name=job.name,
        disable_tqdm=True,
    )
    return SFTTrainer(
        model=model,
        args=config,
        train_dataset=data["train"],
        eval_dataset=data["held_out"] if encoded["held_out"] else None,
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules=lora.modules(),
            task_type="CAUSAL_LM",
        ),
    )


def _check_labels(trainer: Any, rows: Sequence[Encoded]) -> None:
    """The trainer must be about to train on our labels, whatever its version makes of them."""
    for number in (0, len(rows) - 1):
        batch = trainer.data_collator([trainer.train_dataset[number]])
        got = [int(label) for label in batch["labels"][0] if int(label) != IGNORED]
        if got != [label for label in rows[number].labels if label != IGNORED]:
            raise RunError("the trainer would not train on the completions alone", "use the versions in constraints/")


def _held_out_before(trainer: Any, rows: Sequence[Encoded], out: Path) -> float | None:
    """Loss on the held-out rows before training; measured once, whatever is resumed."""
    if not rows:
        return None
    file = out / "checkpoints" / "held_out_before"
    if file.is_file():
        return float(file.read_text(encoding="utf-8"))
    loss = float(trainer.evaluate()["eval_loss"])
    if _rank() == 0:
        file.write_text(repr(loss), encoding="utf-8")
    return loss


def _changed(job: Job, trainer: Any, encoded: dict[str, list[Encoded]]) -> float | None:
    """The largest difference of a logit that the adapter makes.

    Raises:
        RunError: it makes none: what would be served is the base.
    """
    import torch

    if job.lora.sharding != "none":
        return None
    row = (encoded["held_out"] or encoded["train"])[0]
    model, ids = trainer.model.eval(), torch.tensor([row.input_ids], device=trainer.args.device)
    with torch.inference_mode():
        after = model(input_ids=ids).logits
        with model.disable_adapter():
            before = model(input_ids=ids).logits
    changed = float((after - before).abs().max())
    if not changed:
        raise RunError("the trained adapter changes no answer of the base", "raise lora.learning_rate or lora.epochs")
    return changed


def _save(job: Job, trainer: Any, out: Path) -> None:
    """The adapter in PEFT's format, whole or not there."""
    part = out / ".adapter.part"
    if _rank() == 0:
        shutil.rmtree(part, ignore_errors=True)
    trainer.save_model(str(part))
    if _rank():
        return
    for file in part.iterdir():
        if not file.name.startswith("adapter_"):
            file.unlink()
    (part / "README.md").write_text(_readme(job), encoding="utf-8")
    part.rename(out / "adapter")


def _readme(job: Job) -> str:
    """The adapter's card."""
    facts = {"base model": job.base, **{name.replace("_", " "): value for name, value in job.provenance.items()}}
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    settings = "\n".join(f"| {name} | {value} |" for name, value in job.lora.model_dump().items())
    return (
        f"---\nbase_model: {job.base}\nlibrary_name: peft\ntags: [lora, sft, automem]\n---\n\n# {job.name}\n\n"
        "A LoRA adapter for the memory role of an AutoMem agent: it writes to and asks the agent's memory. Actions "
        "stay with the base model.\n\n"
        f"| | |\n|---|---|\n{rows}\n\n| setting | |\n|---|---|\n{settings}\n"
    )


def _last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that is whole; torn ones are thrown away. The trainer's state is written last."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    whole = [path for path in found if (path / "trainer_state.json").is_file()]
    if _rank() == 0:
        for path in found:
            if path not in whole:
                shutil.rmtree(path)
    return whole[-1] if whole else None


@contextmanager
def _faults_named(out: Path) -> Iterator[None]:
    """Full disks and full memories as errors that say so. Writers of weights raise errors of their own kinds."""
    from safetensors import SafetensorError

    hint = "nothing is lost: the same command goes on from the last whole checkpoint"
    try:
        yield
    except (OSError, SafetensorError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_ROOM:
            raise
        raise RunError(f"cannot write to {out}: {error}", f"make room; {hint}") from error
    except RuntimeError as error:
        text = str(error)
        if any(mark in text for mark in _TORN_WRITES):
            raise RunError(f"cannot write to {out}: {text.splitlines()[0]}", f"make room; {hint}") from error
        if "out of memory" in text:
            told = "lower lora.batch or lora.cutoff, set lora.checkpointing, or use more GPUs"
            raise RunError(f"the device is full: {text.splitlines()[0]}", told) from error
        raise


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _world() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _die_with_parent() -> None:
    """On Linux, end when the process that started this one ends, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
