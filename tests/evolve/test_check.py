"""The check: everything that speaks against a candidate is told at once, before any play is paid for."""

from types import SimpleNamespace

import pytest
from loops import forgetful, revised

from automem.errors import UsageError
from automem.evolve.changes import KINDS
from automem.evolve.check import check_candidate
from automem.scaffold.spec import load

READS, WRITES = ["SEARCH", "READ", "ACTION"], ["SEARCH", "APPEND", "DONE"]


@pytest.fixture
def problems(tmp_path):
    """What speaks against the candidate that `write` writes."""

    def check(write, parent="courier-v0", env="courier", allowed=KINDS):
        write(SimpleNamespace(output=tmp_path))
        return check_candidate(tmp_path, load(parent), env, frozenset(allowed))[1]

    return check


@pytest.mark.parametrize("write", [revised(), forgetful(), revised(env=None)])
def test_sound_revisions(problems, write):
    assert problems(write) == []


def test_all_problems_are_told_at_once(problems):
    found = problems(
        revised(env="crafter", kinds=["action-guard"], budget={"log_rounds": 9}), allowed=["memory-prompt"]
    )
    assert found[0] == "scaffold.yaml: env is 'crafter', but the game is 'courier'"
    assert "the files show a change of kind memory-structure, which CHANGES.md does not claim" in found
    assert "a change of kind memory-structure is not allowed here" in found
    assert "CHANGES.md claims a change of kind action-guard, which is not allowed here" in found
    assert "CHANGES.md claims a change of kind action-guard, which the files do not show" in found
    assert "budget.log_rounds is 9, above the 3 it was: limits stay where they were" in found


def test_what_does_not_load_is_an_error(tmp_path):
    revised()(SimpleNamespace(output=tmp_path))
    (tmp_path / "prompts" / "plan.j2").unlink()
    with pytest.raises(UsageError, match=r"prompts/plan\.j2 must be there"):
        check_candidate(tmp_path, load("courier-v0"), "courier", frozenset(KINDS))


@pytest.mark.parametrize(
    "operations",
    [
        {"log": ["APPEND"], "plan": READS},
        {"log": ["SEARCH", "WRITE", "DONE"], "plan": READS},
        {"log": WRITES, "plan": ["TAIL", "ACTION"]},
        {"log": ["CREATE", "APPEND"], "plan": READS},
    ],
)
def test_fewer_operations_are_a_structure(problems, operations):
    assert problems(revised("courier-v0", operations=operations)) == []


@pytest.mark.parametrize(
    ("operations", "problem"),
    [
        ({"log": [], "plan": READS}, "write to memory in LOG"),
        ({"log": ["SEARCH", "DONE"], "plan": READS}, "write to memory in LOG"),
        ({"log": ["UPSERT", "DELETE", "DONE"], "plan": READS}, "write to memory in LOG"),
        ({"log": ["CREATE", "DONE"], "plan": READS}, "write to memory in LOG"),
        ({"log": WRITES, "plan": ["ACTION"]}, "read memory in PLAN"),
        ({"log": WRITES, "plan": ["COUNT", "ACTION"]}, "read memory in PLAN"),
    ],
)
def test_the_model_keeps_writing_and_reading(problems, operations, problem):
    (found,) = problems(revised("courier-v0", operations=operations))
    assert found.startswith(f"the model can no longer {problem}")


def test_a_parent_without_memory_asks_for_none(problems):
    assert problems(revised("window", "window-x", budget={"plan_rounds": 3, "history": 4}), parent="window") == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"memory": {"file_chars": 4001, "search_results": 10, "read_lines": 30}}, "memory.file_chars is 4001"),
        ({"memory": {"file_chars": 4000, "search_results": None, "read_lines": 30}}, "memory.search_results is None"),
        ({"budget": {"log_rounds": 3, "plan_rounds": 5, "history": 2}}, "budget.plan_rounds is 5, above the 4"),
        ({"budget": {"log_rounds": 3, "plan_rounds": 4, "history": 3}}, "budget.history is 3, above the 2"),
        ({"budget": {"log_rounds": 3, "plan_rounds": 4, "history": 2, "rejections": 9}}, "budget.rejections is 9"),
    ],
)  # fmt: skip
def test_limits_are_not_raised(problems, spec, problem):
    (found,) = problems(revised(**spec))
    assert found.startswith(problem)


def test_lower_limits_and_smaller_files_are_fine(problems):
    memory = {"file_chars": 3000, "search_results": 5, "read_lines": 30}
    table = {"name": "places.txt", "kind": "table", "key": ["name"], "max_chars": 2000}
    assert problems(revised(memory=memory, files=[table])) == []
    (found,) = problems(revised(memory=memory, files=[{**table, "max_chars": 4001}]))
    assert found == "max_chars of places.txt is 4001, above the 4000 that a file might have"
