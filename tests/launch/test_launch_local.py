"""The same scripts on this machine: order, failures, going on, servers, and what a job leaves behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made import cluster, job, served

from automem.errors import RunError, UsageError
from automem.launch import folder as folders
from automem.launch import local, resubmit
from automem.launch.cluster import shipped
from automem.launch.plan import plan
from automem.launch.status import look


@pytest.fixture
def launch(tmp_path, monkeypatch):
    """Makes a local launch in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def make(*jobs, **site):
        made = cluster(**site)
        return folders.make(tmp_path / "out", "made", None, "made", made, plan(jobs, made, sys.maxsize), "local")

    return make


def note(text, code=0):
    """A command that leaves a note in order.txt."""
    return ("bash", "-c", f"echo {text} >> order.txt; exit {code}")


def run(made, told=None):
    local.run_all(made, (told if told is not None else []).append)


def order():
    return Path("order.txt").read_text().split()


def log(made, name, number=0, attempt=1, file="job.log"):
    return (made.job(name) / f"logs/{number}/attempt_{attempt}/{file}").read_text()


def states(made):
    return {status.name: [element.state for element in status.elements] for status in look(made)}


def test_jobs_run_in_order_and_once(launch):
    made = launch(job("b", [note("b")], needs=("a",)), job("a", [note("a0"), note("a1")]))
    told = []
    run(made, told)
    assert order() == ["a0", "a1", "b"]
    assert told == ["a: 1 of 2", "a: 2 of 2", "b: 1 of 1", "all 2 jobs are completed"]
    run(made)
    assert order() == ["a0", "a1", "b"]
    assert states(made) == {"a": ["completed", "completed"], "b": ["completed"]}


def test_a_failure_passes_over_what_needs_it_and_can_be_mended(launch):
    jobs = (
        job("a", [("bash", "-c", "echo a >> order.txt; echo it is broken; test -e mended"), note("a1")]),
        job("b", [note("b")], needs=("a",)),
        job("table", [note("table")], "aggregate", needs=("a", "b")),
    )
    made = launch(*jobs)
    with pytest.raises(RunError, match="1 of 3 jobs failed and 1 passed over; the first, a: task 0 ended") as caught:
        run(made)
    assert "automem job logs" in caught.value.hint
    assert order() == ["a", "a1", "table"]
    assert "task 0: exit code 1; the end of its log:\n    it is broken\n" in log(made, "a")
    assert states(made) == {"a": ["failed", "completed"], "b": ["unstarted"], "table": ["completed"]}
    assert resubmit.owed(look(made), failed=True) == {"a": [0], "b": [0], "table": [0]}
    Path("mended").touch()
    run(made)
    assert order() == ["a", "a1", "table", "a", "b", "table"]
    assert log(made, "a", attempt=2) != log(made, "a")


def test_of_a_job_without_episodes_none_are_told(launch, monkeypatch):
    monkeypatch.setattr(local, "_TOLD", 0.05)
    play = ("automem", "run", "courier/small", "-S", "courier-v1", "-m", "scripted:null", "-o", "run")
    told = []
    run(launch(job("train", [("sleep", "1")]), job("play", [play])), told)
    life = [line for line in told if line.endswith(" s")]
    assert [line for line in life if line.startswith("train") and re.fullmatch(r"train: \d+ s", line)]
    assert [line for line in life if line.startswith("play") and re.fullmatch(r"play: \d of 1 episodes, \d+ s", line)]
    assert not any("0 of 0" in line for line in life)


def test_one_at_a_time(launch):
    made = launch(job())
    with local.locked(made.path / "launch.lock"), pytest.raises(UsageError, match="is being written by pid"):
        run(made)


def test_the_code_is_that_of_the_launch(launch, tmp_path):
    """What changes in the checkout or the working directory does not reach a job."""
    folder = tmp_path / "scaffolds/mine"
    subprocess.run([*AUTOMEM, "scaffold", "new", "mine", "--from", "courier-v1"], check=True, capture_output=True)
    command = ("automem", "run", "courier/small", "-S", "mine", "-m", "scripted:courier", "--max-steps", "2")
    made = launch(job("play", [(*command, "-o", "run")]))
    before = (folder / "scaffold.yaml").read_text()
    (folder / "scaffold.yaml").write_text("name: broken\n")
    (tmp_path / "automem").mkdir()
    run(made)
    assert (tmp_path / "run/scaffold/scaffold.yaml").read_text() == before
    assert (made.path / "snapshot/automem/errors.py").is_file()


AUTOMEM = [sys.executable, "-c", "from automem.cli.main import main; main()"]


@pytest.mark.parametrize("variable", ["SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID"])
def test_variables_of_an_allocation_do_not_count(launch, monkeypatch, variable):
    monkeypatch.setenv(variable, "4711")
    made = launch(job("play", [("bash", "-c", f'test -z "${variable}"')]))
    run(made)
    assert look(made)[0].elements[0].own.slurm_id == ""


def test_caches_are_those_of_the_job_and_go_with_it(launch):
    made = launch(job("play", [("bash", "-c", "echo $TMPDIR $TRITON_CACHE_DIR > seen; mktemp")]), scratch="/tmp")
    run(made)
    folder, triton = Path("seen").read_text().split()
    assert folder.startswith("/tmp/automem.") and triton.startswith(folder)
    assert not Path(folder).exists()


def test_a_shell_that_is_killed_takes_its_processes_with_it(launch):
    """As the last thing that can happen to a job: its trap does not run."""
    made = launch(served("scripted:courier", tasks=[("sleep", "600")]))
    with subprocess.Popen(["bash", made.job("play") / "job.sh"], stdout=subprocess.PIPE, text=True) as shell:
        try:
            wait_for(lambda: b"sleep\x00600\x00" in left_behind(made), shell)
            assert len(left_behind(made)) >= 2
        finally:
            shell.kill()
    wait_for(lambda: not left_behind(made))


def test_setup_that_fails_is_told(launch):
    made = launch(job(), setup={"commands": ["return 3"]})
    with pytest.raises(RunError, match="the setup of the job failed"):
        run(made)
    assert look(made)[0].elements[0].exit_code == 70


def left_behind(made):
    mark = f"JOB_FOLDER={made.path}/".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes())
        except OSError:
            continue
    return found


def test_children_and_daemons_go_with_the_job(launch):
    daemon = "setsid sleep 600 & sleep 601 & echo started"
    made = launch(job("play", [("bash", "-c", daemon)]))
    run(made)
    assert log(made, "play", file="task-0.log") == "started\n"
    assert left_behind(made) == []


def test_stopping_stops_all_and_the_same_command_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments/mine").mkdir(parents=True)
    (tmp_path / "experiments/mine/experiment.yaml").write_text(EXPERIMENT)
    command = [*AUTOMEM, "launch", "mine", "--on", "local", "-o", "out"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: list(tmp_path.rglob("traces/**/*.jsonl")), process)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == "interrupted; the same command goes on with out"
    made = folders.LaunchFolder.read(tmp_path / "out")
    assert left_behind(made) == []
    assert states(made) == {"play": ["interrupted"], "table": ["unstarted"]}
    watched = subprocess.run([*AUTOMEM, "job", "watch", "out", "--exit-when-done"], capture_output=True, text=True)
    assert watched.returncode == 1
    assert "play/0 interrupted" in watched.stderr
    assert watched.stderr.endswith(" `automem job resubmit out --failed` goes on\n")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "going on at step" in log(made, "play", attempt=2, file="task-0.log")


EXPERIMENT = """\
about: one long episode
models: {scripted: "scripted:courier"}
games: {courier: {play: courier/huge, seeds: "0", limits: {max_steps: 4000}}}
agents: {v1: {scaffold: courier-v1, model: scripted}}
stages: {play: {do: evaluate, games: [courier], agents: [v1]}}
"""


def wait_for(condition, process=None):
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        assert process is None or process.poll() is None
        time.sleep(0.02)


def test_a_server_is_started_asked_and_gone(launch):
    ask = (
        "from os import environ as e; from urllib.request import urlopen as u; u(e['AUTOMEM_RUN_BASE_URL'] + '/models')"
    )
    made = launch(served("scripted:courier", tasks=[(sys.executable, "-c", ask)]))
    run(made)
    assert "the server is healthy after" in log(made, "play")
    assert left_behind(made) == []


@pytest.mark.parametrize(
    ("faults", "deadline", "code", "reason"),
    [
        ("die_at=4", 60, 72, "the server died"),
        ("loading=30,die_at=0", 60, 71, "the server died while loading"),
        ("loading=60", 2, 73, "the server is not healthy in 2 s"),
        ("sick_after=0", 2, 73, "the server is not healthy in 2 s"),
    ],
)
@pytest.mark.slow
def test_a_server_that_fails_ends_the_job_with_its_own_code(launch, faults, deadline, code, reason):
    made = launch(served("scripted:courier", tasks=[("sleep", "600")]), server={"faults": faults, "deadline": deadline})
    with pytest.raises(RunError, match=f"the first, play: {reason}"):
        run(made)
    assert look(made)[0].elements[0].exit_code == code
    assert f"{reason}; the end of its log" in log(made, "play")
    assert left_behind(made) == []


def test_a_port_that_is_taken_is_passed_over(launch, tmp_path):
    """Someone without our locks sits on the job's port: the next block is taken."""
    made = launch(served("scripted:courier", tasks=[("true",)]))
    script = made.job("play") / "job.sh"
    # The port follows from the job's id.
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 11000 + 20 * 777))
        other.listen()
        environment = {**os.environ, "SLURM_JOB_ID": "5000777"}
        done = subprocess.run(
            ["bash", script], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode == 0, done.stdout
    assert re.findall(r"starts on port (\d+)", log(made, "play")) == [str(11000 + 20 * 778)]


def test_two_jobs_with_one_id_get_two_ports(launch):
    jobs = [served("scripted:courier", name=name, tasks=[("sleep", "3")]) for name in ("a", "b")]
    made = launch(*jobs)
    environment = {**os.environ, "SLURM_JOB_ID": "5000123"}
    running = [subprocess.Popen(["bash", made.job(name) / "job.sh"], env=environment) for name in ("a", "b")]
    assert [process.wait(300) for process in running] == [0, 0]
    ports = [re.findall(r"starts on port (\d+)", log(made, name)) for name in ("a", "b")]
    assert sorted(ports) == [[str(11000 + 20 * 123)], [str(11000 + 20 * 124)]]


@pytest.mark.parametrize(("ranks", "room"), [([8], 8), ([9], 16), ([16, 64], 64), ([300], 320)])
def test_room_for_adapters_follows_from_their_ranks(tmp_path, ranks, room):
    for number, rank in enumerate(ranks):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "adapter_config.json").write_text(f'{{"lora_alpha": 2, "r": {rank}, "bias": "none"}}')
    library = shipped() / "lib/server.sh"
    asked = ["bash", "-c", f'. "{library}"; lora_rank "$@"', "-", *sorted(tmp_path.iterdir())]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == f"{room}\n"
