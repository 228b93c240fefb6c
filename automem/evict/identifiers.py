"""What counts as an identifier: strings that have to be repeated exactly to be of use (the paper gives no pattern)."""

from __future__ import annotations

import re
from functools import lru_cache

#: Addresses, e-mails, paths of two or more parts, words of letters and digits mixed, numbers of four or more digits.
#: Dates are none. Published in docs/eviction.md.
IDENTIFIER = re.compile(
    r"""
    \b[a-z][a-z0-9+.-]{1,15}://[^\s"'<>|)\]}]+                  # address
  | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+                    # e-mail
  | (?<![\w/])~?/[\w.@%+-]+(?:/[\w.@%+-]+)+                     # path
  | (?<![\w-])(?!\d{4}-\d\d-\d\d(?![\w-]))                      # not a date:
    (?=[\w-]*\d)(?=[\w-]*[A-Za-z_-])[\w-]{5,}                   # word of letters and digits
  | (?<![\w.-])\d{4,}(?![\w-])                                  # long number
    """,
    re.VERBOSE,
)


def identifiers(text: str) -> list[str]:
    """The identifiers of a text, in order, as often as they stand there; punctuation at the end is no part of one."""
    return [found.rstrip(".,;:!?-") for found in IDENTIFIER.findall(text)]


@lru_cache(maxsize=4096)
def distinct(text: str) -> frozenset[str]:
    """The identifiers of a text, each once."""
    return frozenset(identifiers(text))


def has_identifier(text: str) -> bool:
    """Whether there is any."""
    return IDENTIFIER.search(text) is not None
