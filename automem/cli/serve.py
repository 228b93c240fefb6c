"""`automem serve`: a model over HTTP, in the OpenAI protocol."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def serve(
    model: Annotated[str, typer.Argument(help="The model to serve, e.g. scripted:courier.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    faults: Annotated[
        str, typer.Option(help="Faults to commit, e.g. status=503:0.2,delay=0.05,cut=0.1 (for tests).")
    ] = "",
    context: Annotated[int | None, typer.Option(min=1, help="Context limit to report and enforce, in tokens.")] = None,
) -> None:
    """Serve a model over HTTP until ^C."""
    from automem.models import make_model
    from automem.serve import server
    from automem.serve.faults import Faults

    server.serve(make_model(model, {}), host, port, Faults.parse(faults), context=context, announce=_announce)


def _announce(url: str) -> None:
    print(f"serving at {url}", file=sys.stderr, flush=True)
