"""A dataset in the ShareGPT form of LLaMA-Factory, with the `dataset_info.json` that names it.

LLaMA-Factory supervises every assistant turn unless it is told not to: train with `mask_history: true`, and exactly
the last turn of each row is supervised, as it is here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from automem.errors import RunError
from automem.train.dataset import Row, read_card, read_rows

_FROM = {"user": "human", "assistant": "gpt", "tool": "observation"}


def export_sharegpt(folder: Path, out: Path, split: str = "train") -> int:
    """Write the rows of a dataset to `out`, and `dataset_info.json` beside it; gives their number.

    Raises:
        UsageError: there is no dataset.
        RunError: `out` cannot be written.
    """
    read_card(folder)
    rows = [conversation(row) for row in read_rows(folder, split)]
    info = {
        out.stem: {
            "file_name": out.name,
            "formatting": "sharegpt",
            "columns": {"messages": "conversations", "system": "system", "tools": "tools"},
        }
    }
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        (out.parent / "dataset_info.json").write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {out}: {error.strerror}") from error
    return len(rows)


def conversation(row: Row) -> dict[str, Any]:
    """One row: the system message apart, then human and gpt by turns, the supervised turn last."""
    messages = [*row.prompt, *row.completion]
    return {
        "conversations": [turn for message in messages if message["role"] != "system" for turn in _turns(message)],
        "system": "\n\n".join(message["content"] for message in messages if message["role"] == "system"),
        "tools": json.dumps([tool["function"] for tool in row.tools], ensure_ascii=False) if row.tools else "",
    }


def _turns(message: dict[str, Any]) -> list[dict[str, str]]:
    calls = message.get("tool_calls")
    if not calls:
        return [{"from": _FROM[message["role"]], "value": message["content"]}]
    made = [
        {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"] or "{}")}
        for call in calls
    ]
    return [{"from": "function_call", "value": json.dumps(made if len(made) > 1 else made[0], ensure_ascii=False)}]
