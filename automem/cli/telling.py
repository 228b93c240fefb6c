"""Messages of commands that work for hours: they go on when nobody reads them any more."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def tell(text: str) -> None:
    """A line on stderr. Where its reader is gone, as `2>&1 | head` leaves, this line and all later ones are lost."""
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        silence(sys.stderr)


def silence(*streams: TextIO) -> None:
    """Have what is written to `streams`, and what they still hold, go nowhere."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
