"""In what two configs differ, key by key, for whoever gave a folder other settings than it was made with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

_LONGEST = 100


def differences(here: BaseModel, there: BaseModel, free: tuple[str, ...] = ()) -> list[str]:
    """One line per setting, such as `recipe.lora.rank: 8 there, 16 here`; top-level keys in `free` may differ."""
    mine, theirs = (one.model_dump(mode="json", exclude=set(free)) for one in (here, there))
    return list(_differing(mine, theirs, ""))


def _differing(here: Any, there: Any, key: str) -> Iterator[str]:
    if here == there:
        return
    if not (isinstance(here, dict) and isinstance(there, dict)):
        yield f"{key}: {_short(there)} there, {_short(here)} here"
        return
    for name in {**here, **there}:
        yield from _differing(here.get(name), there.get(name), f"{key}.{name}" if key else name)


def _short(value: Any) -> str:
    plain = "none" if value is None else value
    text = plain if isinstance(plain, str) and plain else json.dumps(plain, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
