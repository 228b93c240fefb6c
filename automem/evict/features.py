"""The ten causal features of agent history (LRE, section 3): a unit is described by itself and the units before it.

Nothing a later unit brings can change the features of an earlier one, because every feature is computed when its
unit arrives. The paper names the features; the definitions are ours and stand in docs/eviction.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log1p

import numpy as np
from numpy.typing import NDArray

from automem.evict.identifiers import has_identifier
from automem.evict.units import Unit

AGENT_FEATURES = (
    "position",
    "tokens",
    "log_length",
    "digits",
    "error",
    "code",
    "rare",
    "capitals",
    "overlap",
    "identifier",
)
#: A word is rare as long as at most this many earlier units have it.
RARE = 1

#: A unit with one of these words or phrases reports an error.
ERROR_WORDS = frozenset(
    b"error errors exception traceback fail fails failed failure denied refused forbidden unauthorized "
    b"unauthorised invalid timeout".split()
)
ERROR_PHRASES = ("not found", "timed out")
#: A unit with one of these in it has code.
CODE_MARKS = ("```", "=>", ");\n", "{\n", "def ", "\nimport ", "\nfrom ", "print(")
#: A capitalised word.
CAPITAL = re.compile("[A-Z][a-z]+")

_DIGITS = b"0123456789"
_ASIDE = (0.0,) * len(AGENT_FEATURES)
# Bytes are translated and split several times faster than a regular expression finds words.
_FOLD = bytes(
    code if code >= 128 or chr(code).isalnum() or chr(code) == "_" else ord(" ") for code in bytes(range(256)).lower()
)


class PrefixFeatures:
    """Features of units in the order in which they come; `add` makes a unit part of the prefix of the next."""

    def __init__(self) -> None:
        self._seen_in: dict[bytes, int] = {}
        self._before: frozenset[bytes] = frozenset()
        self._count = 0

    def of(self, unit: Unit) -> Sequence[float]:
        """The ten features of `unit`, as if it came next. Pinned units are not in the contest: all zero."""
        return _ASIDE if unit.pinned else self._describe(unit)[0]

    def add(self, unit: Unit) -> Sequence[float]:
        """The same, and `unit` joins the prefix."""
        if unit.pinned:
            return _ASIDE
        features, own = self._describe(unit)
        seen_in = self._seen_in
        for word in own:
            seen_in[word] = seen_in.get(word, 0) + 1
        self._before = own
        self._count += 1
        return features

    def _describe(self, unit: Unit) -> tuple[Sequence[float], frozenset[bytes]]:
        text, seen_in, before = unit.text, self._seen_in, self._before
        encoded = text.encode("utf-8", "surrogatepass")
        own = frozenset(encoded.translate(_FOLD).split())
        shared = len(own & before)
        return (
            self._count / (self._count + 1),
            float(unit.tokens),
            log1p(len(text)),
            float(len(encoded) - len(encoded.translate(None, _DIGITS))),
            float(not ERROR_WORDS.isdisjoint(own) or any(phrase in text for phrase in ERROR_PHRASES)),
            float(any(mark in text for mark in CODE_MARKS)),
            sum(1 for word in own if seen_in.get(word, 0) <= RARE) / max(1, len(own)),
            float(len(CAPITAL.findall(text))),
            shared / max(1, len(own) + len(before) - shared),
            float(has_identifier(text)),
        ), own


def agent_features(units: Sequence[Unit]) -> NDArray[np.float64]:
    """The features of a whole history, one row per unit: shape (units, 10)."""
    prefix = PrefixFeatures()
    rows = [prefix.add(unit) for unit in units]
    return np.array(rows, dtype=np.float64).reshape(len(units), len(AGENT_FEATURES))
