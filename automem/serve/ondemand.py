"""A vLLM server that starts when somebody plays and stops when its room is wanted: one command trains and plays."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from automem.errors import RunError
from automem.models.adapters import served_rank
from automem.models.weights import AdapterFacts
from automem.serve.vllm import Setup, Tell, VllmServer, serving


class OnDemand:
    """Serves base and adapters while they are played with; use it in a `with`, whose end stops it."""

    def __init__(self, setup: Setup, log: Path, tell: Tell) -> None:
        self._setup = replace(setup, lora=True)
        self._log = log
        self._tell = tell
        self._held = ExitStack()
        self._server: VllmServer | None = None

    def url(self) -> str:
        """Where it answers; it is started if it is not running.

        Raises:
            ServerDied: it ended while it loaded.
        """
        return self._running().url

    def load(self, name: str, adapter: Path) -> None:
        """Load an adapter and probe it; a server with too little room for its rank is started anew.

        Raises:
            RunError: the server does not take it, or it changes nothing.
        """
        rank = AdapterFacts.read(adapter).rank
        if rank > (self._setup.max_lora_rank or 0):
            self.stop()
            self._setup = replace(self._setup, max_lora_rank=served_rank(rank))
        changed = self._running().load(name, adapter)
        self._tell(f"adapter {name}: changes a log-probability by up to {changed:.3g}")

    def stop(self) -> None:
        """Stop it, so that training has its memory."""
        self._server = None
        self._held.close()

    def __enter__(self) -> OnDemand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # Episodes that failed because it died say no more than that nobody answers.
            if isinstance(error, RunError) and self._server is not None:
                code = self._server.process.wait(2.0)
                if code is not None:
                    raise self._server.process.death(f"the server ended with code {code}") from error
        finally:
            self.stop()

    def _running(self) -> VllmServer:
        if self._server is None:
            self._server = self._held.enter_context(serving(self._setup, self._log, self._tell))
        return self._server
