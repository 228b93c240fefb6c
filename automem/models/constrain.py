"""Constrained decoding for local models: at each token, which ones still lead to a reply of the wanted form."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from automem.errors import ModelFailure, UsageError

#: Compiled regular expressions kept for each model: one for each phase and scaffold in flight.
_KEPT = 64


class Grammars:
    """Compiles regular expressions for one tokenizer. `end` is the token that ends a reply.

    Raises:
        UsageError: outlines-core is not installed, or the tokenizer is not byte-level BPE.
    """

    def __init__(self, tokenizer: Any, end: int) -> None:
        try:
            import outlines_core
        except ImportError:
            raise UsageError("constrained decoding needs outlines-core", "pip install 'automem[local]'") from None
        self._core = outlines_core
        self._vocabulary = outlines_core.Vocabulary(end, _spellings(tokenizer.backend_tokenizer))
        self._index = lru_cache(maxsize=_KEPT)(self._compile)

    def guide(self, pattern: str) -> Any:
        """A guide through `pattern` from its start: `get_tokens()`, `advance(token)`.

        Raises:
            ModelFailure: it is not a regular expression that can be compiled.
        """
        return self._core.Guide(self._index(pattern))

    def _compile(self, pattern: str) -> Any:
        try:
            return self._core.Index(pattern, self._vocabulary)
        except ValueError as error:
            raise ModelFailure(f"the grammar of replies cannot be compiled: {error}") from error


def _spellings(backend: Any) -> dict[bytes, list[int]]:
    """The bytes that each token stands for; tokens that mark turns stand for none."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    if '"ByteLevel"' not in json.dumps(json.loads(backend.to_str())["decoder"]):
        raise UsageError("constrained decoding in process needs a byte-level BPE tokenizer", "serve it with vLLM")
    byte_of = {letter: byte for byte, letter in bytes_to_unicode().items()}
    added = backend.get_added_tokens_decoder()
    spelled: dict[bytes, list[int]] = {}
    for text, number in backend.get_vocab().items():
        if number not in added:
            spelled.setdefault(bytes(byte_of[letter] for letter in text), []).append(number)
        elif not added[number].special:
            spelled.setdefault(added[number].content.encode(), []).append(number)
    return spelled
