"""10,000 steps of NetHack: bytes a step, and a kill -9 in the middle after which the trace is the same."""

import json
import subprocess
import sys
import time
from pathlib import Path

from common import config_of, play, table, temporary_run, trace_of
from trace_size import PLACES, bytes_per_step

STEPS = 10_000
#: A valkyrie, picked because the policy lives that long with it; with most seeds it does not.
SEED = 20


def child(folder):
    """Play, or go on with, the episode in `folder`."""
    play(folder, *config_of("nethack", "default", "nethack-v2", "scripted:explorer", [SEED], STEPS))


def killed_in_the_middle(folder):
    """Start the episode in a process of its own and kill -9 it past half of the steps; steps it had written."""
    process = subprocess.Popen([sys.executable, sys.argv[0], str(folder)])
    while True:
        time.sleep(0.2)
        traces = list((folder / "traces").rglob("*.jsonl"))
        written = sum(1 for _ in traces[0].open("rb")) - 1 if traces else 0
        if written > STEPS // 2 or process.poll() is not None:
            break
    process.kill()
    process.wait()
    return written


def without_timings(path):
    """The lines of a trace as data, timings left out."""

    def stripped(value):
        if isinstance(value, dict):
            return {key: stripped(inner) for key, inner in value.items() if key != "seconds"}
        return [stripped(inner) for inner in value] if isinstance(value, list) else value

    with path.open() as file:
        return [stripped(json.loads(line)) for line in file]


def main():
    with temporary_run() as whole, temporary_run() as broken:
        child(whole)
        written = killed_in_the_middle(broken)
        child(broken)
        one, other = trace_of(whole), trace_of(broken)
        steps = len(without_timings(one)) - 2
        at = bytes_per_step(one)
        same = without_timings(one) == without_timings(other)
    table(
        "NetHack, nethack-v2, scripted:explorer: trace bytes a step, mean of 100 steps around step …",
        ("steps", *(f"{place:,}" for place in PLACES), "last/first"),
        (steps, *at, at[-1] / at[0]),
    )
    table("Killed and resumed", ("killed after step", "same trace, timings aside"), (written, "yes" if same else "NO"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(Path(sys.argv[1]))
    else:
        main()
