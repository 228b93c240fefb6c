"""LoCoMo and LongMemEval as their public files have them: units, evidence, answers, dates and splits.

A unit is one turn of LoCoMo (Maharana et al., ACL 2024, `locomo10.json`) or one session of LongMemEval-S (Wu et al.,
ICLR 2025, `longmemeval_s*.json`). The files are not ours to ship: download them and name their path. Dates are those
of the data; nothing here looks at a clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from automem.errors import UsageError
from automem.evict.counting import Count, approximate_tokens
from automem.evict.labels import gold
from automem.evict.units import Unit
from automem.problems import first_problem

LOCOMO_HINT = "get data/locomo10.json from https://github.com/snap-research/locomo and name its path"
LONGMEMEVAL_HINT = (
    "get longmemeval_s_cleaned.json from https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned "
    "and name its path"
)

# Evidence is written by hand: "D1:3", "D8:6; D9:17", "D:11:26", "D30:05".
_EVIDENCE = re.compile(r"D:?0*(\d+):0*(\d+)")
_SESSION = re.compile(r"session_(\d+)")


@dataclass(frozen=True)
class Question:
    """A question with its answer, and the positions of the units that annotators named as evidence."""

    text: str
    answer: str
    evidence: tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """What must stay on one side of a split: a conversation of LoCoMo, a question of LongMemEval with its sessions.

    `dates` has one date for each unit, in the words of the data; `unknown` counts pieces of evidence that name no
    unit.
    """

    id: str
    units: tuple[Unit, ...]
    dates: tuple[str, ...]
    questions: tuple[Question, ...]
    unknown: int = 0

    def gold(self) -> list[int]:
        """1 for each unit that is evidence for one of the questions."""
        return gold(len(self.units), {index for question in self.questions for index in question.evidence})

    def texts(self) -> list[str]:
        """What the units say."""
        return [unit.text for unit in self.units]

    def answers(self) -> list[str]:
        """The final answers, which say nothing about where they come from."""
        return [question.answer for question in self.questions]

    def context(self, kept: Sequence[int]) -> str:
        """The units at these positions as a prompt shows them: in order, word for word, under their dates.

        Without the date of its day a "yesterday" would mean the day before the reading.
        """
        lines: list[str] = []
        shown = ""
        for index in sorted(kept):
            if self.dates[index] != shown:
                shown = self.dates[index]
                lines.append(f"[{shown}]")
            lines.append(self.units[index].text)
        return "\n".join(lines)


@dataclass(frozen=True)
class Fold:
    """Positions of the groups to fit on and of those to test on."""

    train: tuple[int, ...]
    test: tuple[int, ...]


def folds(count: int, most: int | None = None) -> list[Fold]:
    """Splits by group: group i is tested in fold i mod k, k = `most`; None leaves out one group at a time.

    Raises:
        UsageError: fewer than two groups.
    """
    if count < 2:
        raise UsageError(f"a split needs two groups or more, the data has {count}")
    k = min(count, most or count)
    return [Fold(tuple(i for i in range(count) if i % k != fold), tuple(range(fold, count, k))) for fold in range(k)]


def held_out(train: Sequence[Group], test: Sequence[Group]) -> frozenset[str]:
    """Texts of test units that training groups have too: such units are dropped from training (LRE, section 4)."""
    return frozenset(text for group in test for text in group.texts()).intersection(
        text for group in train for text in group.texts()
    )


def refuse_leak(train: Sequence[Group], test: Sequence[Group], left_out: frozenset[str]) -> None:
    """Look whether anything of the test is in the training, the units with a text in `left_out` apart.

    Raises:
        UsageError: a group on both sides, or a text on both sides.
    """
    if shared := {group.id for group in train} & {group.id for group in test}:
        raise UsageError(f"the split leaks: group {min(shared)} is on both sides")
    if texts := held_out(train, test) - left_out:
        raise UsageError(f"the split leaks: {len(texts)} texts are on both sides, the first {min(texts)[:60]!r}")


class _Turn(BaseModel):
    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None


class _Qa(BaseModel):
    question: str
    answer: str | int | float | None = None
    evidence: list[str] = []


class _Sample(BaseModel):
    sample_id: str
    conversation: dict[str, Any]
    qa: list[_Qa]


class _Message(BaseModel):
    role: str
    content: str


class _Entry(BaseModel):
    question_id: str
    question: str
    answer: str | int | float
    haystack_sessions: list[list[_Message]]
    haystack_session_ids: list[str]
    haystack_dates: list[str]
    answer_session_ids: list[str]


_SAMPLES = TypeAdapter(list[_Sample])
_ENTRIES = TypeAdapter(list[_Entry])
_TURNS = TypeAdapter(list[_Turn])


def load_locomo(path: Path, count: Count = approximate_tokens) -> list[Group]:
    """The conversations of LoCoMo, a unit for each turn: `Speaker: text`, with the caption of a shared picture.

    Questions without an answer (the adversarial ones) have nothing that could be forgotten, and are left out.

    Raises:
        UsageError: no such file, another format, or a conversation that is there twice.
    """
    samples: list[_Sample] = _read(path, _SAMPLES.validate_json, LOCOMO_HINT)
    return _unique([_locomo(sample, path, count) for sample in samples], path)


def _locomo(sample: _Sample, path: Path, count: Count) -> Group:
    talk = sample.conversation
    numbers = sorted(int(found[1]) for key in talk if (found := _SESSION.fullmatch(key)))
    units: list[Unit] = []
    dates: list[str] = []
    place: dict[str, int] = {}
    for number in numbers:
        where = f"{sample.sample_id}.session_{number}"
        for turn in _checked(_TURNS.validate_python, talk[f"session_{number}"], f"{path}: {where}"):
            place[_dialogue_id(turn.dia_id)[0]] = len(units)
            caption = f" [shares {turn.blip_caption}]" if turn.blip_caption else ""
            text = f"{turn.speaker}: {turn.text}{caption}"
            units.append(Unit(len(units), text, count(text)))
            dates.append(str(talk.get(f"session_{number}_date_time", "")))
    questions, unknown = [], 0
    for qa in sample.qa:
        if qa.answer is None:
            continue
        named = [name for written in qa.evidence for name in _dialogue_id(written)]
        unknown += sum(name not in place for name in named)
        evidence = tuple(sorted({place[name] for name in named if name in place}))
        questions.append(Question(qa.question, str(qa.answer), evidence))
    return Group(sample.sample_id, tuple(units), tuple(dates), tuple(questions), unknown)


def _dialogue_id(written: str) -> list[str]:
    """The turns that a piece of evidence names; itself, where it names none that can be read."""
    return [f"D{session}:{turn}" for session, turn in _EVIDENCE.findall(written)] or [written]


def load_longmemeval(path: Path, count: Count = approximate_tokens) -> list[Group]:
    """The questions of LongMemEval, a unit for each session of the haystack: its messages as `role: content`.

    Raises:
        UsageError: no such file, another format, or a question that is there twice.
    """
    entries: list[_Entry] = _read(path, _ENTRIES.validate_json, LONGMEMEVAL_HINT)
    return _unique([_longmemeval(entry, path, count) for entry in entries], path)


def _longmemeval(entry: _Entry, path: Path, count: Count) -> Group:
    sessions, ids = entry.haystack_sessions, entry.haystack_session_ids
    if not len(sessions) == len(ids) == len(entry.haystack_dates):
        raise UsageError(
            f"{path}: {entry.question_id}: {len(sessions)} sessions, {len(ids)} ids and "
            f"{len(entry.haystack_dates)} dates"
        )
    texts = ["\n".join(f"{message.role}: {message.content}" for message in session) for session in sessions]
    units = tuple(Unit(index, text, count(text)) for index, text in enumerate(texts))
    evidence = tuple(index for index, name in enumerate(ids) if name in entry.answer_session_ids)
    question = Question(entry.question, str(entry.answer), evidence)
    unknown = len(set(entry.answer_session_ids) - set(ids))
    return Group(entry.question_id, units, tuple(entry.haystack_dates), (question,), unknown)


def _read(path: Path, parse: Callable[[bytes], Any], hint: str) -> Any:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint) from error
    return _checked(parse, content, str(path), hint)


def _checked(parse: Callable[[Any], Any], given: Any, where: str, hint: str | None = None) -> Any:
    try:
        return parse(given)
    except ValidationError as error:
        raise UsageError(f"{where} is not in the published format: {first_problem(error)}", hint) from error


def _unique(groups: list[Group], path: Path) -> list[Group]:
    names = [group.id for group in groups]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"{path} has {min(twice)} twice, and one would be tested on the other")
    return groups
