"""Real processes stopped in every way: signals, a dead endpoint, a full disk. The same command completes them."""

import json
import random
import resource
import signal
import subprocess
import sys
import time

import pytest
from playing import COURIER, failures, play, run, same, start, traces

from automem.models import make_model
from automem.serve.faults import Faults
from automem.serve.server import build_app, running

SEEDS = "0-4"
RUN = ["run", "courier/small", "-S", "courier-v1", "--seeds", SEEDS, "-j", 4, "--json", "-o", "run"]
PLAY = [*RUN, "-m", COURIER, "--max-steps", 120]


def table(text):
    """The table printed as JSON."""
    return json.loads(text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An undisturbed run, and its table."""
    folder = tmp_path_factory.mktemp("whole")
    code, out, err = run(*PLAY, cwd=folder)
    assert code == 0, err
    return folder / "run", table(out)


def wait_for_steps(folder, process, size=0):
    """Until more than `size` bytes of traces are written."""
    deadline = time.monotonic() + 30
    while sum(path.stat().st_size for path in folder.rglob("*.jsonl")) <= size:
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_leaves_a_run_that_can_be_resumed(whole, tmp_path, number):
    with start(*PLAY, cwd=tmp_path) as process:
        wait_for_steps(tmp_path, process, 50_000)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "interrupted; the same command goes on with run"
    assert "Traceback" not in err
    assert out == ""
    assert traces(tmp_path / "run") != traces(whole[0])
    code, out, err = run(*PLAY, cwd=tmp_path)
    assert (code, table(out)) == (0, whole[1])
    assert "going on at step" in err
    assert same(tmp_path / "run", whole[0])


@pytest.mark.slow
def test_killed_twenty_times_at_any_moment(whole, tmp_path):
    chance = random.Random(11)
    finished = 0
    for _ in range(20):
        process = start(*PLAY, cwd=tmp_path)
        try:
            process.communicate(timeout=chance.uniform(0.05, 1.2))
            finished += 1
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
    code, out, err = run(*PLAY, cwd=tmp_path)
    assert (code, table(out)) == (0, whole[1]), err
    assert same(tmp_path / "run", whole[0])
    assert finished < 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_killed_once_while_playing(whole, tmp_path, seed):
    size = sum(path.stat().st_size for path in whole[0].rglob("*.jsonl"))
    with start(*PLAY, cwd=tmp_path) as process:
        wait_for_steps(tmp_path, process, random.Random(seed).uniform(0, 0.9) * size)
        process.kill()
    code, out, err = run(*PLAY, cwd=tmp_path)
    assert (code, table(out)) == (0, whole[1]), err
    assert same(tmp_path / "run", whole[0])


def small_disk(size):
    """For a child process: no file may grow larger than `size` bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_full_disk_is_an_error_and_the_run_can_be_resumed(whole, tmp_path):
    code, out, err = run(*PLAY, cwd=tmp_path, prepare=small_disk(60_000))
    assert (code, out) == (1, "")
    assert "error: cannot write run/traces/courier/small/" in err
    assert "Traceback" not in err
    code, out, err = run(*PLAY, cwd=tmp_path)
    assert (code, table(out)) == (0, whole[1]), err
    assert same(tmp_path / "run", whole[0])


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 100, 400])
def test_a_disk_that_is_full_from_the_start(whole, tmp_path, size):
    code, out, err = run(*PLAY, cwd=tmp_path, prepare=small_disk(size))
    assert (code, out) == (1, "")
    assert "error: cannot write run/" in err
    assert "Traceback" not in err
    code, out, err = run(*PLAY, cwd=tmp_path)
    assert (code, table(out)) == (0, whole[1]), err
    assert same(tmp_path / "run", whole[0])


def asked(url):
    return [*RUN, "-m", "openai:courier", "--base-url", url, "-s", "model.retries=0", "-s", "model.timeout=10"]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """An undisturbed run against a server, and its table."""
    folder = tmp_path_factory.mktemp("served")
    with running(build_app({"courier": make_model(COURIER, {})})) as url:
        code, out, err = run(*asked(url), "--max-steps", 12, cwd=folder)
    assert code == 0, err
    return folder / "run", table(out)


def test_an_endpoint_that_dies_and_comes_back(served, tmp_path):
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().strip()
        code, out, err = run(*asked(url), "--max-steps", 12, cwd=tmp_path)
        assert server.wait(timeout=30) == 3
    assert code == 1
    assert "error: " in err
    assert " of 5 episodes failed; the first: openai:courier at http://" in err
    (row,) = table(out)["rows"]
    (undisturbed,) = served[1]["rows"]
    assert row["failures"] == {"model": row["failed"]}
    assert (row["n"] + row["failed"], row["failed"] > 0) == (5, True)
    assert row["n"] > 0 or row["mean"] is None
    with running(build_app({"courier": make_model(COURIER, {})})) as url:
        code, out, err = run(*asked(url), "--max-steps", 12, cwd=tmp_path)
    assert (code, table(out)["rows"]) == (0, [undisturbed]), err
    assert without_cache(tmp_path / "run") == without_cache(served[0])


SERVER = """
from automem.models import make_model
from automem.serve.faults import Faults
from automem.serve.server import serve

serve(make_model("scripted:courier", {}), port=0, faults=Faults(die_after=60), announce=lambda u: print(u, flush=True))
"""


def without_cache(out):
    """Traces without what the server's cache held, which depends on the order of all calls."""

    def bare(value):
        if isinstance(value, dict):
            return {key: bare(item) for key, item in value.items() if key not in ("cached", "retries")}
        return [bare(item) for item in value] if isinstance(value, list) else value

    found = traces(out)
    return {name: [bare(json.loads(line)) for line in text.splitlines()] for name, text in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults",
    ["status=503:0.2,status=429:0.1,retry_after=0", "status=500:0.1,cut=0.05,malformed=0.05,empty=0.05"],
)
def test_faults_that_pass_leave_no_mark(served, tmp_path, faults):
    faults = Faults.parse(faults)
    with running(build_app({"courier": make_model(COURIER, {})}, faults)) as url:
        command = [*RUN, "-m", "openai:courier", "--base-url", url, "-s", "model.retries=9", "--max-steps", 12]
        code, out, err = run(*command, cwd=tmp_path)
    assert code == 0, err
    (row,) = table(out)["rows"]
    assert (row["n"], row["failed"]) == (5, 0)
    assert without_cache(tmp_path / "run") == without_cache(served[0])


def test_no_key_and_no_environment_variable_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("MARK", "mark-4711")
    with running(build_app({"courier": make_model(COURIER, {})})) as url:
        model = make_model("openai:courier", {"base_url": url})
        played = play(tmp_path / "run", model="openai:courier", models={"gameplay": model}, steps=2)
    assert failures(played) == []
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert b"openai:courier" in written
    assert b"sk-very-secret" not in written
    assert b"mark-4711" not in written
