"""Adapters on a running vLLM server: loaded while it runs, and probed, so that none is taken for the base.

The server must have been started with `--enable-lora`, a large enough `--max-lora-rank` and
VLLM_ALLOW_RUNTIME_LORA_UPDATING=True; `automem serve` does so.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from automem.errors import RunError

#: The ranks that vLLM makes room for; without `--max-lora-rank` it is 16.
SERVED_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
#: What adapters are probed with: any text will do, as an adapter that was trained changes the odds of all.
PROBE = "The lamp is in the hall at 3,1. SEARCH notes for the lamp, APPEND what is new, then say DONE."
_SECONDS = 120.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::")


def served_rank(rank: int) -> int:
    """The smallest rank that vLLM makes room for and that holds `rank`."""
    return next(served for served in SERVED_RANKS if served >= rank)


def load_adapter(url: str, name: str, folder: Path) -> None:
    """Have the vLLM server at `url` load an adapter from a folder that it sees, too.

    Raises:
        RunError: it cannot be reached, or refuses.
    """
    status, told = ask(f"{url.rstrip('/')}/load_lora_adapter", {"lora_name": name, "lora_path": str(folder.resolve())})
    if status == 200 or (status == 400 and "already been loaded" in told):
        return
    raise RunError(
        f"the server does not take the adapter '{name}' ({status}): {told[:300]}",
        "start vLLM with --enable-lora, --max-lora-rank as the dry run shows it, and "
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True",
    )


def probe(url: str, base: str, name: str) -> float:
    """How much the adapter `name` changes the log-probability of a token of a fixed prompt, at most.

    Raises:
        RunError: no more than the server differs from itself: what would be played is the base.
    """
    one, same, other = (_odds(url, model) for model in (base, base, name))
    changed = max(abs(a - b) for a, b in zip(one, other, strict=True))
    noise = max(abs(a - b) for a, b in zip(one, same, strict=True))
    if changed <= noise:
        raise RunError(
            f"the adapter '{name}' changes nothing: '{base}' gives a fixed prompt the same probabilities without it",
            "it was not trained, or the server does not use it; see the server's log",
        )
    return changed


def _odds(url: str, model: str) -> list[float]:
    """The log-probability of each token of the probe but the first."""
    wanted = {"model": model, "prompt": PROBE, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
    status, told = ask(f"{url.rstrip('/')}/completions", wanted)
    try:
        rows = json.loads(told)["choices"][0]["prompt_logprobs"] if status == 200 else []
        found = [next(iter(row.values()))["logprob"] for row in rows if row]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        found = []
    if not found:
        raise RunError(
            f"the server does not tell the probabilities of a prompt for '{model}' ({status}): {told[:200]}",
            "adapters are probed on vLLM only, by prompt_logprobs",
        )
    return found


def ask(address: str, body: Mapping[str, Any] | None = None, seconds: float = _SECONDS) -> tuple[int, str]:
    """Status and text of one request; with a body it is a POST of JSON.

    Raises:
        RunError: the server cannot be reached.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    # A cluster's proxy settings must not catch the server on this machine.
    local = urlsplit(address).hostname in _LOOPBACK
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))
    try:
        with opener.open(request, timeout=seconds) as response:
            return response.status, response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(4000).decode(errors="replace")
    except OSError as error:
        raise RunError(f"cannot reach {address}: {error}", "start the server, then run the same command") from error
