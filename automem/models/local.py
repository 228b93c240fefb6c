"""`local:PATH`: a transformers model in this process, batched across concurrent episodes.

`local:pocket` is the model that ships with AutoMem, `local:smollm2` a real small one (smollm2.py);
`local:PATH+ADAPTER` puts a LoRA adapter on top. All local models of one PATH share one copy of the weights, whatever
adapters they have. A reply is a function of its messages, its sampling seed and the settings alone: every request has
its own stream of random numbers, and models small enough are computed in float64, where what else is in the batch
changes nothing that counts (docs/local.md).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from automem.errors import ModelFailure, UsageError
from automem.messages import Message, Usage
from automem.models.base import Completion, Request
from automem.models.batching import Batch
from automem.models.companions import hide_broken
from automem.models.constrain import Grammars
from automem.models.place import Place
from automem.models.weights import adapter_digest

#: Models of at most so many parameters are computed in float64.
EXACT_PARAMETERS = 20_000_000
_FEWEST_TOKENS = 16
#: Seconds to wait for more requests, as long as some arrive.
_SETTLE = 0.004
_INSTALL = "pip install 'automem[local]'"


class LocalSettings(BaseModel):
    """How a local model is sampled."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    #: Settings that do not change the answers.
    TRANSPORT: ClassVar[set[str]] = {"batch"}

    temperature: float = Field(default=1.0, ge=0, description="Sampling temperature; 0 is greedy.")
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="Only the likeliest tokens that together have this probability."
    )
    max_tokens: int = Field(
        default=512, ge=1, description="Longest reply, in tokens; lowered to what the prompt leaves."
    )
    batch: int = Field(default=32, ge=1, description="Requests computed together at most; changes no reply.")


@dataclass(eq=False)
class _Asked:
    """A request on its way: what to compute, and where the answer goes."""

    ids: list[int]
    room: int
    adapter: str | None
    settings: LocalSettings
    seed: int
    guide: Any = None
    said: list[int] = field(default_factory=list)
    finish_reason: str = "length"
    done: Future[None] = field(default_factory=Future)

    def __post_init__(self) -> None:
        # Counter-based: the n-th number of a stream is the same on every machine.
        self._chance = np.random.Generator(np.random.Philox(self.seed))

    def choose(self, logits: np.ndarray) -> int:
        """The next token, from float64 logits and this request's own random numbers."""
        settings = self.settings
        if self.guide is not None:
            allowed = self.guide.get_tokens()
            free, logits = logits, np.full_like(logits, -np.inf)
            logits[allowed] = free[allowed]
        if settings.temperature == 0:
            return int(logits.argmax())
        weights = np.exp((logits - logits.max()) / settings.temperature)
        if settings.top_p < 1:
            weights = _nucleus(weights, settings.top_p)
        total = np.cumsum(weights)
        return int(np.searchsorted(total, self._chance.random() * total[-1], side="right"))


def _nucleus(weights: np.ndarray, top_p: float) -> np.ndarray:
    """Weights with all but the likeliest tokens of total probability `top_p` put to zero."""
    order = np.argsort(-weights, kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    kept = np.zeros_like(weights)
    chosen = order[before < top_p * weights.sum()]
    kept[chosen] = weights[chosen]
    return kept


class _Base:
    """One copy of a model's weights, its tokenizer, its adapters, and the thread that computes.

    Requests join the batch that is computed if they have its adapter; others wait for the next one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.users = 0
        self._waiting: list[_Asked] = []
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="local-model")
        self._model, self.tokenizer = _load(folder)
        self.limit = int(self._model.config.max_position_embeddings)
        self._ends = _ends(self._model, self.tokenizer)
        self._adapters: set[str] = set()
        self._grammars: Grammars | None = None

    def add(self, adapter: Path) -> str:
        """Load an adapter, once; gives its name here.

        Raises:
            UsageError: it was made for another base.
        """
        name = f"adapter_{adapter_digest(adapter)}"
        if name not in self._adapters:
            self._thread.submit(self._add, adapter, name).result()
            self._adapters.add(name)
        return name

    def guide(self, pattern: str) -> Any:
        """A guide through a regular expression that a reply must match."""
        with self._lock:
            if self._grammars is None:
                self._grammars = Grammars(self.tokenizer, self.tokenizer.eos_token_id)
        return self._grammars.guide(pattern)

    def submit(self, asked: _Asked) -> Future[None]:
        """Queue a request; when the future is done, `said` holds the reply. Cancelled, it is not computed further."""
        with self._lock:
            self._waiting.append(asked)
        self._thread.submit(self._work)
        return asked.done

    def close(self) -> None:
        """End the thread; what is not begun yet never will be."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        for asked in self._waiting:
            asked.done.cancel()

    def _add(self, adapter: Path, name: str) -> None:
        try:
            from peft import PeftModel
        except ImportError:
            raise UsageError("an adapter needs PEFT", _INSTALL) from None
        try:
            if self._adapters:
                self._model.load_adapter(str(adapter), adapter_name=name)
            else:
                self._model = PeftModel.from_pretrained(self._model, str(adapter), adapter_name=name)
        except (ValueError, RuntimeError, KeyError) as error:
            short = str(error).strip().splitlines()[0]
            raise UsageError(f"the adapter {adapter} does not fit {self.folder}: {short}") from error
        self._model.to(self._model.dtype).eval()

    def _work(self) -> None:
        """Answer the oldest request, if any still waits, and all that can be computed beside it."""
        self._settle()
        batch = self._take()
        if batch:
            self._generate(batch)

    def _settle(self) -> None:
        """Wait while requests arrive: the agents answered last need this interpreter to ask for their next reply."""
        seen = 0
        while len(self._waiting) > seen:
            seen = len(self._waiting)
            time.sleep(_SETTLE)

    def _take(self) -> list[_Asked]:
        """The oldest request, and the next ones with its adapter."""
        with self._lock:
            self._waiting = [asked for asked in self._waiting if not asked.done.cancelled()]
            oldest = self._waiting[:1]
            return self._taken(oldest[0].adapter, oldest[0].settings.batch) if oldest else []

    def _take_beside(self, active: Sequence[_Asked]) -> list[_Asked]:
        """Requests that join the batch: half as many as it has, or it is worth no stop; none out of their turn."""
        with self._lock:
            first = active[0]
            oldest = self._waiting[0] if len(self._waiting) * 2 >= len(active) and self._waiting else None
            if oldest is None or oldest.adapter != first.adapter:
                return []
            return self._taken(first.adapter, first.settings.batch - len(active))

    def _taken(self, adapter: str | None, most: int) -> list[_Asked]:
        """The first `most` waiting requests with this adapter, by the length of their prompts."""
        taken = [asked for asked in self._waiting if asked.adapter == adapter][:most]
        ids = set(map(id, taken))
        self._waiting = [asked for asked in self._waiting if id(asked) not in ids]
        return sorted(taken, key=lambda asked: len(asked.ids))

    def _generate(self, batch: list[_Asked]) -> None:
        import torch

        active: list[_Asked] = []
        try:
            with torch.inference_mode():
                if not self._adapters:
                    self._decode(active, batch)
                elif batch[0].adapter is None:
                    with self._model.disable_adapter():
                        self._decode(active, batch)
                else:
                    self._model.set_adapter(batch[0].adapter, inference_mode=True)
                    self._decode(active, batch)
        except BaseException as error:
            # Not this thread's to judge: whoever waits for a reply of this batch is told.
            for asked in active:
                if not asked.done.done() and asked.done.set_running_or_notify_cancel():
                    asked.done.set_exception(error)
            raise

    def _decode(self, active: list[_Asked], joining: list[_Asked]) -> None:
        """Say token after token for the whole batch; who has finished leaves it, who waits may join."""
        batch = Batch(self._model)
        while active or joining:
            said = [asked.said[-1] for asked in active]
            active += joining
            logits = np.concatenate(
                ([batch.step(said)] if said else [])
                + ([batch.read([asked.ids for asked in joining])] if joining else [])
            )
            going = [row for row, asked in enumerate(active) if self._goes_on(asked, logits[row])]
            if len(going) < len(active):
                batch.keep(going)
                active[:] = [active[row] for row in going]
            joining = self._take_beside(active) if active else []

    def _goes_on(self, asked: _Asked, logits: np.ndarray) -> bool:
        """Add the next token to a reply; whether another one is to follow. If not, the request is answered."""
        if asked.done.cancelled():
            return False
        token = asked.choose(logits)
        if token in self._ends:
            asked.finish_reason = "stop"
        else:
            asked.said.append(token)
            if asked.guide is not None:
                asked.guide.advance(token)
        if token not in self._ends and len(asked.said) < asked.room:
            return True
        if asked.done.set_running_or_notify_cancel():
            asked.done.set_result(None)
        return False


def _load(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer, from this folder alone."""
    hide_broken()
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
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
    exact = model.num_parameters() <= EXACT_PARAMETERS
    return (model.double() if exact else model).eval(), tokenizer


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
            self._base: _Base | None = _BASES.get(place.base) or _Base(place.base)
            _BASES[place.base] = self._base
            self._adapter = self._base.add(place.adapter) if place.adapter else None
            self._base.users += 1

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
        asked = _Asked(ids, self._room(base, ids), self._adapter, self.settings, request.sampling_seed, guide)
        await asyncio.wrap_future(base.submit(asked))
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
        return min(room, self.settings.max_tokens)


def _prompt(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    text = tokenizer.apply_chat_template([dict(m) for m in messages], add_generation_prompt=True, tokenize=False)
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
