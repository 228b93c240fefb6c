"""How much of a prompt a server's prefix cache can reuse, and whether prompts stay bounded.

A call's prompt is compared with the prompts of the last calls of the same episode; what it has in common
with the most similar one, from the first character on, need not be computed again.
"""

from collections import deque

from common import MOVES, Instant, config_of, play, table, temporary_run, trace_of

from automem.models import make_model
from automem.trace import TraceReader

REMEMBERED = 32
FROM, TO = 250, 350
PLACES = ((250, 350), (950, 1050), (1900, 2000))
FILES = ("map_notes.txt", "survival_log.txt", "actions_log.txt")


def as_text(messages):
    """A conversation as one text, the way chat templates join messages."""
    return "".join(f"<|{m['role']}|>{m['content']}" for m in messages)


def shared_prefix(one, other):
    """Length of the common prefix, by bisection."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


def shares(path):
    """(phase, round) -> [shared characters, characters, calls] over the steps FROM to TO."""
    earlier = deque(maxlen=REMEMBERED)
    found = {}
    for step in TraceReader(path).steps():
        rounds = dict.fromkeys(("log", "plan", "gameplay"), 0)
        for call in step.calls:
            text = as_text(call.messages)
            rounds[call.phase] += 1
            if FROM <= step.t < TO:
                shared = max(shared_prefix(text, other) for other in earlier)
                opening = "first call" if rounds[call.phase] == 1 else "later calls"
                total = found.setdefault((call.phase, opening), [0, 0, 0])
                for i, value in enumerate((shared, len(text), 1)):
                    total[i] += value
            earlier.append(text)
    return found


def reuse(name, model):
    """The table of one model."""
    config, scaffold = config_of("deathless", "default", "crafter-v0", name, max_steps=TO)
    with temporary_run() as folder:
        play(folder, config, scaffold, model)
        found = shares(trace_of(folder))
    total = [sum(column) for column in zip(*found.values(), strict=True)]
    rows = [(phase, which, *values) for (phase, which), values in sorted(found.items())]
    for phase in ("log", "plan"):
        of_phase = [values for (one, _), values in found.items() if one == phase]
        rows.append((phase, "all", *(sum(column) for column in zip(*of_phase, strict=True))))
    rows.append(("overall", "", *total))
    table(
        f"crafter-v0, {name}, steps {FROM} to {TO}: characters that were sent within the last {REMEMBERED} calls",
        ("phase", "calls", "reusable %", "chars a call", "number"),
        *((phase, which, 100 * shared / chars, chars // calls, calls) for phase, which, shared, chars, calls in rows),
    )


def growth(name, model):
    """Rows of input tokens a step around three steps."""
    config, scaffold = config_of("deathless", "default", "crafter-v0", name, max_steps=PLACES[-1][1])
    with temporary_run() as folder:
        play(folder, config, scaffold, model)
        tokens = [sum(call.usage.prompt for call in step.calls) for step in TraceReader(trace_of(folder)).steps()]
    at = [sum(tokens[start:end]) / (end - start) for start, end in PLACES]
    return name, *at, at[-1] / at[0]


if __name__ == "__main__":
    reuse("scripted:crafter", make_model("scripted:crafter", {}))
    reuse("scripted:instant", Instant(FILES, MOVES))
    table(
        "crafter-v0: input tokens a step (4 characters each), mean of 100 steps",
        ("model", *(f"{start}-{end}" for start, end in PLACES), "last/first"),
        growth("scripted:crafter", make_model("scripted:crafter", {})),
        growth("scripted:instant", Instant(FILES, MOVES)),
    )
