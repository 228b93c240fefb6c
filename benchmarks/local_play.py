"""What batches, the prefix cache and keys and values that stay in place are worth to a local model.

The pocket model under `courier-v0`, 40 steps; and its next token, with `Batch` and with what transformers has for it.
"""

import time

import torch
from common import config_of, play, table, temporary_run
from transformers import AutoModelForCausalLM, DynamicCache

from automem.models import decoding
from automem.models.batching import Batch
from automem.models.key_values import group_queries
from automem.models.place import Place
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


def next_token(rows, tokens):
    """CPU ms of a further token for `rows` rows of so many tokens: the usual way, and with `Batch`."""
    folder = Place.read("pocket").base
    usual, ours = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval() for _ in range(2))
    group_queries(ours)
    prompts = [[1] * (tokens - row % 2) for row in range(rows)]
    ids, mask = torch.ones(rows, tokens, dtype=torch.long), torch.ones(rows, tokens, dtype=torch.long)
    mask[1::2, 0] = 0
    cache, batch = DynamicCache(), Batch(ours, PrefixCache(most=0))
    with torch.inference_mode():
        usual(input_ids=ids, attention_mask=mask, past_key_values=cache, logits_to_keep=1)
        batch.read(prompts)

        def as_usual():
            nonlocal mask
            mask = torch.cat([mask, mask[:, -1:]], dim=1)
            usual(input_ids=ids[:, :1], attention_mask=mask, past_key_values=cache, logits_to_keep=1)

        return [_cpu(as_usual), _cpu(lambda: batch.step([1] * rows))]


def _cpu(step, times=30):
    step()
    began = time.process_time()
    for _ in range(times):
        step()
    return 1000 * (time.process_time() - began) / times


if __name__ == "__main__":
    torch.set_num_threads(1)
    table(
        "local:pocket: CPU ms of a further token",
        ("", "transformers' cache and attention", "in place, heads together", "ratio"),
        *(
            (f"{rows} rows of {tokens} tokens", usual, ours, usual / ours)
            for rows, tokens in ((1, 300), (8, 300), (32, 300), (32, 600))
            for usual, ours in [next_token(rows, tokens)]
        ),
    )
    cpu_a_step(GAMES, cache=True)
    rows = [(f"-j {jobs}", cpu_a_step(jobs, cache=False), cpu_a_step(jobs, cache=True)) for jobs in (1, 8, 32)]
    table(
        "local:pocket, courier-v0: CPU ms a step",
        ("", "prompts read whole", "with the prefix cache", "ratio"),
        *((name, whole, cached, whole / cached) for name, whole, cached in rows),
    )
