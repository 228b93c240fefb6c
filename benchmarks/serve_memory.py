"""Memory of base and adapter on one vLLM server, beside two servers: python benchmarks/serve_memory.py [BASE].

BASE is a folder or smollm2 (default). PSS, summed over all processes of a server: pages that several of them share
count once. The adapter is one that was never trained, of rank 16 in all linear layers. Needs serve-cpu or serve, and
psutil.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psutil
from common import table

from automem.models.companions import hide_broken
from automem.models.place import Place
from automem.serve.merge import merge
from automem.serve.process import members
from automem.serve.vllm import Setup, on_cpu, serving

LENGTH = 1024
MIB = 2**20


def make_adapter(base, folder):
    """A LoRA adapter that is not nothing."""
    hide_broken()
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    settings = LoraConfig(r=16, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(AutoModelForCausalLM.from_pretrained(base), settings).save_pretrained(folder)
    return folder


def started(stack, log, model, name, adapters=()):
    setup = Setup(model, name, dict(adapters), max_model_len=LENGTH, cpu=on_cpu())
    return stack.enter_context(serving(setup, log, lambda text: print(f"  {text}", file=sys.stderr)))


def pss(*servers):
    """MiB of the processes of these servers."""
    pids = [pid for server in servers for pid in members(server.process.pid)]
    return sum(psutil.Process(pid).memory_full_info().pss for pid in pids) / MIB


def main():
    base = str(Place.read(sys.argv[1] if len(sys.argv) > 1 else "smollm2").base)
    weights = sum(path.stat().st_size for path in Path(base).glob("*.safetensors")) / MIB
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        adapter = make_adapter(base, here / "adapter")
        with ExitStack() as stack:
            alone = pss(started(stack, here / "1.log", base, "base"))
        with ExitStack() as stack:
            one = pss(started(stack, here / "2.log", base, "base", {"memory": adapter}.items()))
        merge(base, adapter, here / "merged", print)
        with ExitStack() as stack:
            first = started(stack, here / "3.log", base, "base")
            two = pss(first, started(stack, here / "4.log", str(here / "merged"), "memory"))
    table(
        f"weights on the disk: {weights:,.0f} MiB",
        ("what runs", "PSS, MiB"),
        ("base alone", alone),
        ("base + adapter, one server", one),
        ("base, and base with the adapter merged: two servers", two),
    )


if __name__ == "__main__":
    main()
