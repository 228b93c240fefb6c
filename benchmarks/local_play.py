"""What batches and the prefix cache are worth to a local model: the pocket model under `courier-v0`, 40 steps."""

import time

import torch
from common import config_of, play, table, temporary_run

from automem.models import decoding
from automem.models.prefix_cache import PrefixCache

STEPS = 40
GAMES = 32


def cpu_a_step(jobs, cache):
    """CPU ms a step of games that are played `jobs` at a time."""
    decoding.PrefixCache = PrefixCache if cache else lambda: PrefixCache(most=0)
    config, scaffold = config_of("courier", "small", "courier-v0", "local:pocket", range(GAMES), STEPS)
    began = time.process_time()
    with temporary_run() as folder:
        play(folder, config, scaffold, jobs=jobs)
    return 1000 * (time.process_time() - began) / (GAMES * STEPS)


if __name__ == "__main__":
    torch.set_num_threads(1)
    cpu_a_step(GAMES, cache=True)
    rows = [(f"-j {jobs}", cpu_a_step(jobs, cache=False), cpu_a_step(jobs, cache=True)) for jobs in (1, 8, 32)]
    table(
        "local:pocket, courier-v0: CPU ms a step",
        ("", "prompts read whole", "with the prefix cache", "ratio"),
        *((name, whole, cached, whole / cached) for name, whole, cached in rows),
    )
