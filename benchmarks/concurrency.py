"""Many episodes at once: CPU a step at -j 1 and -j 16, over HTTP with a slow model; memory of 100 in flight.

Over HTTP, `automem serve` answers with `scripted:courier` after 50 ms, in a process of its own.
"""

import contextlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from common import Timed, config_of, in_subprocess, peak_mb, play, table, temporary_run

from automem.models import make_model
from automem.trace import TraceReader

DELAY = 0.05
#: Episodes in flight -> episodes and steps that are played.
LOADS = {1: (1, 100), 16: (16, 100)}


class Count:
    """A watcher that counts steps and notes how many episodes were in flight at most."""

    def __init__(self):
        self.steps = self.flying = self.most = 0

    def started(self, spec, steps, max_steps):
        self.flying += 1
        self.most = max(self.most, self.flying)

    def stepped(self, spec, step):
        self.steps += 1

    def finished(self, spec, result):
        self.flying -= 1


@contextlib.contextmanager
def slow_server():
    """The base URL of `automem serve` with a delay."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    automem = Path(sys.executable).with_name("automem")
    command = [automem, "serve", "scripted:courier", "--port", str(port), "--faults", f"delay={DELAY}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", server)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait()


def wait_for(url, server):
    """Return once `url` answers."""
    while True:
        assert server.poll() is None, "the server has ended"
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except urllib.error.URLError:
            time.sleep(0.1)
        else:
            return


def child(where, jobs):
    """Play one load; prints steps, calls, seconds, CPU seconds less the policy's own, and the most in flight."""
    episodes, steps = LOADS[jobs]
    name, settings = ("openai:any", {"base_url": where}) if where != "here" else ("scripted:courier", {})
    config, scaffold = config_of("courier", "small", "courier-v0", name, range(episodes), steps, {})
    model = make_model(name, settings)  # imports the client's library before the clock starts
    timed = Timed(model)
    count = Count()
    with temporary_run() as folder:
        wall, cpu = time.perf_counter(), time.process_time()
        play(folder, config, scaffold, model if settings else timed, count, jobs)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu - timed.seconds
        traces = (folder / "traces").rglob("*.jsonl")
        calls = sum(len(step.calls) for path in traces for step in TraceReader(path).steps())
    print(count.steps, calls, wall, cpu, count.most)


def measured(where, jobs):
    """Figures of a child process."""
    steps, calls, wall, cpu, most = map(float, in_subprocess("load", where, jobs).split())
    assert most == jobs
    return steps, calls, wall, cpu


def hundred(where):
    """100 Courier episodes in flight at once; prints how many were, steps and peak memory."""
    config, scaffold = config_of("courier", "small", "courier-v0", "openai:any", range(100), 40)
    count = Count()
    with temporary_run() as folder:
        play(folder, config, scaffold, make_model("openai:any", {"base_url": where}), count, 100)
    print(count.most, count.steps, peak_mb())


def main():
    rows = []
    with slow_server() as url:
        for where, label in (("here", "in process"), (url, "HTTP, 50 ms")):
            for jobs in LOADS:
                steps, calls, wall, cpu = measured(where, jobs)
                rows.append((label, jobs, steps, calls, wall, cpu, calls))
        flying, steps, peak = map(float, in_subprocess("hundred", url).split())
    local = {jobs: cpu / steps for label, jobs, steps, _, _, cpu, _ in rows if label == "in process"}
    slow = {jobs: steps / wall for label, jobs, steps, _, wall, _, _ in rows if label != "in process"}
    table(
        "courier/small, courier-v0, scripted:courier (its own CPU taken off where it runs in process)",
        ("model", "-j", "steps", "steps/s", "CPU ms a step", "calls a step", "HTTP client CPU ms a call"),
        *(
            (label, jobs, int(steps), steps / wall, cpu / steps * 1000, calls / steps, client(local, *row))
            for row in rows
            for label, jobs, steps, calls, wall, cpu, _ in [row]
        ),
    )
    print(f"\n  Over HTTP -j 16 plays {slow[16] / slow[1]:.1f} times as many steps a second as -j 1.")
    print(f"  {flying:.0f} episodes in flight over HTTP, {steps:.0f} steps: peak RSS {peak:.0f} MB.")


def client(local, label, jobs, steps, calls, wall, cpu, _):
    """CPU milliseconds a call over what the same steps take in process."""
    return "" if label == "in process" else (cpu - local[jobs] * steps) / calls * 1000


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["load", where, jobs]:
            child(where, int(jobs))
        case ["hundred", where]:
            hundred(where)
        case _:
            main()
