"""The chat model against real servers: ours with faults, and small ones that say exactly what is needed."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from email.utils import formatdate

import pytest
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from automem.errors import ModelFailure, UsageError
from automem.messages import Usage
from automem.models.base import Completion, Request, estimate_usage
from automem.models.chat import ChatModel, ChatSettings
from automem.serve.faults import Faults
from automem.serve.server import build_app, running

HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
FAULTS = [*(f"status={code}" for code in (408, 409, 429, 500, 503)), "cut=1", "malformed=1", "empty=1"]
SECRET = "sk-very-secret-key"


def request(seed=7, **changes):
    values = {"role": "memory", "phase": "plan", "env": "e", "task": "t", "seed": 0, "step": 3, "call": 1}
    return Request(**{**values, "sampling_seed": seed, **changes})


class Echo:
    """Repeats the last message; keeps what it was asked. With tools, calls the first of them."""

    name = "echo"

    def __init__(self):
        self.asked = []

    async def generate(self, messages, request):
        self.asked.append((messages, request))
        text = messages[-1]["content"]
        usage = estimate_usage(messages, text)
        if request.tools:
            call = {"id": "c1", "name": request.tools[0]["function"]["name"], "arguments": '{"file": "a.md"}'}
            return Completion("", usage, tool_calls=(call,))
        return Completion(text, usage, finish_reason="length")

    async def close(self):
        pass


class Cut(Response):
    """Promises a body and closes the connection."""

    async def __call__(self, scope, receive, send):
        head = [(b"content-type", b"application/json"), (b"content-length", b"99")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})


def answer(text="hi", usage=None):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return JSONResponse({"choices": [choice], **({"usage": usage} if usage else {})})


class Script:
    """A server that gives the replies of the test in turn (the last for ever) and keeps bodies and keys."""

    def __init__(self):
        routes = [Route("/v1/models", self.list), Route("/v1/chat/completions", self.chat, methods=["POST"])]
        self.app = Starlette(routes=routes)
        self.url = ""

    def play(self, *replies, models=None):
        self.replies = list(replies)
        self.models = models
        self.bodies = []
        self.keys = []
        self.listed = 0
        return self.url

    async def list(self, http):
        self.listed += 1
        if self.models is None:
            return JSONResponse({"error": {"message": "no such route"}}, 404)
        return JSONResponse({"data": self.models})

    async def chat(self, http):
        self.bodies.append(await http.json())
        self.keys.append(http.headers["authorization"])
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


class Naps(list):
    """Stands in for `asyncio.sleep` and keeps what it was asked to wait."""

    async def __call__(self, seconds):
        self.append(seconds)


@pytest.fixture
def naps():
    return Naps()


@pytest.fixture
async def chat(naps, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    models = []

    def make(url, name="echo", **settings):
        models.append(ChatModel(name, ChatSettings(base_url=url, **settings), naps))
        return models[-1]

    yield make
    for model in models:
        await model.close()


@pytest.fixture
def closed_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


@pytest.fixture(scope="module")
def echo():
    model = Echo()
    with running(build_app({"echo": model})) as url:
        yield model, url


@pytest.fixture(scope="module")
def server():
    script = Script()
    with running(script.app) as script.url:
        yield script


@pytest.fixture(scope="module")
def faulty():
    """One server with a path for each of `FAULTS`; the first two requests of each meet it."""
    apps = {name: build_app({"echo": Echo()}, Faults.parse(f"{name},first=2")) for name in FAULTS}
    with running(Starlette(routes=[Mount(f"/{name}", app) for name, app in apps.items()])) as url:
        yield url.removesuffix("/v1")


async def test_a_call_goes_there_and_back(chat, echo):
    served, url = echo
    model = chat(url, "anything")
    completion = await model.generate(HELLO, request(seed=2**31 + 5))
    assert model.name == "openai:anything"
    assert (completion.text, completion.finish_reason, completion.retries) == ("hello", "length", 0)
    assert completion.usage.prompt == 4
    assert not completion.usage.estimated
    assert 0 < completion.seconds < 60
    messages, asked = served.asked[-1]
    assert messages == HELLO
    assert asked.sampling_seed == 5


async def test_cached_tokens_are_told(chat, echo):
    model = chat(echo[1])
    first = [{"role": "user", "content": "one prefix " * 100}]
    await model.generate(first, request())
    again = await model.generate([{"role": "user", "content": first[0]["content"] + "and more"}], request())
    assert again.usage.cached == 275


async def test_tools_go_there_and_back(chat, echo):
    served, url = echo
    tool = {"type": "function", "function": {"name": "READ", "parameters": {"type": "object"}}}
    call = {"id": "c0", "name": "READ", "arguments": '{"file": "b.md"}'}
    talk = [
        *HELLO,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "empty", "tool_call_id": "c0"},
    ]
    completion = await chat(url).generate(talk, request(tools=(tool,)))
    assert completion.tool_calls == ({"id": "c1", "name": "READ", "arguments": '{"file": "a.md"}'},)
    assert (completion.text, completion.finish_reason) == ("", "tool_calls")
    messages, asked = served.asked[-1]
    assert messages == talk
    assert asked.tools == (tool,)


async def test_what_is_sent(chat, server):
    url = server.play(answer())
    model = chat(url, "qwen", temperature=0.5, max_tokens=99)
    await model.generate(HELLO, request(seed=3, tools=({"type": "function"},), grammar="a+"))
    await chat(url, seed=False).generate(HELLO, request())
    full, bare = server.bodies
    assert full == {
        "model": "qwen",
        "messages": HELLO,
        "temperature": 0.5,
        "max_tokens": 99,
        "seed": 3,
        "tools": [{"type": "function"}],
        "tool_choice": "auto",
        "structured_outputs": {"regex": "a+"},
    }
    assert set(bare) == {"model", "messages", "temperature", "max_tokens"}


async def test_usage_is_estimated_when_not_told(chat, server):
    model = chat(server.play(answer("four"), answer("x", {"prompt_tokens": 9, "completion_tokens": 1})))
    assert (await model.generate(HELLO, request())).usage == Usage(4, 1, None, estimated=True)
    assert (await model.generate(HELLO, request())).usage == Usage(9, 1)


@pytest.mark.parametrize("fault", FAULTS)
async def test_faults_that_pass_are_retried(chat, naps, faulty, fault):
    completion = await chat(f"{faulty}/{fault}/v1").generate(HELLO, request())
    assert completion.retries == 2
    assert 0.5 <= naps[0] <= 1.5
    assert 1 <= naps[1] <= 3


async def test_pauses_depend_on_the_seed_of_the_request_only(chat, naps, closed_port):
    for seed in (1, 1, 2):
        with pytest.raises(ModelFailure):
            await chat(closed_port, retries=3).generate(HELLO, request(seed=seed))
    assert naps[:3] == naps[3:6] != naps[6:]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "500"}, 60),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "soon"}, pytest.approx(1, abs=0.5)),
        ({"retry-after": "nan"}, pytest.approx(1, abs=0.5)),
    ],
    ids=str,
)
async def test_the_server_says_how_long_to_wait(chat, naps, header, seconds, server):
    url = server.play(Response(status_code=429, headers=header), answer())
    await chat(url).generate(HELLO, request())
    assert naps == [seconds]


async def test_the_server_may_name_a_date(chat, naps, server):
    later = formatdate(time.time() + 50, usegmt=True)
    await chat(server.play(Response(status_code=503, headers={"retry-after": later}), answer())).generate(
        HELLO, request()
    )
    # Some seconds may have passed since.
    assert 20 < naps[0] <= 50
    assert len(naps) == 1


async def test_a_dead_endpoint_fails_once_and_clearly(chat, naps, closed_port):
    model = chat(closed_port)
    with pytest.raises(ModelFailure) as caught:
        await model.generate(HELLO, request())
    assert f"openai:echo at {closed_port} failed 6 times, last: no connection" in str(caught.value)
    assert "is the server up?" in caught.value.hint
    assert len(naps) == 5
    assert sum(naps) < 50


async def test_many_calls_on_a_dead_endpoint_do_not_queue(chat, naps, closed_port):
    model = chat(closed_port)
    for _ in range(3):
        ends = await asyncio.gather(*[model.generate(HELLO, request(i)) for i in range(10)], return_exceptions=True)
        assert all(isinstance(end, ModelFailure) for end in ends)
    assert len(naps) <= 50
    assert "failed once, not tried again as the server was down before" in str(ends[-1])


async def test_retries_come_back_with_the_first_answer(chat, naps, server):
    url = server.play(Cut(), Cut(), Cut(), answer("up"), Cut(), answer("again"))
    model = chat(url, retries=1)
    for _ in range(2):
        with pytest.raises(ModelFailure):
            await model.generate(HELLO, request())
    assert len(naps) == 1
    assert (await model.generate(HELLO, request())).retries == 0
    assert (await model.generate(HELLO, request())).retries == 1


async def test_slow_answers_time_out(chat, naps):
    with running(build_app({"echo": Echo()}, Faults(delay=0.5))) as url:
        model = chat(url, timeout=0.1, retries=1)
        with pytest.raises(ModelFailure, match=r"failed 2 times, last: no answer in 0\.1 s"):
            await model.generate(HELLO, request())
    assert len(naps) == 1


async def test_cancelling_passes_through(chat, naps):
    with running(build_app({"echo": Echo()}, Faults(delay=0.5))) as url:
        task = asyncio.create_task(chat(url).generate(HELLO, request()))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert naps == []


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, None),
        (401, "AUTOMEM_TEST_KEY"),
        (403, "AUTOMEM_TEST_KEY"),
        (404, "did you mean 'qwen3-8b'?"),
        (422, None),
    ],
)
async def test_refusals_are_not_retried(chat, naps, status, hint, server):
    refusal = JSONResponse({"error": {"message": "computer says no"}}, status)
    url = server.play(refusal, models=[{"id": "qwen3-8b"}, {"id": "llama"}])
    model = chat(url, "qwen3-8", api_key_env="AUTOMEM_TEST_KEY")
    with pytest.raises(ModelFailure, match=f"{status} - computer says no") as caught:
        await model.generate(HELLO, request())
    assert len(server.bodies) == 1
    assert naps == []
    assert caught.value.hint is None if hint is None else hint in caught.value.hint


async def test_a_wrong_base_url_is_told(chat, server):
    url = server.play(answer())
    with pytest.raises(ModelFailure) as caught:
        await chat(url.removesuffix("/v1")).generate(HELLO, request())
    assert "/v1" in caught.value.hint


async def test_too_long_by_the_servers_count_is_told(chat, naps):
    with running(build_app({"echo": Echo()}, context=500)) as url:
        model = chat(url, context=10_000)
        with pytest.raises(ModelFailure, match="maximum context length is 500") as caught:
            await model.generate([{"role": "user", "content": "word " * 1000}], request())
    assert "10000 tokens are assumed" in caught.value.hint
    assert naps == []


async def test_prompts_that_cannot_fit_are_never_sent(chat, server):
    url = server.play(answer(), models=[{"id": "echo", "max_model_len": 200}])
    model = chat(url)
    for _ in range(2):
        with pytest.raises(ModelFailure, match=r"about \d+ tokens \+ max_tokens 4096 .* limit 200"):
            await model.generate([{"role": "user", "content": "word " * 200}], request())
    await model.generate(HELLO, request())
    assert server.listed == 1
    [sent] = server.bodies
    assert 100 < sent["max_tokens"] < 200


async def test_the_limit_of_an_adapter_is_that_of_its_base(chat, server):
    models = [{"id": "base", "max_model_len": 50}, {"id": "adapter", "max_model_len": None}]
    url = server.play(answer(), models=models)
    with pytest.raises(ModelFailure, match="limit 50"):
        await chat(url, "adapter").generate([{"role": "user", "content": "word " * 99}], request())


async def test_characters_per_token_are_learned(chat, server):
    dense = [{"role": "user", "content": "8" * 4000}]
    url = server.play(answer("ok", {"prompt_tokens": 4000, "completion_tokens": 1}))
    model = chat(url, context=2000)
    await model.generate(dense, request())
    with pytest.raises(ModelFailure, match="does not fit"):
        await model.generate(dense, request())
    assert len(server.bodies) == 1


async def test_requests_run_at_the_same_time(chat):
    app = build_app({"echo": Echo()}, Faults(delay=0.2))
    with running(app) as url:
        model = chat(url)
        await asyncio.gather(*[model.generate(HELLO, request(i)) for i in range(20)])
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].split("/")[0]))
        writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        health = json.loads((await reader.read()).split(b"\r\n\r\n")[1])
        writer.close()
        await writer.wait_closed()
    assert health["requests"] == 20
    assert health["peak"] > 10


async def test_the_key_is_read_from_its_variable_and_shown_nowhere(chat, monkeypatch, server):
    monkeypatch.setenv("AUTOMEM_TEST_KEY", SECRET)
    url = server.play(JSONResponse({"error": {"message": f"wrong key {SECRET}, go away"}}, 401))
    model = chat(url, api_key_env="AUTOMEM_TEST_KEY")
    with pytest.raises(ModelFailure, match="wrong key") as caught:
        await model.generate(HELLO, request())
    await model.close()
    assert server.keys == [f"Bearer {SECRET}"]
    shown = [repr(caught.value), str(caught.value), caught.value.hint, repr(model), str(vars(model))]
    shown += [repr(caught.value.__cause__), model.settings.model_dump_json(), repr(model.settings)]
    assert not [text for text in shown if SECRET in text]


async def test_without_a_key_other_servers_get_a_filler(chat, server):
    url = server.play(answer())
    await chat(url).generate(HELLO, request())
    assert server.keys == ["Bearer EMPTY"]


def test_openai_needs_a_key(monkeypatch):
    monkeypatch.delenv("AUTOMEM_TEST_KEY", raising=False)
    with pytest.raises(UsageError, match="AUTOMEM_TEST_KEY is not set"):
        ChatModel("gpt", ChatSettings(api_key_env="AUTOMEM_TEST_KEY"))


@pytest.mark.parametrize("url", ["localhost:8000/v1", "http://", f"http://me:{SECRET}@host/v1", "http://h:x/v1"])
def test_base_urls_are_checked_and_hold_no_credentials(url):
    with pytest.raises(ValidationError) as caught:
        ChatSettings(base_url=url)
    assert SECRET not in str(caught.value)


def test_the_sdk_is_loaded_late():
    code = "import sys, automem.models.chat; sys.exit('openai' in sys.modules or 'httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
