"""Rows to train on: one chat row per model call of a trace, word for word.

A row is TRL's conversational prompt/completion form with its provenance beside it. Native tool calls take the
form of the OpenAI wire, their arguments the JSON text that the model wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from automem.errors import RunError, UsageError
from automem.messages import Message, Phase, Role
from automem.models.wire import wire_message
from automem.play.folder import RunFolder
from automem.trace import Call, TraceReader, check_unedited

#: Rows that go into one parquet row group: what is held in memory at a time.
_GROUP = 1_000


def rows(paths: Iterable[Path], role: Role | None = None, phase: Phase | None = None) -> Iterator[dict[str, Any]]:
    """The calls of the traces at `paths`, in order; of `role` and `phase` only, where given.

    A row has `prompt` and `completion` (lists of messages), `episode`, `env`, `task`, `seed`, `step`,
    `phase`, `role`, and `call`, the number of the call within its step.

    Raises:
        UsageError: a path is not a trace, or one that was edited.
    """
    for path in paths:
        reader = TraceReader(path)
        spec = reader.spec
        place = {"episode": spec.id, "env": spec.env, "task": spec.task, "seed": spec.seed}
        for step in reader.steps():
            for number, call in enumerate(step.calls):
                if role in (None, call.role) and phase in (None, call.phase):
                    yield _chat(call) | place | _turn(step.t, number, call)
        if reader.result is not None:
            check_unedited(path)


def export_rows(source: Path, out: Path, role: str | None = None, phase: str | None = None) -> int:
    """Write the rows of a trace or of all traces of a run to `out`, .jsonl or .parquet; gives their number.

    The file appears when it is whole.

    Raises:
        UsageError: unknown role, phase or ending; no run or trace there; pyarrow is missing.
        RunError: `out` cannot be written.
    """
    if out.suffix not in _WRITERS:
        raise UsageError(f"cannot tell the format of {out}", "end its name in .jsonl or .parquet")
    chosen = rows(_traces(source), _one_of(Role, role, "role"), _one_of(Phase, phase, "phase"))
    part = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            count = _WRITERS[out.suffix](chosen, part)
            part.replace(out)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"cannot write {out}: {error.strerror or error}") from error
    return count


def write_jsonl(rows: Iterable[dict[str, Any]], path: Path) -> int:
    """Write one row a line; gives the number of rows."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count


def write_parquet(rows: Iterable[dict[str, Any]], path: Path) -> int:
    """Write rows to a parquet file; gives the number of rows.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise UsageError("parquet files need pyarrow", "pip install 'automem[parquet]'") from error
    schema = _schema(pa)
    count, rest = 0, iter(rows)
    with pq.ParquetWriter(path, schema) as writer:
        while group := list(islice(rest, _GROUP)):
            writer.write_table(pa.Table.from_pylist(group, schema))
            count += len(group)
    return count


_WRITERS = {".jsonl": write_jsonl, ".parquet": write_parquet}


def _traces(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    folder = RunFolder.read(source)
    paths = (folder.trace_path(spec) for spec in folder.config.specs())
    return [path for path in paths if path.is_file()]


def _one_of(names: Any, name: str | None, what: str) -> Any:
    known = get_args(names)
    if name not in (None, *known):
        raise UsageError(f"unknown {what} '{name}'", f"known: {', '.join(known)}")
    return name


def _chat(call: Call) -> dict[str, Any]:
    answer: Message = {"role": "assistant", "content": call.reply}
    if call.tool_calls:
        answer["tool_calls"] = call.tool_calls
    return {"prompt": [wire_message(message) for message in call.messages], "completion": [wire_message(answer)]}


def _turn(step: int, number: int, call: Call) -> dict[str, Any]:
    return {"step": step, "phase": call.phase, "role": call.role, "call": number}


def _schema(pa: Any) -> Any:
    """Given, not inferred: a first group without tool calls must not leave out those of the next."""
    text, number = pa.string(), pa.int64()
    function = pa.struct({"name": text, "arguments": text})
    calls = pa.list_(pa.struct({"id": text, "type": text, "function": function}))
    message = pa.struct({"role": text, "content": text, "tool_calls": calls, "tool_call_id": text})
    chat = pa.list_(message)
    place = {"episode": text, "env": text, "task": text, "seed": number}
    turn = {"step": number, "phase": text, "role": text, "call": number}
    return pa.schema({"prompt": chat, "completion": chat, **place, **turn})
