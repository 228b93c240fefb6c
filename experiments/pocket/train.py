"""Train the pocket model from scratch: `python experiments/pocket/train.py`.

Teacher's games -> tokenizer -> weights in `--out` (default: the folder in the package). `measure.py` then plays
and decides whether the model is good enough to ship.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import data
import tokens
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM

HERE = Path(__file__).parent
SHIPPED = HERE.parents[1] / "automem/models/pocket"
SIZES = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
#: Share of the texts that a tokenizer does not know -> share of the conversations it writes: the model shall
#: read prompts that were changed a little, too.
SPELLED = {0.1: 0.15, 0.3: 0.04, 1.0: 0.005}
IGNORED = -100
#: Longest reply, in tokens: the teacher's are shorter, and a slip that never ends holds up the whole batch.
LONGEST_REPLY = 64
#: Logits are scaled by this after training. A slip of the pen in one of thirty notes, as the teacher never makes it,
#: is what leads the courier in circles for the rest of a game; its habits are chances, and hardly change by it.
SHARPENED = 1.25


#: How often each step of the grid is drilled.
STEPS = 60
#: Made-up observations: those that training begins with, alone, and those among the games. Whether two names are
#: equal is learned from nothing but them within 0.5 M tokens, and not in 3 M tokens where games are mixed in at once.
FIRST_GLANCES, GLANCES = 20000, 8000
#: Made-up LOGs among the games: there the room and its place are copied with two other places in sight.
NOTES = 10000
#: Made-up PLANs without memory, below earlier observations. With the games of `window` alone the model searches
#: although there is nothing to search, and takes the place of an earlier step for its own. They come last, at a lower
#: rate, with a share of all the rest: mixed in from the start they make LOG worse.
WINDOWS = 3000
LAST_SHARE, LAST_RATE = 0.3, 0.3
HELD = 600


@dataclass(frozen=True)
class Example:
    """Token ids of a conversation, and which of them the model has to say."""

    ids: list[int]
    said: list[bool]


def encode(chat: data.Chat, tokenizer: Tokenizer) -> Example:
    """A conversation as the chat template writes it; what is to be said is supervised, its end too."""
    ids: list[int] = []
    said: list[bool] = []
    end = tokenizer.token_to_id(tokens.END)
    for number, message in enumerate(chat.messages):
        body = [*tokenizer.encode(message["content"]).ids, end]
        ids += [tokenizer.token_to_id(tokens.ROLES[message["role"]]), *body]
        said += [False, *[number in chat.said] * len(body)]
    return Example(ids, said)


def encode_all(chats: Sequence[data.Chat], tokenizer: Tokenizer, seed: int) -> list[Example]:
    """All conversations, some of them with texts spelled out."""
    chance = Random(seed)
    kinds = [(tokenizer, 1 - sum(SPELLED.values()))]
    for share, weight in SPELLED.items():
        kinds += [(tokens.without(tokenizer, share, seed + n), weight / 4) for n in range(4)]
    known, weights = zip(*kinds, strict=True)
    return [encode(chat, chance.choices(known, weights)[0]) for chat in chats]


def encode_drill(text: str, tokenizer: Tokenizer) -> Example:
    """A reply without a conversation; what follows the reason is supervised."""
    reason, action = text.split("\n")
    known = [tokenizer.token_to_id(tokens.ROLES["assistant"]), *tokenizer.encode(f"{reason}\n").ids]
    said = [*tokenizer.encode(action).ids, tokenizer.token_to_id(tokens.END)]
    return Example(known + said, [False] * len(known) + [True] * len(said))


def batches(examples: Sequence[Example], size: int, seed: int) -> Iterator[list[Example]]:
    """Examples in batches of about `size` tokens and of like length, in random order."""
    chance = Random(seed)
    order = sorted(range(len(examples)), key=lambda i: (len(examples[i].ids) // 8, chance.random()))
    made: list[list[Example]] = [[]]
    for i in order:
        if (len(made[-1]) + 1) * len(examples[i].ids) > size and made[-1]:
            made.append([])
        made[-1].append(examples[i])
    chance.shuffle(made)
    yield from made


def tensors(batch: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """Ids and labels, padded on the right: causal attention never looks there."""
    longest = max(len(example.ids) for example in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    labels = torch.full((len(batch), longest), IGNORED)
    for row, example in enumerate(batch):
        n = len(example.ids)
        ids[row, :n] = torch.tensor(example.ids)
        labels[row, :n] = torch.where(torch.tensor(example.said), ids[row, :n], IGNORED)
    return ids, labels


def said_logits(model: Qwen3ForCausalLM, batch: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """Logits where something is said next, and what it is."""
    ids, labels = tensors(batch)
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    wanted = labels[:, 1:]
    at = wanted != IGNORED
    return model.lm_head(hidden[at]), wanted[at]


def make_model(vocabulary: int, end: int, pad: int) -> Qwen3ForCausalLM:
    """The untrained model."""
    config = Qwen3Config(
        vocab_size=vocabulary,
        intermediate_size=448,
        max_position_embeddings=tokens.CONTEXT,
        tie_word_embeddings=True,
        initializer_range=0.05,
        rope_theta=10_000.0,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=pad,
        **SIZES,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config.max_new_tokens = LONGEST_REPLY
    return model


def optimizers(model: nn.Module, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for the rest."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, weight_decay=0.0, betas=(0.9, 0.98)),
    ]


def fit(
    model: Qwen3ForCausalLM, made: Sequence[list[Example]], held: Sequence[Example], rate: float, args: Any
) -> list[dict[str, Any]]:
    """One pass over these batches; a line of the curve every `args.every` steps."""
    chosen = optimizers(model, rate)
    curve: list[dict[str, Any]] = []
    seen, recent, began, worked = 0, 0.0, time.perf_counter(), time.process_time()
    for step, batch in enumerate(made, 1):
        scale = min(1.0, step / 60) * max(0.05, 1 - (step - 1) / len(made))
        logits, wanted = said_logits(model, batch)
        loss = nn.functional.cross_entropy(logits, wanted)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in chosen:
            for group in optimizer.param_groups:
                group["lr"] = rate * scale
            optimizer.step()
            optimizer.zero_grad()
        seen += sum(len(example.ids) for example in batch)
        recent = loss.item() if not recent else 0.95 * recent + 0.05 * loss.item()
        if step % args.every == 0 or step == len(made):
            row = {"step": step, "of": len(made), "tokens": seen, "loss": round(recent, 4)}
            row |= check(model, held, args.kinds) | {"wall_s": round(time.perf_counter() - began)}
            row |= {"cpu_s": round(time.process_time() - worked)}
            curve.append(row)
            print(json.dumps(row), flush=True)
            model.save_pretrained(args.out)
    return curve


@torch.no_grad()
def sharpen(model: Qwen3ForCausalLM) -> None:
    """Scale all logits: the last norm comes just before the head."""
    model.model.norm.weight.mul_(SHARPENED)


@torch.no_grad()
def check(model: Qwen3ForCausalLM, held: Sequence[Example], kinds: Mapping[str, set[int]]) -> dict[str, float]:
    """Loss on held-out conversations, and for each kind of token how often the model would say the right one."""
    loss, count = 0.0, 0
    right, all_of = Counter[str](), Counter[str]()
    for batch in batches(held, 8192, 0):
        logits, wanted = said_logits(model, batch)
        loss += nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
        count += len(wanted)
        for token, said in zip(wanted.tolist(), logits.argmax(-1).tolist(), strict=True):
            for kind, members in kinds.items():
                if token in members:
                    all_of[kind] += 1
                    right[kind] += said == token
    return {"held_loss": round(loss / count, 4), **{kind: round(right[kind] / all_of[kind], 4) for kind in kinds}}


def token_kinds(tokenizer: Tokenizer) -> dict[str, set[int]]:
    """Tokens whose learning tells most: actions, what is decided in PLAN, and places, which have to be copied."""
    words = tokenizer.get_vocab()
    return {
        "actions": {words[word] for word in ("north", "south", "east", "west", "take", "deliver")},
        "decisions": {words[word] for word in ("<|SEARCH|>", "<|ACTION|>", " from ", "nowhere")},
        "here": {words[" is here\n"], words["\u010a"]},
        "places": {number for word, number in words.items() if re.fullmatch(r"\d,\d", word)},
    }


def last_batches(examples: Sequence[Example], tokenizer: Tokenizer, args: Any) -> list[list[Example]]:
    """What training ends with: PLANs without memory, and a share of everything else again."""
    chance = Random(args.seed + 4)
    again = [example for example in examples if chance.random() < LAST_SHARE]
    again += [encode(chat, tokenizer) for chat in data.notes(NOTES // 2, args.seed + 5)]
    again += [encode(chat, tokenizer) for chat in data.windows(WINDOWS, args.seed + 4)]
    return list(batches(again, args.batch, args.seed + 4))


def main() -> None:
    """Parse the command line, train, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--games", type=int, default=230, help="games of the teacher")
    parser.add_argument("--batch", type=int, default=2048, help="tokens in a batch")
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--every", type=int, default=100, help="steps between checks")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    chats = list(data.conversations(args.games))
    tokenizer = tokens.train([chat.messages for chat in chats])
    tokens.save(tokenizer, args.out)
    args.kinds = token_kinds(tokenizer)
    examples = encode_all(chats, tokenizer, args.seed)
    Random(args.seed).shuffle(examples)
    held, examples = examples[:HELD], examples[HELD:]
    held += [encode(chat, tokenizer) for chat in data.glances(HELD // 3, args.seed + 1)]
    examples += [encode_drill(text, tokenizer) for text in data.steps(STEPS)]
    examples += [encode(chat, tokenizer) for chat in data.glances(GLANCES, args.seed, answered=True)]
    examples += [encode(chat, tokenizer) for chat in data.notes(NOTES, args.seed + 3)]
    first = [encode(chat, tokenizer) for chat in data.glances(FIRST_GLANCES, args.seed + 2)]
    made = [*batches(first, args.batch, args.seed), *batches(examples, args.batch, args.seed)]
    end, pad = tokenizer.token_to_id(tokens.END), tokenizer.token_to_id(tokens.PAD)
    model = make_model(tokenizer.get_vocab_size(), end, pad)
    size = sum(p.numel() for p in model.parameters())
    print(f"{len(examples)} sequences, {tokenizer.get_vocab_size()} words, {size / 1e6:.2f} M parameters", flush=True)
    curve = fit(model, made, held, args.rate, args)
    curve += fit(model, last_batches(examples, tokenizer, args), held, LAST_RATE * args.rate, args)
    sharpen(model)
    model.save_pretrained(args.out)
    told = {key: getattr(args, key) for key in ("seed", "games", "batch", "rate")}
    (args.out / "training.json").write_text(json.dumps({**told, "curve": curve}, indent=1) + "\n")


if __name__ == "__main__":
    main()
