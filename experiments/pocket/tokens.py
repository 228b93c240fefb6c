"""The pocket model's tokenizer: byte-level BPE over whole words, and one token for each text that stands for itself.

Three choices keep sequences short and copying easy:

- a word is the same token wherever it stands (blanks are tokens of their own), so that it can be copied;
- a name (of a room, of a parcel) and a place (`3,1`) is one token;
- instructions, lines and phrases that stand in most prompts are one token each. Whatever is not known is spelled
  by words and bytes, as in any tokenizer; `without` makes tokenizers that know fewer texts, for training on both.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from automem.grammar import OPERATIONS
from automem.messages import Message

END = "<|eot|>"
ROLES = {"system": "<|system|>", "user": "<|user|>", "assistant": "<|assistant|>"}
PAD = "<|pad|>"
WORDS = 640
CONTEXT = 2048

TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}"
    "<|assistant|>{% generation %}{{ message['content'] }}<|eot|>{% endgeneration %}"
    "{%- elif message['role'] == 'system' -%}<|system|>{{ message['content'] }}<|eot|>"
    "{%- else -%}<|user|>{{ message['content'] }}<|eot|>{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)

_PHRASES = (
    "# Observation\nRoom: ",
    " at ",
    " in a grid of ",
    " by ",
    " in a grid of 6 by 4.\nHere: ",
    "nothing.\nCarrying: nothing.\nOrder: ",
    ".\nCarrying: nothing.\nOrder: ",
    "# Operations\n",
    ".\nHere: ",
    ".\nCarrying: ",
    ".\nOrder: ",
    " to ",
    ".\nNews: the ",
    " is now in ",
    ".\n\n# Memory\n- ",
    ".\nThere is no way ",
    ".txt (log, ",
    ".txt (table, ",
    " lines): ",
    " rows): ",
    "\n\n# PLAN\n",
    "\n\n# LOG\n",
    " from ",
    " is here\n",
    "nowhere",
    "hands: free or full",
    "walk: one more step",
    "house: all quiet",
    "hands|free or full",
    "walk|one more step",
    "house|all quiet",
    " | step ",
    " | ",
    ".txt ",
    ".txt|",
    "[1] SEARCH ",
    ": no lines match '",
    ": 1 line matches '",
    " lines match '",
    "':\n",
    "<|END|>\n",
    "<|END|>",
)
#: A line is one token if it stands in so large a share of the conversations.
_COMMON = 0.02
_SHORTEST = 16
_ORDER = re.compile(r"^Order: (.+) to (.+)\.$", re.MULTILINE)
_PLACE = re.compile(r"\b\d,\d\b")
_ABOUT = re.compile(r"^- \S+ \(\w+, \d+ \w+\): (.+)$", re.MULTILINE)
_ASKED = re.compile(r"^# (?:LOG|PLAN|GAMEPLAY)\n(.+)", re.MULTILINE | re.DOTALL)
#: Tags, names and places: no text but these is built so.
_NAME = re.compile(r"<\|[A-Z]+\|>|[a-z]+( [a-z]+)?|\d,\d")


def train(chats: Sequence[Sequence[Message]]) -> Tokenizer:
    """The tokenizer for these conversations; the same for the same ones."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[A-Za-z]+|[0-9]|[^A-Za-z0-9]+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    texts = {message["content"] for chat in chats for message in chat}
    trainer = trainers.BpeTrainer(
        vocab_size=WORDS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(sorted(texts), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in (PAD, END, *ROLES.values())])
    tags = [f"<|{name}|>" for name in OPERATIONS]
    for text in dict.fromkeys([*tags, *_names(chats), *_PHRASES, *_lines(chats), *_blocks(chats)]):
        tokenizer.add_tokens([AddedToken(text, normalized=False)])
    return tokenizer


def without(tokenizer: Tokenizer, share: float, seed: int) -> Tokenizer:
    """The same vocabulary with a share of its texts unknown: they are spelled. Tags, names and places stay."""
    data, chance = json.loads(tokenizer.to_str()), Random(seed)
    data["added_tokens"] = [
        token
        for token in data["added_tokens"]
        if token["special"] or _NAME.fullmatch(token["content"]) or chance.random() >= share
    ]
    return Tokenizer.from_str(json.dumps(data))


def chat_tokenizer(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """The tokenizer as transformers loads and saves it, with the chat template."""
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        model_max_length=CONTEXT,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    made.chat_template = TEMPLATE
    return made


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Save it so that `AutoTokenizer` loads this very tokenizer.

    Under the class name that transformers 5 writes, it would load the architecture's usual tokenizer, which cuts
    texts otherwise, and say nothing.
    """
    chat_tokenizer(tokenizer).save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "tokenizer_class": "PreTrainedTokenizerFast"}, indent=1)
    )


def _names(chats: Sequence[Sequence[Message]]) -> list[str]:
    """Rooms, parcels and places of the games."""
    found: set[str] = set()
    for chat in chats:
        for order in _ORDER.findall(chat[1]["content"]):
            found.update(order)
        found.update(_PLACE.findall(chat[1]["content"]))
    return sorted(found)


def _lines(chats: Sequence[Sequence[Message]]) -> Iterable[str]:
    """Lines of system prompts and of what a phase asks for, and descriptions of files, that are common and long."""
    seen = Counter[str]()
    for chat in chats:
        told = [chat[0]["content"], *_ASKED.findall(chat[1]["content"])]
        seen.update({line for text in told for line in text.splitlines(keepends=True)})
        seen.update(set(_ABOUT.findall(chat[1]["content"])))
    return sorted(line for line, n in seen.items() if n >= _COMMON * len(chats) and len(line) >= _SHORTEST)


def _blocks(chats: Sequence[Sequence[Message]]) -> Iterable[str]:
    """Paragraphs of system prompts, with the blank line after them; operations stay lines, since they vary."""
    seen = Counter[str]()
    for chat in chats:
        seen.update({f"{block}\n\n" for block in chat[0]["content"].split("\n\n") if "# Operations" not in block})
    return sorted(block for block, n in seen.items() if n >= _COMMON * len(chats))
