"""GAMEPLAY: the untouched gameplay model commits the action (`plan: handoff` only).

It goes on with the conversation in which the memory model has consulted, and may consult further.
"""

from __future__ import annotations

from automem.agent.plan import commit, consult
from automem.agent.turn import Conversation, Turn


async def gameplay(turn: Turn) -> str | None:
    """The action committed by the gameplay model, or None when it named no valid one within its rounds."""
    consulted = await consult(turn)
    talk = Conversation(turn, "gameplay", "gameplay", consulted.messages)
    talk.tell(turn.prompt("gameplay"))
    return await commit(turn, talk, turn.setting.scaffold.spec.budget.gameplay_rounds)
