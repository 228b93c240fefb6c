"""Who plays: the base alone in both roles, or with an adapter in the memory role; in process or on a server.

In process, base and adapter share one copy of the weights. On a server they do, too: adapters are loaded into it at run
time under names that have their hash in them, so that none is taken for another, and probed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from automem.episode import ModelSpec
from automem.errors import UsageError
from automem.messages import Role
from automem.models import make_model, model_spec
from automem.models.adapters import load_adapter, probe
from automem.models.base import Model
from automem.models.place import SHIPPED, Place


class Server(Protocol):
    """An OpenAI-compatible server with room for adapters."""

    def url(self) -> str:
        """Where it answers, up to and with `/v1`; started by now."""
        ...

    def load(self, name: str, adapter: Path) -> None:
        """Have an adapter answer to a name.

        Raises:
            RunError: the server does not take it, or it changes nothing.
        """
        ...


@dataclass(frozen=True)
class RemoteServer:
    """A vLLM server that somebody else started."""

    address: str
    base: str

    def url(self) -> str:
        """The address."""
        return self.address

    def load(self, name: str, adapter: Path) -> None:
        """Load and probe the adapter."""
        load_adapter(self.address, name, adapter)
        probe(self.address, self.base, name)


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
    """On a server, which knows the base by its name. It is asked for nothing before somebody plays."""

    base: str
    server: Server
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
            self.server.load(names["memory"].partition(":")[2], adapter)
        url = self.server.url()
        return {role: make_model(name, {**self.settings, "base_url": url}) for role, name in names.items()}

    def _names(self, adapter: Path | None, digest: str) -> dict[Role, str]:
        names: dict[Role, str] = {"gameplay": f"openai:{self.base}"}
        return names if adapter is None else {**names, "memory": f"openai:memory-{digest}"}


def players(base: str, url: str | None, settings: Mapping[str, Any]) -> Players:
    """Who plays for base `base`: on the server at `url` if one is given, else in this process.

    Raises:
        UsageError: there is no such model in reach.
    """
    kind, name = _kind_and_name(base)
    if url is not None:
        return ServedPlayers(name, RemoteServer(url, name), settings)
    if kind == "openai":
        raise UsageError(f"--base {base}: where is it served?", "give --base-url")
    if not (kind or _is_here(name)):
        raise UsageError(
            f"--base {base}: no folder of that name", "download it, serve it with --serve vllm, or give --base-url"
        )
    place = _base_alone(base, name)
    return LocalPlayers(str(place.base), name, place.digest(), settings)


def served_players(base: str, server: Server, settings: Mapping[str, Any]) -> Players:
    """Who plays for base `base` on a server that is started here.

    Raises:
        UsageError: there is no such model, or a setting does not exist there.
    """
    kind, name = _kind_and_name(base)
    given = {key: value for key, value in settings.items() if key != "batch"}
    if given.get("top_p") == 1:
        del given["top_p"]
    if kind == "openai" or not (kind or _is_here(name)):
        return ServedPlayers(name, server, given)
    place = _base_alone(base, name)
    return ServedPlayers(str(place.base), server, given, place.digest())


def _base_alone(base: str, name: str) -> Place:
    place = Place.read(name)
    if place.adapter:
        raise UsageError(
            f"--base {base} has an adapter already", "train on the base; merge the adapter to go on from it"
        )
    return place


def trained_folder(base: str) -> str:
    """What transformers is given for `base`: a whole path for a folder or a model known by name, else the name.

    Raises:
        UsageError: there is no such model, or it cannot be trained.
    """
    kind, name = _kind_and_name(base)
    return str(_base_alone(base, name).base) if kind == "local" or _is_here(name) else name


def _kind_and_name(base: str) -> tuple[str, str]:
    """The kind, "" for a name without one, and what stands behind it."""
    kind, colon, name = base.partition(":")
    if not colon:
        return "", base
    if kind not in ("local", "openai"):
        raise UsageError(f"--base {base} cannot be trained", "give local:PATH, a name on the hub, or openai:NAME")
    return kind, name


def _is_here(name: str) -> bool:
    return name in SHIPPED or Path(name).is_dir()
