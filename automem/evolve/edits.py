"""The edits of the `rules` proposer: each with the diagnosis that calls for it and what it does to the files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from automem import env as envs
from automem.evolve.changes import Change, Kind
from automem.evolve.facts import WHOLE
from automem.evolve.findings import Diagnosis, FileUse, Finding, RecurringKey, quoted
from automem.evolve.health import METRICS
from automem.memory.kinds import ACCEPTS, FileSpec, valid_name
from automem.scaffold.spec import Scaffold

#: Lines of a file that a prompt is made to show.
SHOWN_LINES = 12
#: Unproductive steps that must have missed a file's lines before it is shown.
MISSED = 5
#: Lines that a log keeps when it is given a limit and no READ limit tells a better one.
KEEP = 60
#: Recurring mistakes that a reference file lists, and how often one must occur.
MISTAKES, RECURRING = 6, 3
REFERENCE = "known_mistakes.txt"

_ORDER = re.compile(r",? *\b(?:newest|latest|oldest) (?:last|first)\b")


@dataclass
class Draft:
    """A candidate in the making: `scaffold.yaml` as data, and the text of every file."""

    data: dict[str, Any]
    texts: dict[str, str]

    def file(self, name: str) -> dict[str, Any]:
        """The declaration of a memory file."""
        found: dict[str, Any] = next(file for file in self.data["files"] if file["name"] == name)
        return found


@dataclass(frozen=True)
class Edit:
    """A possible revision: its changes as CHANGES.md tells them, and what it does to a draft."""

    changes: tuple[Change, ...]
    apply: Callable[[Draft], None]

    @property
    def name(self) -> str:
        """The title of its first change."""
        return self.changes[0].title


@dataclass(frozen=True)
class Case:
    """What a rule decides on."""

    scaffold: Scaffold
    diagnosis: Diagnosis
    allowed: frozenset[Kind]

    def uses(self) -> Iterator[tuple[FileSpec, FileUse]]:
        """Each declared file and how it was used, the most written first."""
        used = [(spec, self.diagnosis.file(spec.name)) for spec in self.scaffold.spec.files]
        known = [(spec, use) for spec, use in used if use is not None]
        yield from sorted(known, key=lambda pair: -pair[1].count)

    def look(self, findings: Iterable[Finding]) -> str:
        """Where to look at the first of these findings."""
        places = [
            f"`automem trace show {self.diagnosis.summary.run} --episode {f.episode} --step {f.step}`" for f in findings
        ]
        return f" Look at {places[0]}." if places else ""

    def about(self, file: str) -> list[Finding]:
        """What was found about a file, the gravest kind first."""
        d = self.diagnosis
        found = [*d.forgotten, *d.contradictions, *d.repeated_writes, *d.not_consulted]
        return [finding for finding in found if getattr(finding, "file", None) == file]


Rule = Callable[[Case], Iterator[Edit]]


def key_a_log(case: Case) -> Iterator[Edit]:
    """A log whose lines have a recurring key becomes a table with that key."""
    for spec, use in case.uses():
        if spec.kind == "log" and use.key and use.key.share >= WHOLE and not _lines(case.scaffold, spec.name):
            yield _table_edit(case, spec, use, use.key)


def _table_edit(case: Case, spec: FileSpec, use: FileUse, key: RecurringKey) -> Edit:
    by = _names(key)
    d = case.diagnosis
    why = (
        f"{use.told}. A log repeats what it holds and drops its oldest lines; a table has one row for each {by}, and "
        f"a new value takes the place of the old one. {d.totals.forgotten} of {d.totals.searches} searches asked for "
        f"what had been known and lost, {d.totals.contradictions} of {d.totals.answers} answers contradicted "
        f"themselves.{case.look(case.about(spec.name))}"
    )
    changes = [Change("memory-structure", f"{spec.name} becomes a table keyed by {by}", why)]
    about = f"{_ORDER.sub('', spec.about)}; one row for each {by}".lstrip("; ")
    reword = "memory-prompt" in case.allowed
    if reword:
        changes.append(Change("memory-prompt", f"the index says how {spec.name} is kept", f"Now: {about}."))

    def apply(draft: Draft) -> None:
        file = draft.file(spec.name)
        file.pop("keep", None)
        file |= {"kind": "table", "key": key.parts} | ({"about": about} if reword else {})
        _offer_rows(draft)

    return Edit(tuple(changes), apply)


def cap_a_log(case: Case) -> Iterator[Edit]:
    """A log that grows without bound gets a limit; lines it starts with are protected where they were lost."""
    keep = case.scaffold.spec.memory.read_lines or KEEP
    for spec, use in case.uses():
        if spec.kind == "log" and spec.keep is None and use.growth > METRICS["file_growth"].good and use.lines > keep:
            why = f"{use.told}. Nothing ever goes from it; now the newest {keep} lines stay, what one READ shows."
            change = Change("memory-structure", f"{spec.name} keeps its newest {keep} lines", why)
            yield Edit((change,), _setter(spec.name, "keep", keep))
        first = _lines(case.scaffold, spec.name)
        lost = [f for f in case.diagnosis.forgotten if f.file == spec.name and f.example in first]
        if spec.kind == "log" and lost and not spec.header:
            why = f"{quoted(lost[0].example)} was there from the start, went, and was asked for.{case.look(lost)}"
            change = Change("memory-structure", f"the lines that {spec.name} starts with are protected", why)
            yield Edit((change,), _setter(spec.name, "header", len(first)))


def drop_unused(case: Case) -> Iterator[Edit]:
    """Files that nobody writes, reads or shows go; those that a prompt, the logic or contents speak of stay."""
    spoken = "\n".join(text for path, text in case.scaffold.texts.items() if path.endswith((".j2", ".py")))
    unused = [
        use
        for spec, use in case.uses()
        if not (use.count or use.written or use.consulted or use.shown or case.scaffold.initial.get(spec.name))
        and spec.name.removesuffix(".txt") not in spoken
    ]
    gone = {use.name for use in unused}
    left = [spec for spec in case.scaffold.spec.files if spec.name not in gone and ACCEPTS[spec.kind]]
    if not unused or not left or not case.diagnosis.summary.steps:
        return
    names = ", ".join(use.name for use in unused)
    why = (
        f"In {case.diagnosis.summary.steps} steps of {case.diagnosis.summary.episodes} episodes they were neither "
        f"written nor read; each of their lines in the memory index is one to read past."
    )

    def apply(draft: Draft) -> None:
        draft.data["files"] = [file for file in draft.data["files"] if file["name"] not in gone]
        for name in gone:
            draft.texts.pop(f"memory/{name}", None)

    changes = (
        Change("memory-structure", f"unused files go: {names}", why),
        Change("memory-prompt", "the index no longer names them", "What is not there needs no description."),
    )
    yield Edit(changes, apply)


def show_a_file(case: Case) -> Iterator[Edit]:
    """A file that PLAN should have asked and did not is shown to it: its last lines."""
    d = case.diagnosis
    missed = Counter[str]()
    for finding in d.not_consulted:
        missed[finding.file] += finding.count
    rate = d.totals.not_consulted / max(d.totals.unproductive, 1)
    often = rate > METRICS["not_consulted_rate"].good and d.totals.not_consulted >= MISSED
    for spec, use in sorted(case.uses(), key=lambda pair: -missed[pair[0].name]):
        needed = (often and missed[spec.name] > 0) or (use.count > 0 and use.consulted == 0)
        if needed and not use.shown and _heading("plan", case.scaffold.texts):
            why = (
                f"{use.told}. In {d.totals.not_consulted} of {d.totals.unproductive} unproductive steps memory held "
                f"something about the scene, and PLAN asked for nothing. Its last {SHOWN_LINES} lines now stand in the "
                f"prompt.{case.look(f for f in d.not_consulted if f.file == spec.name)}"
            )
            change = Change("observation-processing", f"PLAN is shown the last lines of {spec.name}", why)
            yield Edit((change,), _shower(spec.name, f'memory.tail("{spec.name}", {SHOWN_LINES})', ("plan",)))


def split_a_log(case: Case) -> Iterator[Edit]:
    """A log of which a part has a recurring key: that part gets a table of its own."""
    spec_names = {spec.name for spec in case.scaffold.spec.files}
    for spec, use in case.uses():
        if spec.kind != "log" or use.key is None or use.key.share >= WHOLE:
            continue
        stem, by = spec.name.removesuffix(".txt"), _names(use.key)
        name = f"{stem}_by_{use.key.side}.txt"
        if name in spec_names or not valid_name(name) or len(spec_names) >= case.scaffold.spec.memory.files:
            continue
        why = f"{use.told}. The rest of the file is of another kind.{case.look(case.about(spec.name))}"
        changes = (
            Change("memory-structure", f"{name}: a table for the keyed part of {spec.name}", why),
            Change("memory-prompt", f"the index says what belongs in {name}", f"One row for each {by}."),
        )
        file = {"name": name, "kind": "table", "key": use.key.parts, "about": f"one row for each {by}"}
        yield Edit(changes, _adder(file, rows=True))


def explain_mistakes(case: Case) -> Iterator[Edit]:
    """Mistakes that come again are listed, with the right form, in a reference file that the prompts show."""
    d, mistakes = case.diagnosis, _mistakes(case.diagnosis)
    bad = any((d.behaviour.get(rate) or 0.0) > METRICS[rate].good for rate in ("invalid_action_rate", "refused_rate"))
    spec = case.scaffold.spec
    taken = any(file.name == REFERENCE for file in spec.files) or len(spec.files) >= spec.memory.files
    if not (bad and mistakes and not taken and _heading("plan", case.scaffold.texts)):
        return
    valid = ", ".join(envs.make(d.summary.env, d.summary.tasks[0]).actions)
    text = "\n".join([f"The actions are: {valid}", *mistakes])
    found = [*d.invalid_actions, *d.failed_operations]
    why = f"{found[0].count} times: {found[0].told}.{case.look(found)}"
    changes = (
        Change("memory-structure", f"{REFERENCE}: a reference file", why),
        Change(
            "observation-processing",
            f"the prompts show {REFERENCE}",
            "A file that has to be asked for would come late.",
        ),
        Change(
            "task-advice", "mistakes that came again, with the right form", f"{len(mistakes)} of them, from the traces."
        ),
    )
    file = {"name": REFERENCE, "kind": "reference", "about": "what went wrong before, and what is right"}
    show = _shower(REFERENCE, f'memory.text("{REFERENCE}")', ("log", "plan"))

    def apply(draft: Draft) -> None:
        _adder(file)(draft)
        draft.texts[f"memory/{REFERENCE}"] = f"{text}\n"
        show(draft)

    yield Edit(changes, apply)


#: In order of what they are expected to bring.
RULES: tuple[Rule, ...] = (key_a_log, cap_a_log, drop_unused, show_a_file, split_a_log, explain_mistakes)


def _names(key: RecurringKey) -> str:
    return ",".join(part.partition(":")[0] for part in key.parts)


def _lines(scaffold: Scaffold, file: str) -> list[str]:
    """The lines that a file starts with, below a header of `#` lines."""
    return [line for line in scaffold.initial.get(file, "").splitlines() if line.strip() and not line.startswith("#")]


def _mistakes(diagnosis: Diagnosis) -> list[str]:
    invalid = [
        f"{quoted(f.proposed)} is not an action"
        for f in diagnosis.invalid_actions
        if f.count >= RECURRING and f.proposed
    ]
    refused = [f"{f.operation}: {f.error}" for f in diagnosis.failed_operations if f.count >= RECURRING]
    return [*invalid, *refused][:MISTAKES]


def _heading(phase: str, texts: dict[str, str] | Any) -> re.Match[str] | None:
    """Where the prompt of a phase begins to say what is to be done."""
    return re.search(rf"^# {phase.upper()}\b", texts.get(f"prompts/{phase}.j2", ""), re.MULTILINE)


def _setter(file: str, field: str, value: Any) -> Callable[[Draft], None]:
    def apply(draft: Draft) -> None:
        draft.file(file)[field] = value

    return apply


def _adder(file: dict[str, Any], rows: bool = False) -> Callable[[Draft], None]:
    def apply(draft: Draft) -> None:
        draft.data.setdefault("files", []).append(file)
        if rows:
            _offer_rows(draft)

    return apply


def _shower(file: str, expression: str, phases: Sequence[str]) -> Callable[[Draft], None]:
    """Puts the value of `expression` before the heading of the phases' prompts."""
    block = f"# From {file}\n{{{{ {expression} }}}}\n\n"

    def apply(draft: Draft) -> None:
        for phase in phases:
            heading = _heading(phase, draft.texts)
            if heading:
                path, at = f"prompts/{phase}.j2", heading.start()
                draft.texts[path] = draft.texts[path][:at] + block + draft.texts[path][at:]

    return apply


def _offer_rows(draft: Draft) -> None:
    """UPSERT and DELETE in LOG; what writes logs and notes goes when no such file is left and none can be made."""
    offered: list[str] = draft.data["operations"]["log"]
    at = offered.index("APPEND") if "APPEND" in offered else 0
    offered[at:at] = [name for name in ("UPSERT", "DELETE") if name not in offered]
    free = any(file["kind"] in ("log", "note") for file in draft.data["files"])
    if not free and "CREATE" not in offered:
        draft.data["operations"]["log"] = [name for name in offered if name not in ("APPEND", "WRITE")]
