"""10,000 steps of Courier: bytes a step, memory and CPU of playing, of resuming, and of a table of it.

Each of the four is measured in a process of its own.
"""

import sys
import time
from pathlib import Path

from common import config_of, in_subprocess, peak_mb, play, table, temporary_run, trace_of

from automem.play.folder import RunFolder
from automem.results.table import build_table, to_json

STEPS = 10_000
PLACES = (100, 1_000, 9_950)
WINDOW = 100
SCAFFOLDS = ("courier-v0", "courier-v1")


def child(what, scaffold_name, folder):
    """One measurement; prints steps, CPU seconds and MB."""
    config, scaffold = config_of("courier", "huge", scaffold_name, "scripted:courier", max_steps=STEPS)
    began = time.process_time()
    if what == "table":
        to_json(build_table([RunFolder.read(folder)], behaviour=True))
    else:
        play(folder, config, scaffold)
    print(time.process_time() - began, peak_mb())


def measured(what, scaffold_name, folder):
    """CPU seconds and MB of a child process."""
    return tuple(map(float, in_subprocess(what, scaffold_name, folder).split()))


def cut(path, lines):
    """Keep the first `lines` of a trace and half of the next one, as a kill would; bytes kept."""
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:lines]) + whole[lines][: len(whole[lines]) // 2])


def bytes_per_step(path):
    """Mean length of the step lines around each place."""
    lengths = [len(line) for line in path.read_bytes().splitlines(keepends=True)][1:-1]
    return [sum(lengths[at - WINDOW // 2 : at + WINDOW // 2]) / WINDOW for at in PLACES]


def main():
    sizes, costs = [], []
    for scaffold in SCAFFOLDS:
        with temporary_run() as folder:
            played = measured("play", scaffold, folder)
            path = trace_of(folder)
            whole = path.read_bytes()
            at = bytes_per_step(path)
            sizes.append((scaffold, *at, at[-1] / at[0], len(whole) / 1e6))
            tabled = measured("table", scaffold, folder)
            cut(path, STEPS // 2)
            resumed = measured("play", scaffold, folder)
            assert path.stat().st_size > 0.99 * len(whole)
            cut(path, STEPS - 1)
            replayed = measured("play", scaffold, folder)
            costs += [
                (scaffold, "play 10,000 steps", *played),
                (scaffold, "resume at 5,000, play on", *resumed),
                (scaffold, "resume at 9,998", *replayed),
                (scaffold, "table with behaviour", *tabled),
            ]
    table(
        "Courier huge, scripted:courier: trace bytes a step, mean of 100 steps around step …",
        ("scaffold", *(f"{at:,}" for at in PLACES), "last/first", "whole file MB"),
        *sizes,
    )
    table("The same episodes: CPU and peak memory of the process", ("scaffold", "what", "CPU s", "peak RSS MB"), *costs)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    else:
        main()
