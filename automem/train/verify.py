"""Verify: every row says what its trace says, word for word, or nothing is trained.

The traces are read again. A row's call is found by run, episode, step, phase and number; its whole messages and reply,
before cleaning, must have the hash that was taken at selection; and cleaning them again must give the row. So an edited
trace and an edited row are both found, whoever edited them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from automem.errors import UsageError
from automem.train.dataset import SPLITS, Card, Row, file_digest, read_card, read_rows, rows_of
from automem.train.select import Decision
from automem.train.turns import Episode

_HINT = "rows are taken from traces and never written by hand: build the dataset again"


def verify(folder: Path, episodes: Sequence[Episode]) -> Card:
    """Check every row of the dataset in `folder` against `episodes`; gives its card.

    Raises:
        UsageError: a row or a trace is not what it was, or a row's trace is not there; names it.
    """
    card = read_card(folder)
    known = {(episode.run, episode.spec.id): episode for episode in episodes}
    wanted: dict[tuple[str, str], list[tuple[str, Row]]] = defaultdict(list)
    for split in SPLITS:
        path = folder / f"{split}.jsonl"
        for number, row in enumerate(read_rows(folder, split), 1):
            wanted[row.run, row.episode].append((f"{path}, line {number}", row))
        if file_digest(path) != card.digests.get(split):
            _find_and_name(wanted, known)
            raise UsageError(f"{path} is not what was written: rows were added, taken out or moved", _HINT)
    _find_and_name(wanted, known)
    _held_out_apart(folder)
    return card


def _find_and_name(wanted: dict[tuple[str, str], list[tuple[str, Row]]], known: dict[tuple[str, str], Episode]) -> None:
    for place, rows in wanted.items():
        if place not in known:
            raise UsageError(f"{rows[0][0]}: there is no finished episode {place[1]} in {place[0]}", _HINT)
        _compare(known[place], rows)


def _compare(episode: Episode, rows: Sequence[tuple[str, Row]]) -> None:
    """The rows of one episode against its trace, read once."""
    decisions = {(row.step, row.call): _decision(row) for _, row in rows}
    found = {decision.key: row for decision, row in rows_of(episode, decisions)}
    for where, row in rows:
        place = f"{episode.path}, step {row.step}, call {row.call}"
        actual = found.get((row.step, row.call))
        if actual is None:
            raise UsageError(f"{where}: there is no memory turn at {place}", _HINT)
        if isinstance(actual, str):
            raise UsageError(f"{where}: the turn at {place} cannot be cleaned ({actual})", _HINT)
        if actual.source != row.source:
            raise UsageError(f"{where}: the trace was edited since it was selected: {place}", _HINT)
        if different := [name for name in Row.model_fields if getattr(actual, name) != getattr(row, name)]:
            raise UsageError(f"{where}: its {different[0]} is not that of {place}", _HINT)


def _decision(row: Row) -> Decision:
    return Decision(row.step, row.call, row.phase, True, row.reason, row.detail, score=row.score)


def _held_out_apart(folder: Path) -> None:
    """No episode is in both splits."""
    train, held_out = ({row.episode for row in read_rows(folder, split)} for split in SPLITS)
    if both := sorted(train & held_out):
        raise UsageError(f"{folder}: episode {both[0]} is trained on and held out", _HINT)
