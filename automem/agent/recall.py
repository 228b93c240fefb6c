"""RECALL: a model asks for past steps that eviction took out of its prompt."""

from __future__ import annotations

from automem.agent.context import History
from automem.evict.archive import excerpt
from automem.grammar import Operation, check
from automem.memory.files import OperationResult

#: Characters kept free for the heading of each step and the line above them.
_HEADINGS = 100


def recall(history: History, operation: Operation, limit: int) -> OperationResult:
    """The evicted steps that fit the question, best first, in about `limit` characters together."""
    if problem := check(operation):
        return OperationResult(False, problem)
    query = operation.args[0]
    found = history.recall(query)
    if found is None:
        return OperationResult(True, "nothing was evicted: no archive of past steps is kept here", 0)
    if not found:
        return OperationResult(True, f"no evicted step has anything to do with '{excerpt(query, '', 80)}'", 0)
    room = max(1, (limit - _HEADINGS) // len(found) - _HEADINGS)
    steps = [f"# Step {one.evicted.unit.index}\n{excerpt(one.evicted.unit.text, query, room)}" for one in found]
    return OperationResult(True, "\n\n".join([f"{len(found)} evicted steps, best first:", *steps]), len(found))
