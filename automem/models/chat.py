"""`openai:NAME`: any server that speaks the OpenAI chat protocol (vLLM, OpenAI, `automem serve`).

One loop owns the retries, one check keeps prompts that cannot fit from being sent, and every failure
comes out as a `ModelFailure` that says what was asked, how often, and what to do.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from automem.errors import ModelFailure, UsageError, did_you_mean
from automem.messages import Message
from automem.models.base import Completion, Request, estimate_usage
from automem.models.wire import Answer, Card, Listing, problem, wire_message

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

_OPENAI_URL = "https://api.openai.com/v1"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CONNECT_SECONDS = 10.0
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_FEWEST_TOKENS = 16
_SAFETY = 1.1


class ChatSettings(BaseModel):
    """How an OpenAI-compatible server is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)
    #: Settings that say where and how patiently to ask; they do not change the answers.
    TRANSPORT: ClassVar[set[str]] = {"base_url", "timeout", "retries", "api_key_env"}

    base_url: str | None = Field(
        default=None, description="Where the server is, up to and with `/v1`; none: OpenAI's own."
    )
    temperature: float = Field(default=1.0, ge=0, description="Sampling temperature; 0 is greedy.")
    max_tokens: int = Field(
        default=4096, ge=1, description="Longest reply, in tokens; lowered to what the prompt leaves."
    )
    timeout: float = Field(default=60.0, gt=0, description="Seconds that one attempt may take in all.")
    retries: int = Field(default=5, ge=0, description="Attempts after the first, for failures that may pass.")
    context: int | None = Field(
        default=None,
        ge=1,
        description="The model's limit of prompt and reply, in tokens; none: ask the server.",
    )
    api_key_env: str = Field(
        default="OPENAI_API_KEY", description="Name of the environment variable that holds the key."
    )
    seed: bool = Field(default=True, description="Send a sampling seed with each request.")

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("must be a URL such as http://127.0.0.1:8000/v1")
        if parts.username or parts.password:
            raise ValueError("must not hold credentials: name a variable in `api_key_env`")
        return url.rstrip("/")


class _Failed(Exception):
    """One attempt that gave no completion; `silent`: the server did not answer at all."""

    def __init__(self, what: str, status: int | None = None, wait: float | None = None, silent: bool = False) -> None:
        super().__init__(what)
        self.status = status
        self.wait = wait
        self.silent = silent


class ChatModel:
    """A model behind an OpenAI-compatible server. One client, shared by all concurrent calls.

    Once a call has used up its retries without hearing from the server at all, the following calls try
    only once each until one is answered, so that a dead server does not hold up every episode in turn.

    Raises:
        UsageError: OpenAI's own server is meant, and the variable with the key is not set.
    """

    def __init__(
        self, name: str, settings: ChatSettings, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self.name = f"openai:{name}"
        self.settings = settings
        self._model = name
        self._sleep = sleep
        self._url = settings.base_url or _OPENAI_URL
        self._client = _client(self._url, _key(settings))
        self._limit = settings.context
        self._limit_asked = settings.context is not None
        self._asking = asyncio.Lock()
        self._dead = False
        # Starts at four characters a token and moves with what the server reports.
        self._characters, self._tokens = 4000, 1000

    async def generate(self, messages: Sequence[Message], request: Request) -> Completion:
        """Answer `messages`, with retries for what may pass.

        Raises:
            ModelFailure: refused, does not fit, or still failing after the last attempt.
        """
        body = self._body(messages, request)
        characters = _characters(body)
        jitter = random.Random(request.sampling_seed)
        attempt = 0
        while True:
            started = time.perf_counter()
            try:
                answer = await self._attempt(body, characters)
            except _Failed as failed:
                if failed.status is not None and not _may_pass(failed.status):
                    raise await self._refused(failed) from failed
                if self._dead or attempt >= self.settings.retries:
                    failure = self._exhausted(failed, attempt + 1)
                    self._dead = failed.silent
                    raise failure from failed
                await self._sleep(_pause(attempt, jitter) if failed.wait is None else failed.wait)
                attempt += 1
            else:
                self._dead = False
                self._learn(characters, answer)
                return _completion(answer, messages, time.perf_counter() - started, attempt)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _body(self, messages: Sequence[Message], request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [wire_message(message) for message in messages],
            "temperature": self.settings.temperature,
        }
        if self.settings.seed:
            body["seed"] = request.sampling_seed % 2**31
        if request.tools:
            body |= {"tools": list(request.tools), "tool_choice": "auto"}
        if request.grammar:
            body["structured_outputs"] = {"regex": request.grammar}
        return body

    async def _attempt(self, body: Mapping[str, Any], characters: int) -> Answer:
        """Ask once. Everything that goes wrong on the way comes out as `_Failed`."""
        import openai

        try:
            async with asyncio.timeout(self.settings.timeout):
                room = self._room(characters, await self._context())
                sent = {**body, self._length_key: room}
                text = await self._client.post("/chat/completions", cast_to=str, body=sent)
            return Answer.model_validate_json(text)
        except TimeoutError as error:
            raise _Failed(f"no answer in {self.settings.timeout:g} s", silent=True) from error
        except openai.APIConnectionError as error:
            why = _short(str(error.__cause__ or "")) or error.message
            raise _Failed(f"no connection ({why})", silent=True) from error
        except openai.APIStatusError as error:
            raise self._failed_status(error) from error
        except ValidationError as error:
            what = problem(error.errors(include_input=False)[0])
            raise _Failed(f"an answer that is not a chat completion ({what})") from error

    @property
    def _length_key(self) -> str:
        # OpenAI's own models refuse the old name, some other servers do not know the new one.
        return "max_tokens" if self.settings.base_url else "max_completion_tokens"

    async def _context(self) -> int | None:
        """The model's limit in tokens; the server is asked until it has answered once."""
        if not self._limit_asked:
            async with self._asking:
                if not self._limit_asked:
                    self._limit = await self._ask_limit()
        return self._limit

    async def _ask_limit(self) -> int | None:
        import openai

        try:
            cards = await self._cards()
        except openai.APIStatusError as error:
            self._limit_asked = not _may_pass(error.status_code)
            return None
        self._limit_asked = True
        # An adapter's entry names no limit of its own, and a server may answer to any name: then the
        # smallest limit on the list is the safe one.
        own = [card.max_model_len for card in cards if card.id == self._model and card.max_model_len]
        return min(own or [card.max_model_len for card in cards if card.max_model_len], default=None)

    async def _cards(self) -> list[Card]:
        text = await self._client.get("/models", cast_to=str)
        try:
            return Listing.model_validate_json(text).data
        except ValidationError:
            return []

    def _room(self, characters: int, limit: int | None) -> int:
        """The reply length to ask for, when the prompt leaves enough of `limit`."""
        wanted = self.settings.max_tokens
        if limit is None:
            return wanted
        prompt = int(characters * self._tokens / self._characters * _SAFETY) + 1
        left = limit - prompt
        if left < min(wanted, _FEWEST_TOKENS):
            raise ModelFailure(
                f"prompt of about {prompt} tokens + max_tokens {wanted} does not fit "
                f"the model's limit {limit} ({self.name})",
                "shorten the prompt by eviction or smaller budgets, or serve the model with a longer context",
            )
        return min(wanted, left)

    def _learn(self, characters: int, answer: Answer) -> None:
        if answer.usage:
            self._characters += characters
            self._tokens += answer.usage.prompt_tokens

    def _failed_status(self, error: APIStatusError) -> _Failed:
        said = _short(error.message.replace(self._client.api_key, "***"))
        return _Failed(said, error.status_code, wait=_retry_after(error.response.headers))

    async def _refused(self, failed: _Failed) -> ModelFailure:
        message = f"{self.name} at {self._url} refused the request, {failed}"
        return ModelFailure(message, await self._hint(failed))

    async def _hint(self, failed: _Failed) -> str | None:
        variable = self.settings.api_key_env
        match failed.status:
            case 400 if "context length" in str(failed):
                known = f"{self._limit} tokens are assumed" if self._limit else "it is not known here"
                return f"the prompt is over the server's limit ({known}): set `context`, or lower `max_tokens`"
            case 401:
                return f"check the key in {variable}" if variable in os.environ else f"{variable} is not set"
            case 403:
                return f"the key in {variable} may not use this model"
            case 404:
                return await self._name_hint()
        return None

    async def _name_hint(self) -> str:
        import openai

        try:
            return did_you_mean(self._model, [card.id for card in await self._cards()])
        except openai.APIError:
            return "the server lists no models either: does the base URL end in /v1?"

    def _exhausted(self, failed: _Failed, attempts: int) -> ModelFailure:
        times = "once" if attempts == 1 else f"{attempts} times"
        again = ", not tried again as the server was down before" if self._dead else ""
        if failed.silent:
            hint = f"is the server up? try: curl {self._url}/models"
        elif failed.status == 429:
            hint = "play fewer episodes at a time, or raise `retries`"
        else:
            hint = "see the server's log"
        return ModelFailure(f"{self.name} at {self._url} failed {times}{again}, last: {failed}", hint)


def _key(settings: ChatSettings) -> str:
    key = os.environ.get(settings.api_key_env)
    if key:
        return key
    if settings.base_url is None:
        raise UsageError(
            f"the environment variable {settings.api_key_env} is not set",
            "it must hold the key for OpenAI's server; for another server give its base URL",
        )
    return "EMPTY"


def _client(url: str, key: str) -> AsyncOpenAI:
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

    # A cluster's proxy settings must not catch the server on this machine.
    trust = urlsplit(url).hostname not in _LOOPBACK
    return AsyncOpenAI(
        api_key=key,
        base_url=url,
        max_retries=0,
        timeout=Timeout(None, connect=_CONNECT_SECONDS),
        http_client=DefaultAsyncHttpxClient(trust_env=trust),
    )


def _completion(answer: Answer, messages: Sequence[Message], seconds: float, retries: int) -> Completion:
    choice = answer.choices[0]
    text = choice.message.content or ""
    calls = tuple(call.flat() for call in choice.message.tool_calls or ())
    if answer.usage:
        usage = answer.usage.usage()
    else:
        usage = estimate_usage(messages, text + "".join(call["arguments"] for call in calls))
    return Completion(text, usage, seconds, choice.finish_reason or "stop", calls, retries)


def _characters(body: Mapping[str, Any]) -> int:
    """Characters of a request that the server turns into prompt tokens."""
    return len(json.dumps([body["messages"], body.get("tools")], ensure_ascii=False))


def _may_pass(status: int) -> bool:
    return status in (408, 409, 429) or status >= 500


def _pause(attempt: int, jitter: random.Random) -> float:
    """Seconds before the next attempt: doubling, spread by the request's own seed."""
    return min(_FIRST_WAIT * 2.0**attempt * jitter.uniform(0.5, 1.5), _LONGEST_WAIT)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait, or None; at most `_LONGEST_WAIT`."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        seconds = milliseconds / 1000
    elif (number := _number(headers.get("retry-after"))) is not None:
        seconds = number
    else:
        try:
            seconds = parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), _LONGEST_WAIT)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "nan")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _short(text: str, longest: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]} …"
