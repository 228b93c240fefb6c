"""Who plays: the base alone in both roles, or with an adapter in the memory role; in process or on a server.

In process, base and adapter share one copy of the weights. A server must have been started with `--enable-lora`, a
large enough `--max-lora-rank` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True; adapters are loaded into it at run time under
names that have their hash in them, so that none is taken for another.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from automem.episode import ModelSpec
from automem.errors import RunError, UsageError
from automem.messages import Role
from automem.models import make_model, model_spec
from automem.models.base import Model

_SECONDS = 120.0


class Players(Protocol):
    """The base, and how it plays."""

    @property
    def base(self) -> str:
        """What is trained on: a folder, or a name on the hub."""
        ...

    @property
    def digest(self) -> str | None:
        """Hash of the base's weights, where they are in reach."""
        ...

    def specs(self, adapter: Path | None, digest: str) -> dict[Role, ModelSpec]:
        """Who plays which role; with no adapter the base plays both."""
        ...

    def models(self, adapter: Path | None, digest: str) -> Mapping[Role, Model]:
        """The models themselves."""
        ...


@dataclass(frozen=True)
class LocalPlayers:
    """In this process. `base` is the folder that is trained on, `name` what stands behind `local:`."""

    base: str
    name: str
    digest: str
    settings: Mapping[str, Any]

    def specs(self, adapter: Path | None, digest: str) -> dict[Role, ModelSpec]:
        """`local:BASE`, and `local:BASE+ADAPTER` for memory."""
        return {role: model_spec(name, self.settings) for role, name in self._names(adapter).items()}

    def models(self, adapter: Path | None, digest: str) -> Mapping[Role, Model]:
        """Two models over one copy of the weights."""
        return {role: make_model(name, self.settings) for role, name in self._names(adapter).items()}

    def _names(self, adapter: Path | None) -> dict[Role, str]:
        names: dict[Role, str] = {"gameplay": f"local:{self.name}"}
        return names if adapter is None else {**names, "memory": f"local:{self.name}+{adapter}"}


@dataclass(frozen=True)
class ServedPlayers:
    """On an OpenAI-compatible server at `url`, which knows the base by its name."""

    base: str
    url: str
    settings: Mapping[str, Any]
    digest: str | None = None

    def specs(self, adapter: Path | None, digest: str) -> dict[Role, ModelSpec]:
        """`openai:BASE`, and `openai:memory-HASH` for memory."""
        return {role: model_spec(name, self.settings) for role, name in self._names(adapter, digest).items()}

    def models(self, adapter: Path | None, digest: str) -> Mapping[Role, Model]:
        """Clients; the adapter is loaded into the server first.

        Raises:
            RunError: the server does not take it.
        """
        names = self._names(adapter, digest)
        if adapter is not None:
            load_adapter(self.url, names["memory"].partition(":")[2], adapter)
        return {role: make_model(name, {**self.settings, "base_url": self.url}) for role, name in names.items()}

    def _names(self, adapter: Path | None, digest: str) -> dict[Role, str]:
        names: dict[Role, str] = {"gameplay": f"openai:{self.base}"}
        return names if adapter is None else {**names, "memory": f"openai:memory-{digest}"}


def load_adapter(url: str, name: str, folder: Path) -> None:
    """Have the vLLM server at `url` load an adapter from a folder that it sees, too.

    Raises:
        RunError: it cannot be reached, or refuses.
    """
    address = f"{url.rstrip('/')}/load_lora_adapter"
    body = json.dumps({"lora_name": name, "lora_path": str(folder.resolve())}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS):
            return
    except urllib.error.HTTPError as error:
        status, told = error.code, error.read(2000).decode(errors="replace")
    except OSError as error:
        raise RunError(f"cannot reach {address}: {error}", "start the server, then run the same command") from error
    if status == 400 and "already been loaded" in told:
        return
    raise RunError(
        f"the server does not take the adapter ({status}): {told[:200]}",
        "start vLLM with --enable-lora, --max-lora-rank as the dry run shows it, and "
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True",
    )


def players(base: str, url: str | None, settings: Mapping[str, Any]) -> Players:
    """Who plays for base `base`: on the server at `url` if one is given, else in this process.

    Raises:
        UsageError: there is no such model in reach.
    """
    from automem.models.local import Place

    kind, colon, rest = base.partition(":")
    name = rest if colon and kind in ("local", "openai") else base
    if url is not None:
        return ServedPlayers(name, url, settings)
    if kind == "openai":
        raise UsageError(f"--base {base}: where is it served?", "give --base-url")
    if colon and kind != "local":
        raise UsageError(f"--base {base} cannot be trained", "give --base local:PATH, or the name of a served model")
    if name != "pocket" and not Path(name).is_dir():
        raise UsageError(f"--base {base}: no folder of that name", "download it, or serve it and give --base-url")
    place = Place.read(name)
    if place.adapter:
        raise UsageError(
            f"--base {base} has an adapter already", "train on the base; merge the adapter to go on from it"
        )
    return LocalPlayers(str(place.base), name, place.digest(), settings)


def trained_folder(base: str) -> str:
    """What transformers is given for `base`: without its kind, and the shipped folder for `pocket`."""
    from automem.models.local import Place

    kind, colon, rest = base.partition(":")
    name = rest if colon and kind in ("local", "openai") else base
    return str(Place.read(name).base) if name == "pocket" else name
