"""How `automem train` serves base and adapter, and what its dry run shows."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from automem.serve.ondemand import OnDemand
    from automem.serve.vllm import Setup
    from automem.train.recipe import Recipe


def on_demand(base: str, recipe: Recipe, out: Path, tell: Callable[[str], None]) -> OnDemand:
    """The server that is started when somebody plays.

    Raises:
        UsageError: there is no vLLM here, or the base cannot be served.
    """
    from automem.serve.ondemand import OnDemand
    from automem.serve.vllm import on_cpu
    from automem.train.players import trained_folder

    on_cpu()
    setup = setup_of(trained_folder(base), recipe)
    setup.checked()
    return OnDemand(setup, out / "vllm.log", tell)


def setup_of(base: str, recipe: Recipe) -> Setup:
    """How the base is served: with room for the recipe's adapter and for its longest rows and their replies."""
    from automem.models.adapters import served_rank
    from automem.serve.vllm import Setup, installed
    from automem.train.commands import longest

    lora = recipe.lora
    return Setup(
        model=base,
        name=base,
        lora=True,
        max_lora_rank=served_rank(lora.rank),
        tensor_parallel=max(1, lora.gpus),
        max_model_len=longest(base, lora),
        cpu=not lora.gpus and installed() != "vllm",
    )


def show(recipe: Recipe, base: str, out: Path) -> None:
    """The exact commands of training and serving, and the memory that they take."""
    from automem.serve.vllm import command, environment
    from automem.train.commands import train_command
    from automem.train.memory import architecture, estimate
    from automem.train.players import trained_folder

    folder = out / "recipes" / "i1-c1"
    name = trained_folder(base)
    setup = replace(setup_of(name, recipe), port=8000)
    print(f"# train: {recipe.name}, rank {recipe.lora.rank}, targets {', '.join(recipe.lora.modules())}")
    print(shlex.join(train_command(folder / "job.json", recipe.lora)))
    print("\n# serve base and adapter, one copy of the weights; --serve vllm does this, on a free port")
    print(shlex.join(["env", *(f"{key}={value}" for key, value in environment(setup).items()), *command(setup)]))
    print(f"# then the adapter is loaded by {setup.url}/v1/load_lora_adapter, from {folder / 'adapter'}")
    sizes = architecture(name)
    print("\n# memory")
    if sizes is None:
        print(f"the sizes of {name} are not known here; give a local folder with its config.json")
    else:
        print(estimate(sizes, recipe.lora, setup.max_model_len or 0))
