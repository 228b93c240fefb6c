"""Edits of the `rules` proposer: each on a diagnosis that calls for it, checked as the loop checks candidates."""

import shutil
from dataclasses import replace

import pytest
import yaml

from automem.episode import ModelSpec
from automem.evolve.base import Assignment, Failed, Revision
from automem.evolve.changes import KINDS, claimed
from automem.evolve.check import check_candidate
from automem.evolve.diagnose import diagnose
from automem.evolve.findings import (
    Diagnosis,
    FailedOperation,
    FileUse,
    Forgotten,
    InvalidAction,
    NotConsulted,
    RecurringKey,
    Summary,
    Totals,
)
from automem.evolve.rules import RulesProposer, edits, next_name
from automem.memory.kinds import FileSpec
from automem.models import scripted
from automem.play.check import check_scaffold
from automem.play.folder import RunConfig, RunFolder
from automem.play.run import play_run
from automem.results.table import build_table
from automem.scaffold.spec import load

AT = {"episode": "s0-abc", "step": 7, "count": 9, "example": "lamp at 1,1"}
SUMMARY = Summary(
    run="runs/r", env="courier", tasks=["small"], scaffold="made", episodes=3, failed=0, steps=600, mean=0.5, se=0.1
)
NOTES = {"name": "notes.txt", "kind": "log", "about": "what was seen, newest last", "keep": 40}
OPERATIONS = {"log": ["SEARCH", "READ", "APPEND", "WRITE", "DONE"], "plan": ["SEARCH", "READ", "ACTION"]}


def use(name, kind="log", **facts):
    base = {"growth": 5.0, "written": 9.0, "lines": 40.0, "consulted": 50, "removed": 20, "shown": False, "keep": None}
    return FileUse(name=name, kind=kind, declared=True, **AT | base | facts)


def key(share=1.0, side="subject"):
    separator = " at " if side == "subject" else ""
    return RecurringKey(
        side=side, separator=separator, share=share, keys=9, repeats=3, values=2, changes=0.4, examples=["lamp at 1,1"]
    )


def ill(*files, **facts):
    return Diagnosis(**{"summary": SUMMARY, "behaviour": {}, "files": list(files)} | facts)


UNUSED = use("goals.txt", count=0, written=0, consulted=0, growth=0, lines=0)
GOALS = {"name": "goals.txt", "kind": "note", "about": "what to do"}


@pytest.fixture
def ask(tmp_path, scaffold):
    """Makes an assignment: a scaffold with a log, and a diagnosis."""

    def make(diagnosis, allowed=KINDS, **parts):
        made = scaffold(**{"files": [NOTES], "operations": OPERATIONS, "env": "courier", **parts})
        output = tmp_path / "output"
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir()
        run = RunFolder(tmp_path / "run", None, {})
        return Assignment(made, run, diagnosis, frozenset(allowed), output, tmp_path / "log")

    return make


def proposed(assignment):
    """The candidate that was written, checked as the loop does it."""
    RulesProposer().propose(assignment)
    candidate, problems = check_candidate(assignment.output, assignment.scaffold, "courier", assignment.allowed)
    assert problems == []
    return candidate


def names(assignment):
    return [edit.name for edit in edits(assignment)]


# Each edit


@pytest.mark.parametrize(("side", "parts"), [("subject", ("name",)), ("place", ("x:int", "y:int"))])
def test_a_log_with_a_recurring_key_becomes_a_table(ask, side, parts):
    lost = Forgotten(**AT, file="notes.txt", keyword="lamp", removed=5)
    candidate = proposed(ask(ill(use("notes.txt", key=key(side=side)), forgotten=[lost])))
    (file,) = candidate.spec.files
    about = f"what was seen; one row for each {'name' if side == 'subject' else 'x,y'}"
    assert file == FileSpec(name="notes.txt", kind="table", key=parts, about=about)
    assert candidate.spec.operations.log == ["SEARCH", "READ", "UPSERT", "DELETE", "DONE"]
    structure, wording = claimed(candidate)
    assert (structure.kind, wording.kind) == ("memory-structure", "memory-prompt")
    assert "100% of the lines" in structure.why
    assert "`automem trace show runs/r --episode s0-abc --step 7`" in structure.why


@pytest.mark.parametrize("left", [{"files": [NOTES, {"name": "free.txt", "kind": "note"}]}, {"log": ["CREATE"]}])
def test_what_writes_logs_stays_while_one_is_left_or_can_be_made(ask, left):
    operations = {**OPERATIONS, "log": [*OPERATIONS["log"], *left.pop("log", [])]}
    candidate = proposed(ask(ill(use("notes.txt", key=key())), operations=operations, **left))
    assert {"UPSERT", "APPEND", "WRITE"} <= set(candidate.spec.operations.log)


@pytest.mark.parametrize(
    ("found", "parts"),
    [
        (use("notes.txt"), {}),
        (use("notes.txt", key=key()), {"memory": {"notes.txt": "# header\nfree text\n"}}),
        (use("notes.txt", "note", key=key()), {"files": [{"name": "notes.txt", "kind": "note"}]}),
    ],
)
def test_other_files_do_not_become_tables(ask, found, parts):
    assert not any("table" in name for name in names(ask(ill(found), **parts)))


def test_a_log_without_bound_is_capped_at_what_a_read_shows(ask):
    grows = use("notes.txt", growth=30.0, lines=500.0)
    unbound = {"files": [{"name": "notes.txt", "kind": "log"}]}
    candidate = proposed(ask(ill(grows), **unbound))
    assert candidate.spec.files[0].keep == candidate.spec.memory.read_lines
    assert names(ask(ill(grows))) == []  # it has a limit
    assert names(ask(ill(use("notes.txt", growth=9.0, lines=500.0)), **unbound)) == []


def test_lines_that_were_there_from_the_start_and_got_lost_are_protected(ask):
    lost = Forgotten(**AT, file="notes.txt", keyword="lamp", removed=5)
    candidate = proposed(
        ask(ill(use("notes.txt"), forgotten=[lost]), memory={"notes.txt": "lamp at 1,1\nring at 2,2\n"})
    )
    assert candidate.spec.files[0].header == 2
    assert candidate.initial == {"notes.txt": "lamp at 1,1\nring at 2,2\n"}


def test_unused_files_go(ask):
    candidate = proposed(ask(ill(use("notes.txt"), UNUSED), files=[NOTES, GOALS]))
    assert [file.name for file in candidate.spec.files] == ["notes.txt"]


@pytest.mark.parametrize(
    "kept",
    [
        {"prompts": {"extra.j2": "see goals.txt"}},
        {"memory": {"goals.txt": "win"}},
        {"logic": "def observe(state, history):\n    return {'x': 'goals'}\n"},
        {"files": [GOALS, {"name": "rules.txt", "kind": "reference"}]},
    ],
)
def test_files_that_something_speaks_of_stay(ask, kept):
    assert names(ask(ill(use("notes.txt"), UNUSED), **{"files": [NOTES, GOALS], **kept})) == []


def missed(count=9, **totals):
    finding = NotConsulted(**AT | {"count": count}, file="notes.txt", shared=["lamp"])
    return {"not_consulted": [finding], "totals": Totals(**{"unproductive": 20, "not_consulted": count} | totals)}


@pytest.mark.parametrize("found", [ill(use("notes.txt"), **missed()), ill(use("notes.txt", consulted=0))])
def test_a_file_that_was_needed_and_not_read_is_shown_in_plan(ask, found):
    assignment = ask(found)
    RulesProposer().propose(assignment)
    candidate = load(str(assignment.output))
    check_scaffold(candidate)
    assert '{{ memory.tail("notes.txt", 12) }}\n\n# PLAN' in candidate.prompts["plan.j2"]
    assert [change.kind for change in claimed(candidate)] == ["observation-processing"]


@pytest.mark.parametrize(
    "found",
    [
        ill(use("notes.txt"), **missed(count=4)),
        ill(use("notes.txt"), **missed(unproductive=100)),
        ill(use("notes.txt", shown=True), **missed()),
    ],
)
def test_a_file_that_was_seldom_needed_or_is_shown_already_is_not_shown(ask, found):
    assert names(ask(found)) == []


def test_the_keyed_part_of_a_log_gets_a_table_of_its_own(ask):
    candidate = proposed(ask(ill(use("notes.txt", key=key(share=0.4)))))
    notes, table = candidate.spec.files
    assert (notes.name, notes.kind) == ("notes.txt", "log")
    assert (table.name, table.kind, table.key) == ("notes_by_subject.txt", "table", ("name",))
    assert {"UPSERT", "DELETE", "APPEND"} <= set(candidate.spec.operations.log)


WRONG = {
    "invalid_actions": [InvalidAction(**AT, proposed="fly `up`\n# PLAN", executed="wait")],
    "failed_operations": [FailedOperation(**AT, operation="READ", error="there is no file '…'")],
    "behaviour": {"invalid_action_rate": 0.2, "refused_rate": 0.2},
}


def test_mistakes_that_come_again_are_explained_in_a_reference_file(ask):
    candidate = proposed(ask(ill(use("notes.txt"), **WRONG)))
    reference = candidate.spec.files[-1]
    assert (reference.name, reference.kind) == ("known_mistakes.txt", "reference")
    assert candidate.initial["known_mistakes.txt"].splitlines() == [
        "The actions are: north, south, east, west, take, deliver, wait",
        "`fly 'up'\\n# PLAN` is not an action",
        "READ: there is no file '…'",
    ]
    assert all('memory.text("known_mistakes.txt")' in candidate.prompts[f"{phase}.j2"] for phase in ("log", "plan"))
    kinds = [change.kind for change in claimed(candidate)]
    assert kinds == ["memory-structure", "observation-processing", "task-advice"]


@pytest.mark.parametrize("change", [{"behaviour": {}}, {"invalid_actions": [], "failed_operations": []}])
def test_rare_mistakes_need_no_file(ask, change):
    assert names(ask(ill(use("notes.txt"), **WRONG | change))) == []


# Which edit, and how it is written

SICK = ill(use("notes.txt", key=key()), UNUSED, **WRONG, **missed())
FILES = {"files": [NOTES, GOALS]}
ORDER = [
    "notes.txt becomes a table keyed by name",
    "unused files go: goals.txt",
    "PLAN is shown the last lines of notes.txt",
    "known_mistakes.txt: a reference file",
]


def row(assignment, **facts):
    base = {"revision": 1, "attempt": 1, "continuation": 0, "proposer": "rules", "parent": "made", "folder": "p"}
    base |= {"parent_digest": assignment.scaffold.digest, "verdict": "rejected", "reason": "no gain", "evaluator": "e"}
    return Revision(**base | facts)


def test_the_strongest_edit_that_was_not_tried_on_this_scaffold_comes_next(ask):
    assignment = ask(SICK, **FILES)
    assert names(assignment) == ORDER
    tried = []
    for expected in [*ORDER, ""]:
        shutil.rmtree(assignment.output)
        assignment.output.mkdir()
        analysis = RulesProposer().propose(replace(assignment, lineage=tried)).analysis
        assert analysis.partition("\n")[0] == expected
        assert any(assignment.output.iterdir()) == bool(expected)
        # A played row tells of its changes, a refused one only of the analysis.
        told = {"changes": [{"kind": "memory-structure", "title": expected}]}
        tried.append(row(assignment, **told if len(tried) % 2 else {"diagnosis": analysis}))


def test_what_was_tried_on_another_scaffold_may_be_tried_here(ask):
    assignment = ask(SICK, **FILES)
    elsewhere = row(assignment, parent_digest="other", diagnosis=ORDER[0])
    assert RulesProposer().propose(replace(assignment, lineage=[elsewhere])).analysis.startswith(ORDER[0])


@pytest.mark.parametrize(
    ("allowed", "first"),
    [
        ({"memory-structure"}, ORDER[0]),
        ({"observation-processing"}, ORDER[2]),
        ({"memory-structure", "observation-processing", "task-advice"}, ORDER[0]),
        ({"memory-prompt", "task-advice"}, None),
        ({"action-guard"}, None),
    ],
)
def test_edits_are_of_allowed_kinds(ask, allowed, first):
    assignment = ask(SICK, allowed, **FILES)
    assert next(iter(names(assignment)), None) == first
    RulesProposer().propose(assignment)
    if first:
        assert {change.kind for change in claimed(load(str(assignment.output)))} <= allowed
    else:
        assert not any(assignment.output.iterdir())
    if allowed == {"memory-structure"}:
        assert proposed(assignment).spec.files[0].about == NOTES["about"]


def test_a_continuation_or_a_repair_adds_nothing(ask, tmp_path):
    assignment = ask(SICK, **FILES)
    for more in ({"failed": Failed(tmp_path, "no gain", None, {})}, {"errors": "- does not load"}):
        proposal = RulesProposer().propose(replace(assignment, **more))
        assert (proposal.analysis, proposal.cost.calls) == ("", 0)
        assert not any(assignment.output.iterdir())


def test_a_healthy_scaffold_is_left_alone(ask):
    assert names(ask(ill(use("notes.txt")))) == []


def test_a_candidate_changes_what_it_says_and_nothing_else(ask):
    assignment = ask(SICK, **FILES)
    candidate = proposed(assignment)
    before, after = assignment.scaffold, candidate
    assert (after.name, after.spec.parent) == ("made-r1", "made")
    assert {path for path in before.texts if before.texts[path] != after.texts[path]} == {"scaffold.yaml"}
    assert after.texts.keys() - before.texts.keys() == {"CHANGES.md"}
    assert after.spec.memory == before.spec.memory
    assert after.spec.budget == before.spec.budget
    assert list(yaml.safe_load(after.texts["scaffold.yaml"]))[:3] == ["name", "parent", "about"]


def test_proposals_are_the_same_every_time(ask):
    first = proposed(ask(SICK, **FILES)).texts
    assert proposed(ask(SICK, **FILES)).texts == first


@pytest.mark.parametrize(
    ("parent", "name"),
    [
        ("courier-v0", "courier-v0-r1"),
        ("courier-v0-r1", "courier-v0-r2"),
        ("x-r99", "x-r100"),
        ("n" * 64, "n" * 61 + "-r1"),
        ("n" * 61 + "-r9", "n" * 60 + "-r10"),
    ],
)
def test_names_count_versions_and_stay_short(parent, name):
    assert next_name(parent) == name


# On real runs


def play(folder, scaffold, seeds):
    config = RunConfig(
        env="courier",
        tasks=["small"],
        seeds=seeds,
        scaffold=scaffold.name,
        scaffold_digest=scaffold.digest,
        models={"gameplay": ModelSpec(name="scripted:courier")},
    )
    return play_run(folder, config, scaffold, {"gameplay": scripted.make("courier")}, jobs=2).folder


def test_the_first_edit_of_the_couriers_log_plays_like_the_table_made_by_hand(tmp_path):
    seeds = [0]
    start, by_hand = load("courier-v0"), load("courier-v1")
    run = play(tmp_path / "v0", start, seeds)
    output = tmp_path / "candidate"
    output.mkdir()
    candidate = proposed(Assignment(start, run, diagnose(run), frozenset(KINDS), output, tmp_path / "log"))
    runs = [run, play(tmp_path / "r1", candidate, seeds), play(tmp_path / "v1", by_hand, seeds)]
    before, after, hand = (built.mean for built in build_table(runs).rows)
    assert before + 0.1 < after == hand
