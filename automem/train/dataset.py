"""The dataset: rows in TRL's conversational prompt/completion form with their provenance, and a card.

    train.jsonl  held_out.jsonl     rows; the second from other episodes
    dropped.jsonl                   every turn that was not taken, and why
    card.json  README.md            counts
    dataset_info.json               for LLaMA-Factory, once it was exported

A row's `prompt` and `completion` are what TRL trains on; everything else says where in which trace they stand.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, TextIO

from pydantic import BaseModel, ConfigDict

from automem.episode import digest
from automem.errors import RunError, UsageError
from automem.grammar import Operation, parse, tool_schemas
from automem.messages import Phase, Role
from automem.models.wire import wire_message
from automem.records import read_line, read_record
from automem.train.clean import Dropped, clean_turn
from automem.train.recipe import Selection, Unfit
from automem.train.select import Decision, Selector, select
from automem.train.turns import Episode, Turn, assistant, earlier_calls, turns

SPLITS = ("train", "held_out")
_MEND = "delete the folder of the dataset: `automem train` makes it again"


class Row(BaseModel):
    """One turn to train on. `source` is the hash of the whole call as it stands in the trace, before cleaning.

    `tools` are the schemas that were sent with the prompt, in the tools dialect.
    """

    model_config = ConfigDict(extra="forbid")

    prompt: list[dict[str, Any]]
    completion: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    run: str
    episode: str
    env: str
    task: str
    seed: int
    step: int
    phase: Phase
    role: Role
    call: int
    model: str
    source: str
    reason: str
    detail: str = ""
    score: float | None = None


class Card(BaseModel):
    """What is in a dataset. `turns` are all that were looked at; `dropped` counts those not taken, by reason."""

    model_config = ConfigDict(extra="forbid")

    selection: Selection
    runs: list[str]
    traces: dict[str, str]
    digests: dict[str, str] = {}
    rows: int = 0
    held_out: int = 0
    turns: int = 0
    phases: dict[str, int] = {}
    operations: dict[str, int] = {}
    reasons: dict[str, int] = {}
    episodes: dict[str, int] = {}
    models: dict[str, int] = {}
    dropped: dict[str, int] = {}
    supervised_tokens: int | None = None


def build(
    episodes: Sequence[Episode], settings: Selection, selector: Selector, folder: Path, tell: Callable[[str], None]
) -> Card:
    """Select, clean and write the rows of `episodes` to `folder`; the folder appears when it is whole.

    Raises:
        UsageError: a trace is not what was played.
        Unfit: no row is left.
        RunError: the folder cannot be written.
    """
    decided = select(episodes, selector, settings, tell)
    held_out = _held_out(decided, settings)
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        card = _write(decided, held_out, settings, part)
        if card.rows == card.held_out:
            told = ", ".join(f"{reason} {count}" for reason, count in card.dropped.items()) or "there are no turns"
            raise Unfit(f"no row to train on is left: {told}", "collect more episodes, or loosen the selection")
        write_card(part, card)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    except OSError as error:
        raise RunError(f"cannot write {folder}: {error.strerror}", "the same command goes on") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return card


def identity(episodes: Sequence[Episode], settings: Selection, selector: str) -> str:
    """What the contents of a dataset follow from: traces by their hash, settings, selector."""
    traces = {str(episode.path): episode.digest() for episode in episodes}
    return digest([traces, settings.model_dump(mode="json"), selector])[:12]


def rows_of(episode: Episode, decisions: Mapping[tuple[int, int], Decision]) -> Iterator[tuple[Decision, Row | str]]:
    """The rows that `decisions` take from an episode; in place of one that cannot be cleaned, why.

    Raises:
        UsageError: the trace is not what was played.
    """
    for step in episode.steps():
        for turn in turns(step):
            decision = decisions.get(turn.key)
            if decision is None:
                continue
            earlier = len(earlier_calls(step.calls, turn.number))
            yield decision, _row(episode, turn, earlier, decision)


def read_rows(folder: Path, split: str) -> list[Row]:
    """The rows of a dataset.

    Raises:
        UsageError: there is none, or a row is damaged; names its line.
    """
    path = folder / f"{split}.jsonl"
    rows = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                rows.append(read_line(line, Row, path, number, _MEND))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    return rows


def read_card(folder: Path) -> Card:
    """The card of a dataset.

    Raises:
        UsageError: there is none, or it is damaged.
    """
    if not (folder / "card.json").is_file():
        raise UsageError(f"{folder} is not a dataset: there is no card.json")
    return read_record(folder / "card.json", Card, _MEND)


def write_card(folder: Path, card: Card) -> None:
    """Write the card, for machines and for people."""
    (folder / "card.json").write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(_readme(card), encoding="utf-8")


def file_digest(path: Path) -> str:
    """Hash of a file."""
    return blake2b(path.read_bytes(), digest_size=12).hexdigest()


def _write(decided: Mapping[Episode, list[Decision]], held_out: set[str], settings: Selection, folder: Path) -> Card:
    counts = _Counts()
    with ExitStack() as files:
        out = {name: files.enter_context(_open(folder / f"{name}.jsonl")) for name in (*SPLITS, "dropped")}
        for episode, decisions in decided.items():
            split = "held_out" if episode.spec.id in held_out else "train"
            for decision in decisions:
                if not decision.keep:
                    counts.drop(out["dropped"], episode, decision, decision.reason)
            kept = {decision.key: decision for decision in decisions if decision.keep}
            for decision, row in rows_of(episode, kept):
                if isinstance(row, str):
                    counts.drop(out["dropped"], episode, decision, f"clean_{row}")
                else:
                    counts.take(out[split], row, split)
    return Card(
        selection=settings,
        runs=list(dict.fromkeys(episode.run for episode in decided)),
        traces={f"{episode.run}/{episode.spec.id}": episode.digest() for episode in decided},
        digests={name: file_digest(folder / f"{name}.jsonl") for name in SPLITS},
        **counts.data(),
    )


class _Counts:
    """What goes into which file, counted."""

    def __init__(self) -> None:
        self._splits: Counter[str] = Counter()
        self._by: dict[str, Counter[str]] = {
            name: Counter() for name in ("phases", "operations", "reasons", "episodes", "models", "dropped")
        }

    def take(self, file: TextIO, row: Row, split: str) -> None:
        """Write and count a row."""
        file.write(json.dumps(row.model_dump(), ensure_ascii=False) + "\n")
        self._splits[split] += 1
        self._by["phases"][row.phase] += 1
        self._by["reasons"][row.reason.partition(" ")[0]] += 1
        self._by["episodes"][row.episode] += 1
        self._by["models"][row.model] += 1
        self._by["operations"].update(_operations(row))

    def drop(self, file: TextIO, episode: Episode, decision: Decision, reason: str) -> None:
        """Write and count a turn that is not taken."""
        place = {"run": episode.run, "episode": episode.spec.id, "step": decision.step, "call": decision.call}
        why = {"phase": decision.phase, "reason": reason, "detail": decision.detail, "score": decision.score}
        file.write(json.dumps(place | why, ensure_ascii=False) + "\n")
        self._by["dropped"][reason] += 1

    def data(self) -> dict[str, Any]:
        """The fields of the card; most frequent first."""
        by = {name: dict(counter.most_common()) for name, counter in self._by.items()}
        rows = self._splits.total()
        return {
            "rows": rows,
            "held_out": self._splits["held_out"],
            "turns": rows + self._by["dropped"].total(),
            **by,
        }


def _row(episode: Episode, turn: Turn, earlier: int, decision: Decision) -> Row | str:
    """The cleaned turn, or why there is none."""
    spec, call = episode.spec, turn.call
    try:
        prompt, reply = clean_turn(turn, earlier)
    except Dropped as dropped:
        return dropped.reason
    model = spec.models.get(call.role, spec.models["gameplay"])
    return Row(
        prompt=[wire_message(message) for message in prompt],
        completion=[wire_message(reply)],
        tools=_tools(episode, call.phase),
        run=episode.run,
        episode=spec.id,
        env=spec.env,
        task=spec.task,
        seed=spec.seed,
        step=turn.step,
        phase=call.phase,
        role=call.role,
        call=turn.number,
        model=model.name,
        source=digest([call.messages, assistant(call)])[:16],
        reason=decision.reason,
        detail=decision.detail,
        score=decision.score,
    )


def _tools(episode: Episode, phase: Phase) -> list[dict[str, Any]]:
    offered: list[str] = getattr(episode.scaffold.operations, phase)
    return list(tool_schemas(offered)) if episode.scaffold.dialect == "tools" else []


def _operations(row: Row) -> list[str]:
    message = row.completion[0]
    if calls := message.get("tool_calls"):
        return [call["function"]["name"] for call in calls]
    return [found.name for found in parse(message["content"]) if isinstance(found, Operation)]


def _held_out(decided: Mapping[Episode, list[Decision]], settings: Selection) -> set[str]:
    """The episodes held out of training: their share, at least one where it is asked for and two are there."""
    ids = sorted({episode.spec.id for episode, decisions in decided.items() if any(one.keep for one in decisions)})
    count = round(settings.held_out * len(ids)) or (1 if settings.held_out and len(ids) > 1 else 0)
    return set(Random(settings.seed).sample(ids, max(0, min(count, len(ids) - 1))))


def _open(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")


def _readme(card: Card) -> str:
    """The card as Markdown."""
    tokens = "not counted yet" if card.supervised_tokens is None else f"{card.supervised_tokens:,}"
    head = [
        "# Memory turns",
        f"{card.rows:,} rows, {card.held_out:,} of them held out, from {card.turns:,} turns of "
        f"{len(card.traces)} episodes ({', '.join(card.runs)}).",
        "Each row is one turn of an agent, verbatim but for the published cleaning. Supervised is the completion "
        f"alone: {tokens} tokens.",
        f"Selector: {card.selection.selector}, seed of the split {card.selection.seed}.",
    ]
    tables = [
        _table(title, counts)
        for title, counts in (
            ("Phase", card.phases),
            ("Operation", card.operations),
            ("Why taken", card.reasons),
            ("Why not taken", card.dropped),
            ("Written by", card.models),
            ("Episode", card.episodes),
        )
        if counts
    ]
    return "\n\n".join([*head, *tables]) + "\n"


def _table(title: str, counts: Mapping[str, int]) -> str:
    lines = [f"| {title} | |", "|---|---:|", *(f"| {name} | {count:,} |" for name, count in counts.items())]
    return "\n".join(lines)
