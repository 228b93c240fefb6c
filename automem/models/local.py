"""`local:PATH`: a transformers model in this process, batched across concurrent episodes.

`local:pocket` is the model that ships with AutoMem, `local:smollm2` a real small one (smollm2.py);
`local:PATH+ADAPTER` puts a LoRA adapter on top. All local models of one PATH share one copy of the weights, whatever
adapters they have. A reply is a function of its messages, its sampling seed and the settings alone: every request has
its own stream of random numbers, and models small enough are computed in float64, where what else is in the batch
changes nothing that counts (docs/local.md).
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from automem.errors import ModelFailure, UsageError
from automem.messages import Message, Usage
from automem.models.base import Completion, Request
from automem.models.companions import hide_broken
from automem.models.constrain import Grammars
from automem.models.decoding import Asked, Decoder
from automem.models.place import Place
from automem.models.weights import AdapterFacts, adapter_digest

#: Models of at most so many parameters are computed in float64, and have their adapters merged into a copy.
SMALL_PARAMETERS = 20_000_000
_FEWEST_TOKENS = 16
#: The longest reply of a model that does not tell, in tokens.
_LONGEST = 512
#: Seconds to wait for more requests, as long as some arrive.
_SETTLE = 0.004
_INSTALL = "pip install 'automem[local]'"


class LocalSettings(BaseModel):
    """How a local model is sampled."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    #: Settings that do not change the answers.
    TRANSPORT: ClassVar[set[str]] = {"batch"}

    temperature: float = Field(default=1.0, ge=0, description="Sampling temperature; 0 is greedy.")
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="Only the likeliest tokens that together have this probability."
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Longest reply, in tokens; lowered to what the prompt leaves. "
        "[max_new_tokens of the model's generation config, else 512]",
    )
    batch: int = Field(default=64, ge=1, description="Requests computed together at most; changes no reply.")


class _Worker:
    """A thread that answers requests with one decoder."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="local-model")
        self._closed = False

    def submit(self, asked: Asked) -> Future[None]:
        """Queue a request; when the future is done, `said` holds the reply."""
        self.decoder.add(asked)
        try:
            self._thread.submit(self._work)
        except RuntimeError:  # shut down
            asked.done.cancel()
        return asked.done

    def stop(self) -> None:
        """Begin to end: what is not answered yet never will be."""
        self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Wait for the end, after `stop`."""
        self._thread.shutdown(wait=True)
        self.decoder.cancel()

    def _work(self) -> None:
        """Answer until nobody waits."""
        import torch

        self._settle()
        with torch.inference_mode():
            while self.decoder.busy and not self._closed:
                self.decoder.step()

    def _settle(self) -> None:
        """Wait while requests arrive: the agents answered last need this interpreter to ask for their next reply."""
        seen = 0
        while (waiting := self.decoder.queue) > seen:
            seen = waiting
            time.sleep(_SETTLE)


class _Base:
    """One copy of a model's weights, its tokenizer, its adapters, and the threads that compute."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.users = 0
        self._lock = Lock()
        self._model, self.tokenizer = _load(folder)
        self.limit = int(self._model.config.max_position_embeddings)
        self.longest = int(self._model.generation_config.max_new_tokens or _LONGEST)
        self._ends = _ends(self._model, self.tokenizer)
        #: By adapter, "" for none.
        self._workers = {"": _Worker(Decoder(self._model, self._ends))}
        self._grammars: Grammars | None = None

    def add(self, adapter: Path) -> str:
        """Load an adapter, once; gives its name here.

        Raises:
            UsageError: it is no LoRA, or was made for another base.
        """
        AdapterFacts.read(adapter).check_fits(str(adapter), str(self.folder))
        name = adapter_digest(adapter)
        if name not in self._workers:
            self._workers[name] = _Worker(Decoder(_adapted(self._model, adapter, self.folder), self._ends))
        return name

    def guide(self, pattern: str) -> Any:
        """A guide through a regular expression that a reply must match."""
        with self._lock:
            if self._grammars is None:
                self._grammars = Grammars(self.tokenizer, self.tokenizer.eos_token_id)
        return self._grammars.guide(pattern)

    def submit(self, asked: Asked, adapter: str) -> Future[None]:
        """Queue a request; when the future is done, `said` holds the reply."""
        return self._workers[adapter].submit(asked)

    def close(self) -> None:
        """End the threads; what is not answered yet never will be."""
        for worker in self._workers.values():
            worker.stop()
        for worker in self._workers.values():
            worker.close()


def _adapted(model: Any, adapter: Path, base: Path) -> Any:
    """The model with an adapter: a copy in which it is merged, or modules of its own over the same weights."""
    try:
        from peft import PeftModel
    except ImportError:
        raise UsageError("an adapter needs PEFT", _INSTALL) from None
    small = _is_small(model)
    shared = {} if small else {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    try:
        adapted = PeftModel.from_pretrained(copy.deepcopy(model, shared), str(adapter)).to(model.dtype)
    except (ValueError, RuntimeError, KeyError) as error:
        short = str(error).strip().splitlines()[0]
        raise UsageError(f"the adapter {adapter} does not fit {base}: {short}") from error
    return (adapted.merge_and_unload() if small else adapted).eval()


def _load(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer, from this folder alone."""
    hide_broken()
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        from automem.models.key_values import group_queries, has_attention_alone
    except ImportError as error:
        raise UsageError(f"local: models need {error.name}", _INSTALL) from None
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    except (OSError, ValueError) as error:
        short = str(error).strip().splitlines()[0]
        raise UsageError(f"cannot load a model from {folder}: {short}") from error
    if not tokenizer.chat_template:
        raise UsageError(f"the tokenizer in {folder} has no chat template", "put a chat_template.jinja there")
    if not has_attention_alone(model):
        raise UsageError(f"{folder} has layers that are no attention", "serve it: automem serve, or --base-url")
    group_queries(model)
    return (model.double() if _is_small(model) else model).eval(), tokenizer


def _is_small(model: Any) -> bool:
    return bool(model.num_parameters() <= SMALL_PARAMETERS)


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a reply, by the model's generation config and by its tokenizer."""
    told = model.generation_config.eos_token_id
    listed = told if isinstance(told, list) else [told]
    return frozenset(token for token in (*listed, tokenizer.eos_token_id) if token is not None)


_BASES: dict[Path, _Base] = {}
_BASES_LOCK = Lock()


class LocalModel:
    """A model in this process.

    Raises:
        UsageError: it cannot be loaded, or the adapter does not fit.
    """

    def __init__(self, name: str, settings: LocalSettings) -> None:
        self.name = f"local:{name}"
        self.settings = settings
        place = Place.read(name)
        with _BASES_LOCK:
            base = _BASES.get(place.base) or _Base(place.base)
            self._adapter = base.add(place.adapter) if place.adapter else ""
            _BASES[place.base] = base
            base.users += 1
        self._base: _Base | None = base

    async def generate(self, messages: Sequence[Message], request: Request) -> Completion:
        """Answer `messages` in the tags dialect.

        Raises:
            ModelFailure: the prompt does not fit, or the request asks for what local models do not do.
        """
        if request.tools:
            raise ModelFailure(f"{self.name}: no native tool calls in process", "use dialect: tags, or vLLM")
        base = self._open()
        started = time.perf_counter()
        ids = await asyncio.to_thread(_prompt, base.tokenizer, messages)
        guide = await asyncio.to_thread(base.guide, request.grammar) if request.grammar else None
        asked = Asked(
            ids=ids,
            room=self._room(base, ids),
            temperature=self.settings.temperature,
            top_p=self.settings.top_p,
            batch=self.settings.batch,
            seed=request.sampling_seed,
            guide=guide,
        )
        await asyncio.wrap_future(base.submit(asked, self._adapter))
        ended = asked.finish_reason == "stop"
        usage = Usage(prompt=len(ids), completion=len(asked.said) + ended)
        text: str = base.tokenizer.decode(asked.said, skip_special_tokens=True)
        return Completion(text, usage, time.perf_counter() - started, asked.finish_reason)

    async def close(self) -> None:
        """Give the weights back when no other model uses them."""
        base, self._base = self._base, None
        if base is None:
            return
        with _BASES_LOCK:
            base.users -= 1
            if base.users:
                return
            _BASES.pop(base.folder, None)
        await asyncio.to_thread(base.close)

    def _open(self) -> _Base:
        if self._base is None:
            raise ModelFailure(f"{self.name} is closed")
        return self._base

    def _room(self, base: _Base, ids: Sequence[int]) -> int:
        """Tokens left for the reply."""
        room = base.limit - len(ids)
        if room < _FEWEST_TOKENS:
            raise ModelFailure(
                f"{self.name}: a prompt of {len(ids)} tokens leaves {room} of {base.limit} for the reply",
                "shorten the prompts, show less history, or take another model",
            )
        return min(room, self.settings.max_tokens or base.longest)


def _prompt(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    text = tokenizer.apply_chat_template([dict(m) for m in messages], add_generation_prompt=True, tokenize=False)
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
