"""PLAN: consult memory, then commit one action.

`merged`: one model does both in one conversation. `handoff`: the memory model only consults, and the
conversation goes on in GAMEPLAY (AutoMem, section 3 and the two-model variant).

A reply that asks memory and commits an action at once has not seen the answer yet: the action is held, the
answer is sent, and the model commits in its next reply. In the last round there is no next reply, so there
the action counts.
"""

from __future__ import annotations

from automem.agent.turn import Conversation, Reply, Turn, is_named
from automem.grammar import Operation, reads, without
from automem.trace import OperationRecord, Refusal

_HELD = "held: memory was asked in the same reply. Read the answer, then commit an ACTION."
_MISSING = "No operation was found in the reply. Commit one ACTION."


async def plan(turn: Turn) -> str | None:
    """The action that the model commits, or None when it named no valid one within its rounds."""
    talk = Conversation(turn, "gameplay", "plan", turn.opening("plan"))
    return await commit(turn, talk, turn.setting.scaffold.spec.budget.plan_rounds)


async def consult(turn: Turn) -> Conversation:
    """Let the memory model consult; its own ACTION is cut away, and the conversation can go on."""
    talk = Conversation(turn, "memory", "plan", turn.opening("plan"))
    for _ in range(turn.setting.scaffold.spec.budget.plan_rounds):
        reply = await talk.ask()
        records = []
        acted = done = False
        for operation in reply:
            if is_named(operation, "ACTION"):
                talk.note(operation, "left to the gameplay model")
                acted = True
            elif is_named(operation, "DONE"):
                records.append(talk.note(operation, "ok"))
                done = True
            else:
                records.append(await talk.execute(operation))
        _cut_action(talk, reply)
        if records:
            talk.answer(records)
        if acted or done or not reply:
            break
    return talk


async def commit(turn: Turn, talk: Conversation, rounds: int) -> str | None:
    """Go on with `talk` until an action is committed or the rounds are used up."""
    for left in reversed(range(rounds)):
        reply = await talk.ask()
        records, action = await _execute(turn, talk, reply, last=left == 0)
        if action is not None:
            return action
        if records:
            talk.answer(records)
        else:
            talk.tell(_MISSING)
    return None


async def _execute(
    turn: Turn, talk: Conversation, reply: Reply, last: bool
) -> tuple[list[OperationRecord], str | None]:
    """Execute a reply in the order written, up to the first action that stands."""
    records: list[OperationRecord] = []
    action: str | None = None
    asked = False
    for operation in reply:
        if action is not None:
            record = talk.note(operation, "not executed: the action is already committed", "after the end")
        elif not (isinstance(operation, Operation) and operation.name == "ACTION"):
            record = await talk.execute(operation)
            asked = asked or reads(record.name)
        elif asked and not last:
            record = talk.note(operation, _HELD, "held")
        else:
            action, answer, refusal = await _judge(turn, operation.args[0])
            record = talk.note(operation, answer, refusal)
        records.append(record)
    return records, action


async def _judge(turn: Turn, text: str) -> tuple[str | None, str, Refusal | None]:
    """The action that `text` stands for, what the model is answered, and why the action is not taken (if not)."""
    setting = turn.setting
    turn.proposed = text
    if "repair" in setting.logic.functions:
        repaired = setting.logic.repaired.get(text)
        if repaired is None:
            repaired = await setting.worker(setting.logic.repair, text, step=turn.step)
        text = repaired
    action = setting.env.find_action(text)
    if action is None:
        known = ", ".join(setting.env.actions)
        return None, f"error: '{text}' is not an action; the actions are: {known}", "unknown action"
    if "guard" in setting.logic.functions and len(turn.rejections) < setting.scaffold.spec.budget.rejections:
        state, history = turn.variables["state"], turn.history
        reason = await setting.worker(setting.logic.guard, action, state, history, step=turn.step)
        if reason is not None:
            turn.rejections.append(f"{action}: {reason}")
            return None, f"rejected: {reason}", "rejected"
    return action, "ok", None


def _cut_action(talk: Conversation, reply: Reply) -> None:
    """Take the ACTION out of the memory model's last reply, so that the gameplay model decides alone."""
    message = talk.messages[-1]
    message["content"] = without(message["content"], "ACTION").strip()
    if calls := message.pop("tool_calls", None):
        kept = [call for call, operation in zip(calls, reply, strict=True) if not is_named(operation, "ACTION")]
        if kept:
            message["tool_calls"] = kept
    if not message["content"] and "tool_calls" not in message:
        message["content"] = "(memory consulted)"
