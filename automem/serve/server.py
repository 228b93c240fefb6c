"""A small OpenAI-compatible server over any `Model`: what `automem serve` runs and clients are tested on.

Role, phase, env, task and step do not travel over this protocol, so the served model gets neutral values
for them; scripted policies read what they need from the messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Literal

import uvicorn
from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from automem.errors import EpisodeFailure, RunError
from automem.messages import Message
from automem.models.base import Completion, Model, Request
from automem.models.wire import WireCall, nested, problem
from automem.serve.faults import Fault, Faults

#: Prompts that the prefix figure looks back on.
_REMEMBERED = 8


class _WireMessage(BaseModel):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[WireCall] | None = None
    tool_call_id: str | None = None

    def message(self) -> Message:
        message: Message = {"role": self.role, "content": self.content or ""}
        if self.tool_calls:
            message["tool_calls"] = [call.flat() for call in self.tool_calls]
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        return message


class _StructuredOutputs(BaseModel):
    regex: str | None = None


class _ChatBody(BaseModel):
    """The parts of a chat request that are honoured; sampling settings of a real engine are ignored."""

    model: str
    messages: list[_WireMessage] = Field(min_length=1)
    tools: list[dict[str, Any]] | None = None
    structured_outputs: _StructuredOutputs | None = None
    seed: int | None = None
    stream: bool | None = None

    def request(self) -> Request:
        """The `Request` for the served model."""
        return Request(
            role="gameplay",
            phase="plan",
            env="",
            task="",
            seed=0,
            step=0,
            call=0,
            sampling_seed=self.seed or 0,
            tools=tuple(self.tools or ()),
            grammar=self.structured_outputs.regex if self.structured_outputs else None,
        )


class _CutResponse(Response):
    """Half an answer, after which the server closes the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        half = bytes(self.body)[: len(self.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})


class _Service:
    """The routes, their counters and the last prompts."""

    def __init__(self, models: Mapping[str, Model], faults: Faults, context: int | None) -> None:
        self.models = models
        self.faults = faults
        self.context = context
        self.requests = 0
        self.in_flight = 0
        self.peak = 0
        self._prompts: deque[str] = deque(maxlen=_REMEMBERED)

    async def health(self, _: HttpRequest) -> Response:
        counts = {"requests": self.requests, "in_flight": self.in_flight, "peak": self.peak}
        if self.faults.sick_after is not None and self.requests >= self.faults.sick_after:
            return JSONResponse({"status": "sick", **counts}, 503)
        return JSONResponse({"status": "ok", **counts})

    async def list_models(self, _: HttpRequest) -> Response:
        limit = {"max_model_len": self.context} if self.context else {}
        cards = [{"id": name, "object": "model", "created": 0, "owned_by": "automem", **limit} for name in self.models]
        return JSONResponse({"object": "list", "data": cards})

    async def chat(self, http: HttpRequest) -> Response:
        number = self.requests
        self.requests += 1
        if self.faults.die_after is not None and number >= self.faults.die_after:
            os._exit(3)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await asyncio.sleep(self.faults.delay)
            fault = self.faults.draw(number)
            if isinstance(fault, int):
                return _faulty_status(fault, self.faults.retry_after)
            return await self._answer(await http.body(), number, fault)
        except asyncio.CancelledError:
            # Only the shutdown cancels; without an answer it would end in a traceback for each request.
            return _error(503, "the server is stopping")
        finally:
            self.in_flight -= 1

    async def _answer(self, raw: bytes, number: int, fault: Fault | None) -> Response:
        try:
            body = _ChatBody.model_validate_json(raw)
        except ValidationError as error:
            return _error(400, "; ".join(map(problem, error.errors())))
        if body.stream:
            return _error(400, "streaming is not supported: send stream=false")
        messages = [wire.message() for wire in body.messages]
        cached = self._cached("\n".join(m["content"] for m in messages))
        model = self.models.get(body.model) or next(iter(self.models.values()))
        try:
            completion = await model.generate(messages, body.request())
        except EpisodeFailure as failure:
            return _error(502, failure.message)
        if self.context and completion.usage.prompt >= self.context:
            said = f"This model's maximum context length is {self.context} tokens"
            return _error(400, f"{said}, the prompt has {completion.usage.prompt}")
        answer = _chat_completion(completion, body.model, number, cached)
        return _respond(answer, fault)

    def _cached(self, prompt: str) -> int:
        """Tokens shared with the most similar of the last prompts, at four characters a token."""
        shared = max((_shared(prompt, other) for other in self._prompts), default=0)
        self._prompts.append(prompt)
        return shared // 4


def _shared(one: str, other: str) -> int:
    """Length of the common prefix, by bisection: prompts are long and comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _chat_completion(completion: Completion, model: str, number: int, cached: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": completion.text}
    if completion.tool_calls:
        message["tool_calls"] = nested(completion.tool_calls)
    usage = completion.usage
    told = cached if usage.cached is None else usage.cached
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": "tool_calls" if completion.tool_calls else completion.finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "total_tokens": usage.prompt + usage.completion,
            "prompt_tokens_details": {"cached_tokens": min(told, usage.prompt)},
        },
    }


def _respond(answer: dict[str, Any], fault: Fault | None) -> Response:
    match fault:
        case "cut":
            return _CutResponse(JSONResponse(answer).body, media_type="application/json")
        case "malformed":
            return Response('{"id": "chatcmpl-0", "choices": [', media_type="application/json")
        case "empty":
            return JSONResponse({**answer, "choices": []})
    return JSONResponse(answer)


def _faulty_status(status: int, retry_after: float | None) -> Response:
    response = _error(status, "a fault on purpose")
    if retry_after is not None:
        response.headers["retry-after"] = f"{retry_after:g}"
    return response


def _error(status: int, message: str) -> Response:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status)


async def _http_error(_: HttpRequest, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _error(error.status_code, error.detail)
    return _error(500, f"{type(error).__name__}: {error}")


def build_app(models: Mapping[str, Model], faults: Faults | None = None, context: int | None = None) -> Starlette:
    """The server's application. A request for any other name is answered by the first of `models`.

    `context` is the limit in tokens that `/v1/models` reports and longer prompts are refused by.
    `/health` tells the requests so far, how many are in flight and how many were at once at most.
    """
    service = _Service(models, faults or Faults(), context)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        for model in models.values():
            await model.close()

    return Starlette(
        routes=[
            Route("/health", service.health),
            Route("/v1/models", service.list_models),
            Route("/v1/chat/completions", service.chat, methods=["POST"]),
        ],
        exception_handlers={HTTPException: _http_error, Exception: _http_error},
        lifespan=lifespan,
    )


def serve(
    model: Model,
    host: str = "127.0.0.1",
    port: int = 8000,
    faults: Faults | None = None,
    *,
    context: int | None = None,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve `model` until ^C; port 0 takes a free one. `announce` is told the base URL once it is known.

    Raises:
        RunError: the address cannot be used.
        KeyboardInterrupt: after the server has been shut down by ^C.
    """
    faults = faults or Faults()
    _start(faults)
    listener = listen(host, port)
    announce(_base_url(listener))
    _server(build_app({model.name: model}, faults, context)).run([listener])


def _start(faults: Faults) -> None:
    """Take as long as the faults say, and die when they say."""
    if faults.die_at is not None:
        death = threading.Timer(faults.die_at, os._exit, (3,))
        death.daemon = True
        death.start()
    time.sleep(faults.loading)


@contextlib.contextmanager
def running(app: Starlette) -> Iterator[str]:
    """Run `app` in a thread on a free port of this machine for the length of a `with`; gives the base URL."""
    listener = listen("127.0.0.1", 0)
    server = _server(app)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield _base_url(listener)
    finally:
        server.should_exit = True
        thread.join()


def _server(app: Starlette) -> uvicorn.Server:
    # Clients keep connections for a while; a server that closes them first makes the next request fail.
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            log_level="error",
            access_log=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
        )
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one.

    Raises:
        RunError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio turns Nagle's algorithm off; without, each answer takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        taken = error.errno == errno.EADDRINUSE
        raise RunError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            "another program has this port; choose another, or 0 for a free one" if taken else None,
        ) from error
    return listener


def _base_url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"
