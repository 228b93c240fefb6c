"""Rows that come, grow and go must have the logits that they have alone, wherever their keys and values lie by then."""

import random

import numpy as np
import pytest

from automem.models.companions import hide_broken

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'automem[local]'")
hide_broken()

from transformers import Qwen2Config, Qwen2ForCausalLM  # noqa: E402 - behind the skip

from automem.errors import ModelFailure  # noqa: E402
from automem.models import key_values  # noqa: E402
from automem.models.batching import Batch  # noqa: E402
from automem.models.decoding import Asked, Decoder  # noqa: E402
from automem.models.prefix_cache import PrefixCache  # noqa: E402

WORDS = 50


def model(attention="sdpa", **changes):
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=WORDS,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        attn_implementation=attention,
        **{"num_key_value_heads": 2, **changes},
    )
    return Qwen2ForCausalLM(config).double().eval()


SLIDING = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}


@pytest.mark.parametrize("changes", [{}, SLIDING, {"num_key_value_heads": 4}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_a_row_is_what_it_is_alone(monkeypatch, changes, seed):
    monkeypatch.setattr(key_values, "_ROOM", 3)
    plain, fast = model(**changes), model(**changes)
    key_values.group_queries(fast)
    chance = random.Random(seed)
    rows: list[list[int]] = []

    def words(most):
        return [chance.randrange(WORDS) for _ in range(chance.randint(1, most))]

    def alone(row):
        return plain(input_ids=torch.tensor([row])).logits[0, -1].numpy()

    with torch.inference_mode():
        batch = Batch(fast, PrefixCache(most=20_000))
        for _ in range(25):
            if not rows or chance.random() < 0.4:
                shared = chance.choice([*rows, []])[:9]
                fresh = [shared + words(chance.choice([3, 12, 30])) for _ in range(chance.randint(1, 4))]
                rows += fresh
                found = batch.read(fresh)
                assert found == pytest.approx(np.stack([alone(row) for row in fresh]), abs=1e-9)
            elif chance.random() < 0.6:
                further = [chance.randrange(WORDS) for _ in rows]
                rows = [[*row, word] for row, word in zip(rows, further, strict=True)]
                assert batch.step(further) == pytest.approx(np.stack([alone(row) for row in rows]), abs=1e-9)
            else:
                kept = [number for number in range(len(rows)) if chance.random() < 0.7]
                rows = [rows[number] for number in kept]
                batch.keep(kept)


def test_a_request_whose_logits_are_no_numbers_fails_alone():
    broken = model()
    broken.model.embed_tokens.weight.data[7] = float("nan")
    decoder = Decoder(broken, ends=())
    given = {"room": 4, "temperature": 0, "top_p": 1, "batch": 2, "seed": 0}
    bad, good, late = (Asked(ids=ids, **given) for ids in ([1, 7, 2], [3, 4], [5]))
    decoder.add(bad)
    decoder.add(good)
    with torch.inference_mode():
        decoder.step()
        decoder.add(late)
        while decoder.busy:
            decoder.step()
    with pytest.raises(ModelFailure, match="no numbers"):
        bad.done.result()
    assert [len(asked.said) for asked in (good, late)] == [4, 4]


def test_memory_is_given_back_when_all_rows_have_gone():
    batch = Batch(model(), PrefixCache())
    with torch.inference_mode():
        batch.read([[1, 2, 3], [4, 5]])
        assert batch._slots._keys_values.untyped_storage().nbytes() > 0
        batch.keep([])
        assert batch._slots._keys_values.untyped_storage().nbytes() == 0


def test_only_models_with_the_attention_of_pytorch_are_changed():
    for attention, after in (("sdpa", "automem_grouped"), ("eager", "eager")):
        made = model(attention)
        key_values.group_queries(made)
        assert made.config._attn_implementation == after
