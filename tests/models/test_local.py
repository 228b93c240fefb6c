"""Local models: the same reply whatever shares the batch, one copy of the weights, adapters, clear refusals."""

import asyncio
import json
import re
import shutil

import numpy as np
import pytest
import tiny

from automem.errors import ModelFailure, UsageError
from automem.grammar import reply_pattern
from automem.models import decoding, local, make_model, model_spec
from automem.models.base import Request
from automem.models.batching import Batch
from automem.models.prefix_cache import PrefixCache

pytest.importorskip("torch", reason="torch is not installed: pip install 'automem[local]'")
pytestmark = pytest.mark.local

CHATS = [
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x" * n + " where is the lamp?"}]
    for n in (0, 3, 17, 40, 1, 9, 80, 2)
]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.save_model(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def adapter(base, tmp_path_factory):
    return tiny.save_adapter(base, tmp_path_factory.mktemp("adapter"))


def request(seed=7, **changes):
    values = {"role": "memory", "phase": "plan", "env": "e", "task": "t", "seed": 0, "step": 3, "call": 1}
    return Request(**{**values, "sampling_seed": seed, **changes})


async def replies(name, chats=CHATS, together=True, **settings):
    """Texts and usages of `chats`, in one batch or one after the other."""
    model = make_model(f"local:{name}", {"max_tokens": 24, **settings})
    try:
        calls = [model.generate(chat, request(seed)) for seed, chat in enumerate(chats)]
        found = await asyncio.gather(*calls) if together else [await call for call in calls]
    finally:
        await model.close()
    return [(completion.text, completion.usage, completion.finish_reason) for completion in found]


@pytest.mark.parametrize("settings", [{}, {"temperature": 0}, {"temperature": 0.7, "top_p": 0.9}])
async def test_a_reply_depends_on_nothing_that_shares_its_batch(base, settings):
    together = await replies(base, **settings)
    assert len({text for text, _, _ in together}) > 4
    assert together == await replies(base, together=False, **settings)
    assert together == await replies(base, batch=3, **settings)
    assert list(reversed(together))[:1] == [together[-1]]


async def test_the_seed_decides_and_greedy_has_none(base):
    model = make_model(f"local:{base}", {"max_tokens": 24})
    greedy = make_model(f"local:{base}", {"max_tokens": 24, "temperature": 0})
    one, same, other = [await model.generate(CHATS[0], request(seed)) for seed in (1, 1, 2)]
    assert one.text == same.text != other.text
    first, second = [await greedy.generate(CHATS[0], request(seed)) for seed in (1, 2)]
    assert first.text == second.text
    await model.close()
    await greedy.close()


async def test_usage_is_counted_and_the_reply_has_an_end(base):
    ((_, usage, reason),) = await replies(base, CHATS[:1], max_tokens=5)
    text = "<|system|>Be brief.<|eot|><|user|> where is the lamp?<|eot|><|assistant|>"
    marks = text.count("|>")
    assert usage.prompt == marks + len("Be brief. where is the lamp?")
    assert (usage.completion, usage.estimated, reason) == (5, False, "length")


async def test_a_prompt_that_does_not_fit_is_not_computed(base):
    model = make_model(f"local:{base}", {})
    with pytest.raises(ModelFailure, match=r"a prompt of 2\d\d tokens leaves \d+ of 256"):
        await model.generate([{"role": "user", "content": "x" * 245}], request())
    completion = await model.generate([{"role": "user", "content": "x" * 230}], request())
    assert completion.usage.completion <= 256 - completion.usage.prompt
    await model.close()


def weights(model):
    """Where the weights of each adapter, and of none, are in memory."""
    return [
        {p.data_ptr() for p in worker.decoder._batch._model.parameters()} for worker in model._base._workers.values()
    ]


async def test_models_of_one_path_share_the_weights(base, adapter, monkeypatch):
    monkeypatch.setattr(local, "SMALL_PARAMETERS", 0)
    plain = make_model(f"local:{base}", {})
    special = make_model(f"local:{base}+{adapter}", {"temperature": 0})
    assert plain._base is special._base
    alone, adapted = weights(plain)
    assert alone < adapted
    await plain.close()
    assert (await special.generate(CHATS[0], request())).usage.completion > 0
    await special.close()
    again = make_model(f"local:{base}", {})
    assert again._base is not special._base
    await again.close()
    with pytest.raises(ModelFailure, match="closed"):
        await again.generate(CHATS[0], request())


async def test_of_a_small_model_each_adapter_has_a_merged_copy(base, adapter, monkeypatch):
    merged = make_model(f"local:{base}+{adapter}", {"max_tokens": 24})
    alone, adapted = weights(merged)
    assert len(alone) == len(adapted)
    assert not alone & adapted
    small = [(await merged.generate(chat, request(n))).text for n, chat in enumerate(CHATS)]
    await merged.close()
    monkeypatch.setattr(local, "_is_small", lambda model: False)
    beside = make_model(f"local:{base}+{adapter}", {"max_tokens": 24})
    beside._base._workers = {
        name: local._Worker(decoding.Decoder(worker.decoder._batch._model.double(), worker.decoder._ends))
        for name, worker in beside._base._workers.items()
    }
    assert [(await beside.generate(chat, request(n))).text for n, chat in enumerate(CHATS)] == small
    await beside.close()


async def test_an_adapter_that_is_no_lora_or_has_biases_is_refused(base, adapter, tmp_path):
    for number, (changes, told) in enumerate([({"peft_type": "IA3"}, "kind IA3"), ({"bias": "all"}, "bias: all")]):
        other = shutil.copytree(adapter, tmp_path / str(number))
        config = json.loads((other / "adapter_config.json").read_text())
        (other / "adapter_config.json").write_text(json.dumps(config | changes))
        with pytest.raises(UsageError, match=told):
            make_model(f"local:{base}+{other}", {})
    assert base not in local._BASES


async def test_closing_ends_all_that_is_under_way(base, adapter):
    models = [make_model(f"local:{name}", {"max_tokens": 200}) for name in (base, f"{base}+{adapter}")]
    calls = [asyncio.ensure_future(model.generate(CHATS[0], request(1))) for model in models]
    while not all(worker.decoder.busy for worker in models[0]._base._workers.values()):
        await asyncio.sleep(0.001)
    for model in models:
        await model.close()
    assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*calls, return_exceptions=True))


async def test_an_adapter_changes_its_own_replies_only(base, adapter):
    before = await replies(base)
    changed = await replies(f"{base}+{adapter}")
    assert before != changed
    plain, special = (make_model(f"local:{name}", {"max_tokens": 24}) for name in (base, f"{base}+{adapter}"))
    calls = [model.generate(chat, request(n)) for n, chat in enumerate(CHATS) for model in (plain, special)]
    mixed = [completion.text for completion in await asyncio.gather(*calls)]
    assert mixed[::2] == [text for text, _, _ in before]
    assert mixed[1::2] == [text for text, _, _ in changed]
    await plain.close()
    await special.close()


async def test_two_adapters_of_one_base(base, adapter, tmp_path):
    other = tiny.save_adapter(base, tmp_path / "other", seed=2)
    alone = [await replies(f"{base}+{path}") for path in (adapter, other)]
    models = [make_model(f"local:{base}+{path}", {"max_tokens": 24}) for path in (adapter, other)]
    calls = [model.generate(chat, request(n)) for n, chat in enumerate(CHATS) for model in models]
    mixed = [completion.text for completion in await asyncio.gather(*calls)]
    assert [mixed[::2], mixed[1::2]] == [[text for text, _, _ in found] for found in alone]
    for model in models:
        await model.close()


async def test_the_model_tells_how_long_a_reply_may_be(base, tmp_path):
    terse = shutil.copytree(base, tmp_path / "terse")
    config = terse / "generation_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "max_new_tokens": 5}))
    for settings, longest in (({}, 5), ({"max_tokens": 9}, 9)):
        model = make_model(f"local:{terse}", settings)
        found = await asyncio.gather(*[model.generate(chat, request(n)) for n, chat in enumerate(CHATS)])
        assert max(one.usage.completion for one in found) == longest
        assert {one.finish_reason for one in found if one.usage.completion == longest} == {"length"}
        await model.close()


def test_rows_come_and_go_in_a_batch_and_each_is_computed_as_if_alone(base):
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM

    weights = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64).eval()
    rows = {"long": [5] * 30, "short": [7, 8], "late": [9] * 12}

    def alone(row):
        return Batch(weights, PrefixCache()).read([row])[0]

    batch = Batch(weights, PrefixCache())
    with torch.inference_mode():
        assert batch.read([rows["short"], rows["long"]])[1] == pytest.approx(alone(rows["long"]))
        batch.step([1, 2])
        batch.keep([0])
        assert batch.read([rows["late"]])[0] == pytest.approx(alone(rows["late"]))
        short, late = batch.step([3, 4])
        assert short == pytest.approx(alone([*rows["short"], 1, 3]))
        assert late == pytest.approx(alone([*rows["late"], 4]))
        batch.keep([])
        assert batch.read([rows["long"]])[0] == pytest.approx(alone(rows["long"]))


def test_what_an_earlier_prompt_began_with_is_not_read_again(base, monkeypatch):
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM

    weights = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64).eval()
    read, forward = [], weights.forward

    def counted(**given):
        read.append(tuple(given["input_ids"].shape))
        return forward(**given)

    prompts = [[5] * 20, [5] * 20 + [6] * 4, [5] * 10 + [7, 8], [9, 9], [5] * 20]
    with torch.inference_mode():
        expected = [Batch(weights, PrefixCache()).read([ids])[0] for ids in prompts]
        monkeypatch.setattr(weights, "forward", counted)
        prefixes = PrefixCache()
        Batch(weights, prefixes).read(prompts[:1])
        batch = Batch(weights, prefixes)
        assert [batch.unread(ids) for ids in prompts] == [1, 4, 2, 2, 1]
        found = batch.read(prompts)
        batch.keep([1, 2])
        further = batch.step([1, 2])
        assert read == [(1, 20), (5, 4), (2, 1)]
        alone = [Batch(weights, PrefixCache()).read([[*prompts[row], n]])[0] for row, n in ((1, 1), (2, 2))]
    assert found == pytest.approx(np.stack(expected))
    assert further == pytest.approx(np.stack(alone))


class Rows:
    """In place of `Batch`: every token is 1; remembers what is read, and how many rows there are."""

    def __init__(self, *_):
        self.count, self.reads = 0, []

    def unread(self, ids):
        return len(ids)

    def read(self, prompts):
        self.reads.append((self.count, [tuple(prompt) for prompt in prompts]))
        self.count += len(prompts)
        return np.eye(3)[[1] * len(prompts)]

    def step(self, tokens):
        assert len(tokens) == self.count
        return np.eye(3)[[1] * len(tokens)]

    def keep(self, rows):
        self.count = len(rows)


@pytest.fixture
def decoder(monkeypatch):
    monkeypatch.setattr(decoding, "Batch", Rows)
    return decoding.Decoder(None, ends={2})


def asked(*ids, **changes):
    return decoding.Asked(
        **{"ids": list(ids), "room": 5, "temperature": 0, "top_p": 1, "batch": 4, "seed": 1, **changes}
    )


def test_requests_join_a_batch_when_half_as_many_wait(decoder):
    first = [asked(1), asked(2, 2), asked(3)]
    for one in first:
        decoder.add(one)
    decoder.step()
    late = asked(4), asked(5, 5)
    decoder.add(late[0])
    decoder.step()
    decoder.add(late[1])
    decoder.step()
    assert decoder._batch.reads == [(0, [(1,), (3,), (2, 2)]), (3, [(4,)])]
    while decoder.busy:
        decoder.step()
    assert decoder._batch.reads[2:] == [(1, [(5, 5)])]
    assert [one.said for one in (*first, *late)] == [[1] * 5] * 5
    assert all(one.done.result(0) is None for one in (*first, *late))


def test_what_was_cancelled_is_not_read(decoder):
    found = [asked(n) for n in range(10)]
    for number, one in enumerate(found):
        decoder.add(one)
        if number:
            one.done.cancel()
    decoder.step()
    assert decoder._batch.reads == [(0, [(0,)])]
    decoder.cancel()
    assert found[0].done.cancelled()


def test_a_fault_of_one_grammar_is_told_to_its_request_alone(decoder):
    class Broken:
        def get_tokens(self):
            raise ValueError("no way on")

    broken, sound = asked(1, guide=Broken()), asked(2)
    decoder.add(broken)
    decoder.add(sound)
    while decoder.busy:
        decoder.step()
    with pytest.raises(ValueError, match="no way on"):
        broken.done.result(0)
    assert sound.said == [1] * 5


async def test_closing_ends_what_is_not_answered(base):
    model = make_model(f"local:{base}", {"max_tokens": 200, "batch": 1})
    calls = [asyncio.ensure_future(model.generate(chat, request(n))) for n, chat in enumerate(CHATS)]
    await asyncio.sleep(0.1)
    await model.close()
    told = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)
    assert any(isinstance(one, (asyncio.CancelledError, ModelFailure)) for one in told)


async def test_what_breaks_a_batch_is_told_to_all_who_wait(base, monkeypatch):
    model = make_model(f"local:{base}", {"max_tokens": 24})

    def broken(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr(model._base._model, "forward", broken)
    calls = [model.generate(chat, request(n)) for n, chat in enumerate(CHATS)]
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert {str(error) for error in told} == {"no room"}
    await model.close()


async def test_cancelled_requests_hold_nobody_up(base):
    model = make_model(f"local:{base}", {"max_tokens": 24})
    expected = await replies(base)
    calls = [asyncio.ensure_future(model.generate(chat, request(n))) for n, chat in enumerate(CHATS)]
    await asyncio.sleep(0.01)
    for call in calls[1::2]:
        call.cancel()
    texts = [(await call).text for call in calls[::2]]
    assert texts == [text for text, _, _ in expected[::2]]
    await model.close()


def test_a_model_is_its_weights(base, adapter, tmp_path):
    twin = tiny.save_model(tmp_path / "twin")
    other = tiny.save_model(tmp_path / "other", seed=5)
    weights = [model_spec(f"local:{name}", {}).settings["weights"] for name in (base, twin, other, f"{base}+{adapter}")]
    assert weights[0] == weights[1]
    assert len(set(weights)) == 3
    spec = model_spec(f"local:{base}", {"temperature": 0.5, "batch": 4})
    assert spec.settings["temperature"] == 0.5
    assert "batch" not in spec.settings


def test_an_adapter_is_the_same_wherever_its_base_lies_and_however_its_layers_are_listed(base, adapter, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(adapter, copy)
    config = json.loads((copy / "adapter_config.json").read_text())
    targets = sorted(config["target_modules"], reverse=True)
    moved = {"base_model_name_or_path": "elsewhere", "target_modules": targets}
    (copy / "adapter_config.json").write_text(json.dumps({**config, **moved}))
    assert len(targets) > 1
    weights = [model_spec(f"local:{base}+{path}", {}).settings["weights"] for path in (adapter, copy)]
    assert weights[0] == weights[1]
    (copy / "adapter_config.json").write_text(json.dumps({**config, "lora_alpha": 1}))
    assert model_spec(f"local:{base}+{copy}", {}).settings["weights"] != weights[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "no model at 'local:nowhere'"),
        ("{base}+nowhere", r"local:.*\+nowhere: no adapter at 'nowhere'"),
        ("{base}+", r"local:.*\+: no adapter stands after the \+"),
        ("{base}+{base}", "there is no .*adapter_config.json"),
    ],
)
def test_what_is_not_there_is_named(base, name, message):
    with pytest.raises(UsageError, match=message):
        make_model(f"local:{name.format(base=base)}", {})


def test_wrong_settings_are_named(base):
    with pytest.raises(UsageError, match="temprature"):
        make_model(f"local:{base}", {"temprature": 1})
    with pytest.raises(UsageError, match="top_p"):
        model_spec(f"local:{base}", {"top_p": 2})


def test_a_tokenizer_without_chat_template_is_refused(base, tmp_path):
    for path in base.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(UsageError, match="no chat template"):
        make_model(f"local:{tmp_path}", {})


def test_an_adapter_of_another_base_is_refused(base, adapter, tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    for path in adapter.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    wider = {name: torch.zeros(*[n * 2 for n in w.shape]) for name, w in load_file(tmp_path / SAVED).items()}
    save_file(wider, tmp_path / SAVED)
    with pytest.raises(UsageError, match="does not fit"):
        make_model(f"local:{base}+{tmp_path}", {})


SAVED = "adapter_model.safetensors"


async def test_native_tool_calls_are_refused(base):
    model = make_model(f"local:{base}", {})
    with pytest.raises(ModelFailure, match="no native tool calls"):
        await model.generate(CHATS[0], request(tools=({"type": "function"},)))
    await model.close()


@pytest.mark.parametrize("temperature", [0, 1.0, 3.0])
async def test_a_grammar_makes_even_noise_parse(base, temperature):
    pattern = reply_pattern(["SEARCH", "TAIL", "ACTION"], ["north", "wait"])
    model = make_model(f"local:{base}", {"max_tokens": 60, "temperature": temperature})
    calls = [model.generate(chat, request(n, grammar=pattern)) for n, chat in enumerate(CHATS)]
    for completion in await asyncio.gather(*calls):
        if completion.finish_reason == "stop":
            assert re.fullmatch(pattern, completion.text)
        assert completion.text.startswith(("<|SEARCH|>", "<|TAIL|>", "<|ACTION|>"))
    with pytest.raises(ModelFailure, match="cannot be compiled"):
        await model.generate(CHATS[0], request(grammar="a("))
    await model.close()


async def test_free_and_constrained_requests_share_a_batch(base):
    model = make_model(f"local:{base}", {"max_tokens": 24})
    grammars = ["(north|south)", None] * 4
    calls = [
        model.generate(chat, request(n, grammar=g)) for n, (chat, g) in enumerate(zip(CHATS, grammars, strict=True))
    ]
    found = [completion.text for completion in await asyncio.gather(*calls)]
    assert set(found[::2]) <= {"north", "south"}
    assert found[1::2] == [text for text, _, _ in await replies(base)][1::2]
    await model.close()
