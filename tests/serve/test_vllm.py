"""Starting, watching and ending vLLM, with a stand-in for the command itself."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from models import save_adapter, save_base

from automem.errors import RunError, ServerDied, UsageError
from automem.serve import vllm
from automem.serve.ondemand import OnDemand
from automem.serve.process import members
from automem.serve.vllm import Setup, command, environment, serving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
FAKE = Path(__file__).with_name("fake_vllm.py")
MAIN = "import sys; sys.executable = sys.argv.pop(1); from automem.cli.main import main; main()"


@pytest.fixture
def base(tmp_path):
    return save_base(tmp_path / "base")


@pytest.fixture
def adapter(tmp_path, base):
    return save_adapter(tmp_path / "adapter", base)


@pytest.fixture
def bin_with_vllm(tmp_path):
    """A folder with the stand-in beside an interpreter, and one with its distribution."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "vllm"
    script.write_text(f"#!{sys.executable}\nimport runpy\nrunpy.run_path({str(FAKE)!r})\n")
    script.chmod(0o755)
    told = tmp_path / "packages" / "vllm-0.32.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n")
    return tmp_path / "bin"


@pytest.fixture
def start(bin_with_vllm, tmp_path, base, monkeypatch):
    """Starts a server in this process; every test ends with nothing left of it."""
    monkeypatch.setattr(sys, "executable", str(bin_with_vllm / "python"))
    log, told = tmp_path / "logs" / "vllm.log", []

    def begin(mode="", **settings):
        monkeypatch.setenv("FAKE_VLLM", mode)
        return serving(Setup(str(base), "base", **settings), log, told.append)

    begin.log, begin.told = log, told
    yield begin
    for line in told:
        if line.startswith("starting vLLM as process "):
            assert members(int(line.split()[4].rstrip(";"))) == []


def worker(log):
    return int(log.read_text().split("worker ")[1].split()[0])


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_server_is_healthy_its_adapters_probed_and_nothing_is_left_of_it(start, adapter):
    with start(adapters={"memory": adapter}) as server:
        text = start.log.read_text()
        assert "--enable-lora --max-lora-rank 8 --max-loras 1" in text
        assert "updating True" in text
        assert runs(worker(start.log))
        assert server.url == f"http://127.0.0.1:{server.setup.port}/v1"
        assert "adapter memory: changes a log-probability by up to 1.5" in start.told
        assert server.load("other", adapter) == 1.5
    assert not runs(worker(start.log))


def test_one_that_does_not_listen_to_sigterm_is_ended_all_the_same(start, monkeypatch):
    monkeypatch.setattr("automem.serve.process._GRACE", 0.3)
    with start("stubborn"):
        pass
    assert not runs(worker(start.log))


def test_a_server_that_dies_while_loading_is_told_by_the_end_of_its_log(start):
    start.log.parent.mkdir()
    start.log.write_text("KeyError: of an earlier server\n")
    with (
        pytest.raises(ServerDied, match="ended with code 1: ValueError: the weights are broken") as error,
        start("dies"),
    ):
        pass
    assert "See root cause above" in error.value.message
    assert "earlier server" not in error.value.message
    assert str(start.log) in error.value.hint
    assert error.value.exit_code == 3


def test_a_server_that_is_never_healthy_has_a_deadline(start):
    with pytest.raises(RunError, match="not healthy after 1 s") as error, start("hangs", deadline=1.0):
        pass
    assert "--deadline" in error.value.hint
    assert not runs(worker(start.log))


def test_an_adapter_that_changes_nothing_ends_the_start(start, adapter):
    with (
        pytest.raises(RunError, match="the adapter 'memory' changes nothing"),
        start("weak", adapters={"memory": adapter}),
    ):
        pass
    assert not runs(worker(start.log))


def test_one_that_dies_at_its_first_request_has_died(start, adapter):
    with (
        pytest.raises(ServerDied, match="ended with code 7"),
        start("dies_at_first_request", adapters={"memory": adapter}),
    ):
        pass


def test_a_base_that_answers_no_chat_is_an_error(start):
    with (
        pytest.raises(RunError, match=r"does not answer a chat \(400\): .*no chat template") as error,
        start("no_template"),
    ):
        pass
    assert "must have a chat template" in error.value.hint


def test_a_dead_engine_is_a_death(start, adapter, monkeypatch):
    monkeypatch.setattr(vllm, "_WHILE_SERVING", 0.05)
    with start("sick", adapters={"memory": adapter}) as server, pytest.raises(ServerDied, match="engine is dead"):
        server.watch()


def test_a_taken_port_is_told_before_the_start(start):
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(RunError, match="cannot listen on"),
        start(port=taken.getsockname()[1]),
    ):
        pass
    assert start.told == []


def test_what_cannot_be_served_is_not_started(start, adapter, base):
    with pytest.raises(UsageError, match="over the server's limit 1"), start(adapters={"a": adapter}, max_lora_rank=1):
        pass
    with pytest.raises(UsageError, match="the base has this name"), start(adapters={"base": adapter}):
        pass
    assert start.told == []


def test_a_running_server_refuses_an_adapter_of_too_high_a_rank(start, adapter, tmp_path, base):
    high = save_adapter(tmp_path / "high", base, rank=20)
    with start(adapters={"memory": adapter}) as server, pytest.raises(UsageError, match="over the server's limit 8"):
        server.load("high", high)


def test_on_demand_it_starts_once_and_again_for_a_higher_rank(start, adapter, tmp_path, base, bin_with_vllm):
    high = save_adapter(tmp_path / "high", base, rank=20)
    with OnDemand(Setup(str(base), "base", max_lora_rank=8), start.log, start.told.append) as server:
        assert start.told == []
        first = server.url()
        server.load("memory-a", adapter)
        assert server.url() == first
        server.load("memory-b", high)
        starts = [line for line in start.told if line.startswith("starting")]
        assert len(starts) == 2
        assert "--max-lora-rank 32" in start.log.read_text()
        server.stop()
        assert members(int(starts[-1].split()[4].rstrip(";"))) == []
        server.url()
        assert len([line for line in start.told if line.startswith("starting")]) == 3


def test_on_demand_its_death_is_told_instead_of_what_followed_from_it(start, base):
    with (
        pytest.raises(ServerDied, match="ended with code -9"),
        OnDemand(Setup(str(base), "base"), start.log, start.told.append) as server,
    ):
        server.url()
        os.kill(int(start.told[-1].split()[4].rstrip(";")), signal.SIGKILL)
        raise RunError("3 episodes failed: nobody answers")


def test_commands_of_gpus_and_of_a_cpu(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    many = Setup(
        "Qwen/Q", "q", {"a": Path("a"), "b": Path("b")}, lora=True, max_lora_rank=256, tensor_parallel=2, port=8000,
        max_model_len=20_480, arguments=("--gpu-memory-utilization", "0.8"),
    )  # fmt: skip
    assert " ".join(command(many)) == (
        "vllm serve Qwen/Q --enable-lora --max-lora-rank 256 --max-loras 2 --max-model-len 20480 "
        "--tensor-parallel-size 2 --served-model-name q --enable-prefix-caching --enable-prompt-tokens-details "
        "--host 127.0.0.1 --port 8000 --gpu-memory-utilization 0.8"
    )
    assert environment(many)["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"
    small = Setup("base", "base", cpu=True, port=1)
    assert command(small)[1:8] == [
        "-m", "vllm.entrypoints.openai.api_server", "--model", "base", "--dtype", "float32", "--enforce-eager",
    ]  # fmt: skip
    told = environment(small)
    assert (told["VLLM_ENABLE_V1_MULTIPROCESSING"], told["VLLM_CPU_KVCACHE_SPACE"]) == ("0", "1")
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in told
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "4")
    assert environment(small)["VLLM_CPU_KVCACHE_SPACE"] == "4"


@pytest.fixture
def cli(bin_with_vllm, tmp_path):
    """Runs `automem serve` in a process of its own, with the stand-in for vLLM."""

    def run(*arguments, mode="", **popen):
        code = [sys.executable, "-c", MAIN, str(bin_with_vllm / "python"), "serve", *map(str, arguments)]
        paths = os.pathsep.join([str(tmp_path / "packages"), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "FAKE_VLLM": mode, "PYTHONPATH": paths}
        return subprocess.Popen(code, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment, **popen)

    return run


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_the_command_leaves_nothing(cli, base, adapter, tmp_path, how):
    with cli(base, "--lora", f"memory={adapter}", "--port", "0", "--log", "v.log") as process:
        lines = [process.stderr.readline() for _ in range(4)]
        assert lines[2] == f"models: openai:{base}, openai:memory\n"
        assert lines[3].startswith("serving at http://127.0.0.1:")
        assert runs(worker(tmp_path / "v.log"))
        process.send_signal(how)
        assert process.wait(30) == 130
        assert process.stderr.read() == "stopped\n"
    assert not runs(worker(tmp_path / "v.log"))


def test_the_command_that_is_killed_takes_its_server_along(cli, base, tmp_path):
    with cli(base, "--port", "0") as process:
        pid = int(process.stderr.readline().split()[4].rstrip(";"))
        process.stderr.readline()
        process.kill()
    end = time.monotonic() + 20
    while runs(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not runs(pid)
    subprocess.run(["kill", str(worker(tmp_path / "vllm.log"))], check=True)


def test_the_command_of_a_server_that_dies_ends_with_code_3(cli, base):
    with cli(base, "--port", "0", mode="dies") as process:
        assert process.wait(30) == 3
        told = process.stderr.read()
    assert "error: the server ended with code 1: ValueError: the weights are broken" in told
    assert "hint: vllm.log has all of it" in told
    assert "Traceback" not in told
