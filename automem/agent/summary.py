"""SUMMARY: the memory model writes what left the prompt as one short text (policy `summary` of `context`).

It is asked at the beginning of the step after an eviction, of which it sees nothing. The reply is part of the trace
like any other, and resuming takes the summary from there.
"""

from __future__ import annotations

from automem.agent.turn import Conversation, Turn


async def summarise(turn: Turn) -> None:
    """Let the memory model write the summary anew, if steps have left since it did."""
    summary = turn.setting.history.summary
    if summary is None or not summary.leaving:
        return
    talk = Conversation(turn, "memory", "summary", turn.opening("summary"))
    for operation in await talk.ask():
        # Nothing is offered here: what looks like an operation is recorded as refused.
        await talk.execute(operation)
    summary.take(turn.calls)
