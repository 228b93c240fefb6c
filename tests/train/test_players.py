import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from automem.errors import RunError, UsageError
from automem.models.adapters import load_adapter, probe
from automem.train.players import players, served_players


@pytest.fixture
def server():
    """A server that answers adapters as told, gives every model its own odds, and remembers what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked = json.loads(body)
            made.asked.append((self.path, asked))
            status, text = made.answer
            if self.path.endswith("/completions"):
                rows = [None, {"68": {"logprob": made.odds.get(asked["model"], -1.0)}}]
                status, text = 200, json.dumps({"choices": [{"prompt_logprobs": rows}]})
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    made = HTTPServer(("127.0.0.1", 0), Handler)
    made.asked, made.answer, made.odds = [], (200, "Success"), {}
    made.url = f"http://127.0.0.1:{made.server_port}/v1"
    Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_a_served_base_plays_with_adapters_by_their_hash(server, tmp_path):
    server.odds["memory-abc"] = -1.5
    who = players("openai:Qwen/Qwen2.5-7B-Instruct", server.url, {"temperature": 0.5})
    assert who.base == "Qwen/Qwen2.5-7B-Instruct"
    assert {role: spec.name for role, spec in who.specs(None, "base").items()} == {
        "gameplay": "openai:Qwen/Qwen2.5-7B-Instruct"
    }
    specs = who.specs(tmp_path, "abc")
    assert specs["memory"].name == "openai:memory-abc"
    assert specs["memory"].settings["temperature"] == 0.5
    assert set(who.models(tmp_path, "abc")) == {"gameplay", "memory"}
    assert server.asked[0] == (
        "/v1/load_lora_adapter",
        {"lora_name": "memory-abc", "lora_path": str(tmp_path.resolve())},
    )


def test_an_adapter_that_changes_nothing_is_never_played(server, tmp_path):
    who = players("openai:base", server.url, {})
    with pytest.raises(RunError, match="the adapter 'memory-abc' changes nothing") as error:
        who.models(tmp_path, "abc")
    assert "not trained" in error.value.hint


def test_the_probe_tells_by_how_much(server):
    server.odds["memory"] = -3.25
    assert probe(server.url, "base", "memory") == 2.25


def test_a_server_that_cannot_be_probed_is_told(tmp_path):
    from automem.serve.server import build_app, running

    with running(build_app({})) as url, pytest.raises(RunError, match="does not tell the probabilities"):
        probe(url, "base", "memory")


class Started:
    """A server of our own, which is started when it is needed."""

    def __init__(self):
        self.did = []

    def url(self):
        self.did.append("url")
        return "http://127.0.0.1:1/v1"

    def load(self, name, adapter):
        self.did.append(f"load {name}")


def test_a_server_of_our_own_is_not_started_before_somebody_plays(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    server = Started()
    who = served_players(f"local:{tmp_path}", server, {"temperature": 0.5, "batch": 4, "top_p": 1.0})
    specs = who.specs(tmp_path, "abc")
    assert who.base == str(tmp_path)
    assert who.digest
    assert specs["gameplay"].name == f"openai:{tmp_path}"
    assert specs["gameplay"].settings["temperature"] == 0.5
    assert server.did == []
    who.models(tmp_path, "abc")
    assert server.did == ["load memory-abc", "url"]
    assert served_players("Qwen/Qwen3-8B", server, {}).base == "Qwen/Qwen3-8B"
    with pytest.raises(UsageError, match="cannot be trained"):
        served_players("scripted:courier", server, {})
    with pytest.raises(UsageError, match="top_p"):
        served_players(f"local:{tmp_path}", server, {"top_p": 0.9}).specs(None, "base")


def test_an_adapter_that_is_there_is_fine_and_one_that_is_refused_is_not(server, tmp_path):
    server.answer = (400, "The lora adapter 'x' has already been loaded.")
    load_adapter(server.url, "x", tmp_path)
    server.answer = (400, "LoRA rank 256 is greater than max_lora_rank 16.")
    with pytest.raises(RunError, match="rank 256 is greater") as error:
        load_adapter(server.url, "x", tmp_path)
    assert "--max-lora-rank" in error.value.hint


def test_a_server_that_is_not_there_is_told(tmp_path):
    with pytest.raises(RunError, match="cannot reach"):
        load_adapter("http://127.0.0.1:1/v1", "x", tmp_path)


def test_a_base_is_a_folder_or_served(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    for name in (f"local:{tmp_path}", str(tmp_path)):
        who = players(name, None, {})
        assert who.base == str(tmp_path)
        assert who.specs(None, "base")["gameplay"].name == f"local:{tmp_path}"
    with pytest.raises(UsageError, match="no folder of that name"):
        players("nowhere", None, {})
    with pytest.raises(UsageError, match="no model at 'local:nowhere'"):
        players("local:nowhere", None, {})
    with pytest.raises(UsageError, match="cannot be trained"):
        players("scripted:courier", None, {})
