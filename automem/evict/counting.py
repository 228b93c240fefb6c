"""Counting tokens: the model's own tokenizer where there is one, a declared approximation where there is none.

A `Count` takes a text and gives its tokens. With transformers: `lambda text: len(tokenizer.encode(text,
add_special_tokens=False))`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Count = Callable[[str], int]

#: What a chat template adds to a message: its role and the marks around it.
MESSAGE_TOKENS = 4

_DIGITS = b"0123456789"
_BYTES_PER_TOKEN = 3.5
_WORD = re.compile(r"\w+")


def approximate_tokens(text: str) -> int:
    """An estimate that is rather too high: a token for each digit and for each 3.5 bytes of everything else.

    English has about 4.5 bytes a token and code about 3.5; some tokenizers give every digit its own token. Where
    the limit is hard, count with the model's tokenizer instead.
    """
    encoded = text.encode("utf-8", "surrogatepass")
    others = len(encoded.translate(None, _DIGITS))
    return len(encoded) - others + -int(-others // _BYTES_PER_TOKEN)


def words(text: str) -> list[str]:
    """The words of a text in lower case: letters, digits and underscores."""
    return _WORD.findall(text.lower())
