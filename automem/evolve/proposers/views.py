"""What happened in a run, as text for a proposer: episodes, steps, memory."""

from __future__ import annotations

from collections.abc import Iterator

from automem.episode import EpisodeSpec
from automem.errors import UsageError, did_you_mean
from automem.memory.files import Memory
from automem.play.folder import RunFolder
from automem.results.behaviour import read_behaviour
from automem.scaffold.spec import load_folder
from automem.trace import Call, OperationRecord, Step, TraceReader


def episodes(run: RunFolder) -> str:
    """One line for each episode: its id, how it ended, and what it did with its memory."""
    return "\n".join(_episode(run, spec) for spec in run.config.specs())


def step(run: RunFolder, episode: str, number: int) -> str:
    """One step: observation, replies, operations with their answers, action and what came of it.

    Raises:
        UsageError: no such episode or step.
    """
    found = _last(_steps(run, episode, number))
    parts = [f"# Step {number}", "## Observation", found.observation]
    for count, call in enumerate(found.calls, 1):
        parts += [f"## {call.phase.upper()}, call {count} ({call.role} model)", _reply(call).strip() or "(no text)"]
        parts += [_operation(operation) for operation in call.operations]
    proposed = f", proposed: {found.proposed}" if found.proposed not in (None, found.action) else ""
    default = " (by default: no valid action in time)" if found.fallback else ""
    parts += ["## Action", f"{found.action}{default}{proposed}"]
    parts += [f"rejected: {reason}" for reason in found.rejections]
    parts += [f"reward {found.reward:g}, progress {found.progress:.1%}", "## Changes of memory"]
    parts += [f"{s.file}: {s.removed} lines out, in: {list(s.inserted)}" for s in found.memory] or ["(none)"]
    return "\n".join(parts)


def search(run: RunFolder, episode: str, text: str) -> str:
    """The lines of an episode that contain `text`, each with its step.

    Raises:
        UsageError: no such episode.
    """
    wanted = text.casefold()
    found = [
        f"step {step.t}, {where}: {line}"
        for step in _steps(run, episode)
        for where, said in _said(step)
        for line in said.splitlines()
        if wanted in line.casefold()
    ]
    return "\n".join(found) or f"nothing in this episode contains '{text[:80]}'"


def memory(run: RunFolder, episode: str, number: int, file: str) -> str:
    """A memory file (none named: the list of files) as PLAN of a step could read it.

    Raises:
        UsageError: no such episode, step or file.
    """
    scaffold = load_folder(run.path / "scaffold")
    held = Memory(scaffold.spec.files, scaffold.spec.memory, scaffold.initial)
    for played in _steps(run, episode, number):
        held.replay(played.memory)
    if not file:
        return held.index() or "(no files)"
    if file not in held.names():
        raise UsageError(f"there was no memory file '{file}' at step {number}", did_you_mean(file, held.names()))
    return held.text(file) or "(empty)"


def _episode(run: RunFolder, spec: EpisodeSpec) -> str:
    path = run.trace_path(spec)
    where = f"{spec.id}  {spec.env}/{spec.task}"
    if not path.is_file():
        return f"{where}  not played"
    result, did = run.result(spec), read_behaviour(path)
    end = f"{result.end}, progress {result.progress:.1%}" if result else "unfinished"
    rates = {
        "unproductive steps": did.unproductive_rate,
        "invalid actions": did.invalid_action_rate,
        "empty searches": did.empty_search_rate,
        "repeated writes": did.repeat_write_rate,
    }
    told = ", ".join(f"{name} {rate:.0%}" for name, rate in rates.items() if rate is not None)
    return f"{where}  {end}, {did.steps} steps; {told}"


def _steps(run: RunFolder, episode: str, until: int | None = None) -> Iterator[Step]:
    """The steps of an episode, up to step `until`, which must be there."""
    count = 0
    for played in TraceReader(run.trace_of(episode)).steps():
        yield played
        count += 1
        if played.t == until:
            return
    if until is not None:
        raise UsageError(f"episode {episode} has no step {until}: it has {count} steps, from 0")


def _last(steps: Iterator[Step]) -> Step:
    *_, last = steps
    return last


def _said(step: Step) -> Iterator[tuple[str, str]]:
    yield "observation", step.observation
    for call in step.calls:
        yield f"{call.phase} reply", _reply(call)
        for operation in call.operations:
            yield f"answer to {operation.name}", operation.result
    yield "action", step.action


def _reply(call: Call) -> str:
    return "\n".join([call.reply, *(f"{tool['name']} {tool['arguments']}" for tool in call.tool_calls)])


def _operation(operation: OperationRecord) -> str:
    outcome = "" if operation.ok else " (not executed)"
    return f"- {operation.name} {' | '.join(operation.args)}{outcome} -> {operation.result}"
