"""LOG: write down what has just happened.

A fresh conversation of memory operations, ended by DONE, by a reply without operations, or by the budget
of rounds (AutoMem, section 3; at step 0 nothing has happened yet).
"""

from __future__ import annotations

from automem.agent.turn import Conversation, Turn, is_named


async def log(turn: Turn) -> None:
    """Let the memory model record the outcome of the previous step."""
    talk = Conversation(turn, "memory", "log", turn.opening("log"))
    for _ in range(turn.setting.scaffold.spec.budget.log_rounds):
        reply = await talk.ask()
        records = []
        done = not reply
        for operation in reply:
            if done:
                records.append(talk.note(operation, "not executed: it stands after DONE", "after the end"))
            elif is_named(operation, "DONE"):
                records.append(talk.note(operation, "ok"))
                done = True
            else:
                records.append(await talk.execute(operation))
        if done:
            return
        talk.answer(records)
