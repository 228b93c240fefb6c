"""The server over real HTTP, without any client library of ours."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from automem.errors import ModelFailure, RunError, UsageError
from automem.messages import Usage
from automem.models.base import Completion, estimate_usage
from automem.serve.faults import Faults
from automem.serve.server import build_app, running, serve

HELLO = {"model": "any", "messages": [{"role": "user", "content": "hello"}]}

SERVER = """
import sys
from automem.models.base import Completion, estimate_usage
from automem.serve.faults import Faults
from automem.serve.server import serve

class Parrot:
    name = "parrot"
    async def generate(self, messages, request):
        return Completion(messages[-1]["content"], estimate_usage(messages, ""))
    async def close(self):
        print("closed", flush=True)

try:
    serve(Parrot(), port=0, faults=Faults.parse(sys.argv[1]), announce=lambda url: print(url, flush=True))
except KeyboardInterrupt:
    sys.exit(130)
"""


class Parrot:
    """Repeats; keeps the requests; fails or breaks when told to."""

    name = "parrot"

    def __init__(self):
        self.requests = []
        self.closed = False

    async def generate(self, messages, request):
        self.requests.append(request)
        text = messages[-1]["content"]
        if text == "fail":
            raise ModelFailure("out of crackers")
        if text == "break":
            raise ZeroDivisionError("a bug")
        if text == "count":
            return Completion("", Usage(10, 2, cached=6))
        return Completion(text, estimate_usage(messages, text))

    async def close(self):
        self.closed = True


@pytest.fixture(scope="module")
def parrot():
    model = Parrot()
    with running(build_app({"parrot": model}, context=1000)) as url:
        yield model, url
    assert model.closed


def call(url, body=None):
    """Status and JSON of one request."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def say(url, text):
    return call(f"{url}/chat/completions", {"model": "any", "messages": [{"role": "user", "content": text}]})


def test_health_and_models(parrot):
    _, url = parrot
    status, health = call(url.removesuffix("/v1") + "/health")
    assert (status, health["status"]) == (200, "ok")
    _, listing = call(f"{url}/models")
    assert [(card["id"], card["max_model_len"]) for card in listing["data"]] == [("parrot", 1000)]


def test_a_chat(parrot):
    model, url = parrot
    extra = {"seed": 5, "temperature": 0.2, "max_tokens": 7, "structured_outputs": {"regex": "h.*"}}
    status, answer = call(f"{url}/chat/completions", {**HELLO, **extra})
    assert status == 200
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "hello"}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["total_tokens"] == 4
    request = model.requests[-1]
    assert (request.sampling_seed, request.grammar, request.tools, request.step) == (5, "h.*", (), 0)


def test_shared_prefixes_are_counted(parrot):
    _, url = parrot
    say(url, "abcd" * 50 + "x")
    say(url, "something else")
    _, answer = say(url, "abcd" * 50 + "y")
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 50}


def test_the_models_own_count_wins(parrot):
    _, answer = say(parrot[1], "count")
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 6}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "Invalid JSON"),
        ({"model": "any"}, "messages: Field required"),
        ({"model": "any", "messages": []}, "messages: List should have at least 1 item"),
        ({"model": "any", "messages": [{"role": "robot"}]}, "messages.0.role: "),
        ({**HELLO, "stream": True}, "streaming is not supported"),
        ({"model": "any", "messages": [{"role": "user", "content": "z" * 4000}]}, "maximum context length"),
    ],
    ids=str,
)
def test_bad_requests_get_a_clear_400(parrot, body, message):
    status, answer = call(f"{parrot[1]}/chat/completions", body)
    assert status == 400
    assert message in answer["error"]["message"]
    assert answer["error"]["type"] == "invalid_request_error"


def test_unknown_routes_get_json(parrot):
    assert call(f"{parrot[1]}/completions", HELLO)[0] == 404
    status, answer = call(f"{parrot[1]}/chat/completions")
    assert (status, answer["error"]["message"]) == (405, "Method Not Allowed")


def test_failures_of_the_model_are_told(parrot):
    assert say(parrot[1], "fail")[1]["error"]["message"] == "out of crackers"
    status, answer = say(parrot[1], "break")
    assert (status, answer["error"]["message"]) == (500, "ZeroDivisionError: a bug")


def test_faults_are_parsed():
    text = "status=503:0.2, status=429:0.1,delay=0.05,cut=0.1,malformed=0.05,retry_after=1,die_after=100"
    faults = Faults.parse(text)
    assert faults.status == {503: 0.2, 429: 0.1}
    assert (faults.delay, faults.cut, faults.malformed, faults.empty) == (0.05, 0.1, 0.05, 0)
    assert (faults.retry_after, faults.die_after) == (1, 100)
    assert Faults.parse("status=500").status == {500: 1}
    assert Faults.parse("") == Faults()


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("dealy=1", "unknown fault 'dealy'", "did you mean 'delay'?"),
        ("delay=long", "delay: ", "for example"),
        ("status=200:1", "codes are from 400 to 599", "for example"),
        ("status=503:lots", "status.503: ", "for example"),
        ("cut=0.6,empty=0.6", "sum to more than 1", "for example"),
    ],
)
def test_wrong_faults_are_named(text, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        Faults.parse(text)
    assert hint in caught.value.hint


def test_faults_are_drawn_alike_every_time():
    faults = Faults(status={503: 0.2}, cut=0.1, malformed=0.3)
    drawn = [faults.draw(number) for number in range(2000)]
    assert drawn == [faults.draw(number) for number in range(2000)]
    counts = Counter(drawn)
    assert counts[503] == pytest.approx(400, abs=80)
    assert counts["cut"] == pytest.approx(200, abs=60)
    assert counts["malformed"] == pytest.approx(600, abs=90)
    assert counts["empty"] == 0
    assert drawn != [Faults(status={503: 0.2}, cut=0.1, malformed=0.3, seed=1).draw(n) for n in range(2000)]
    assert [Faults(cut=1, first=2).draw(number) for number in range(3)] == ["cut", "cut", None]


def start(faults=""):
    command = [sys.executable, "-c", SERVER, faults]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def test_a_server_can_die():
    process, url = start("die_after=1")
    with process:
        assert say(url, "hello")[0] == 200
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            say(url, "hello")
        assert process.wait(10) == 3


def test_a_server_can_die_while_it_loads():
    process, url = start("loading=60,die_at=0.2")
    with process:
        assert url == ""
        assert process.wait(30) == 3


def test_a_server_can_be_sick():
    with running(build_app({"parrot": Parrot()}, Faults(sick_after=1))) as url:
        health = url.removesuffix("/v1") + "/health"
        assert call(health)[0] == 200
        assert say(url, "hello")[0] == 200
        assert call(health)[0] == 503
        assert say(url, "hello")[0] == 200


def test_interrupting_is_clean_and_quiet():
    process, url = start()
    with process:
        assert say(url, "hello")[0] == 200
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stdout.read() == "closed\n"
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_interrupting_answers_those_who_wait():
    process, url = start("delay=60")
    with process, ThreadPoolExecutor() as pool:
        waiting = pool.submit(say, url, "hello")
        while call(url.removesuffix("/v1") + "/health")[1]["in_flight"] == 0:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
        status, answer = waiting.result(10)
        assert (status, answer["error"]["message"]) == (503, "the server is stopping")
        assert process.wait(10) == 130
        assert "Traceback" not in process.stderr.read()


def test_a_taken_port_is_named(parrot):
    port = int(parrot[1].split(":")[2].removesuffix("/v1"))
    with pytest.raises(RunError, match=f"cannot listen on 127.0.0.1:{port}: ") as caught:
        serve(Parrot(), port=port)
    assert "choose another" in caught.value.hint
