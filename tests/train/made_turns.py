"""Runs whose every reply is given: operations are executed on a real memory and recorded as the agent does."""

from contextlib import closing
from itertools import pairwise

from automem.agent.agent import make_memory
from automem.episode import ModelSpec, text_digest
from automem.grammar import OPERATIONS, Malformed, parse
from automem.messages import Usage
from automem.play.folder import RunConfig, RunFolder
from automem.scaffold.logic import Logic
from automem.trace import Call, OperationRecord, Result, Step, TraceWriter
from automem.train.turns import episodes

DONE = "<|DONE|>"
WEST = "<|ACTION|>west<|END|>"


def append(text, file="notes.txt"):
    return f"<|APPEND|>{file}|{text}<|END|>"


def search(keyword, file="notes.txt"):
    return f"<|SEARCH|>{file}|{keyword}<|END|>"


def moment(sees, log=(), plan=(WEST,), progress=0.0):
    """What one step sees, the replies of its LOG and PLAN, and the progress that it leads to."""
    return {"sees": sees, "log": log, "plan": plan, "progress": progress}


def run(path, scaffold, *played, handoff=False, failed=()):
    """A run with an episode per seed; an episode is a list of moments."""
    path.mkdir(parents=True)
    config = RunConfig(
        env="courier",
        tasks=["small"],
        seeds=list(range(len(played))),
        scaffold=scaffold.name,
        scaffold_digest=scaffold.digest,
        models={"gameplay": ModelSpec(name="scripted:courier")},
    )
    folder = RunFolder(path, config, {})
    folder.save()
    scaffold.save(path / "scaffold")
    for spec, moments in zip(config.specs(), played, strict=True):
        with closing(TraceWriter(folder.trace_path(spec), spec)) as writer:
            for step in _steps(scaffold, moments, handoff):
                writer.step(step)
            bad = spec.seed in failed
            writer.result(
                Result(
                    end="failed" if bad else "terminated",
                    progress=moments[-1]["progress"],
                    score=0.0,
                    steps=len(moments),
                    failure="model" if bad else None,
                )
            )
    return folder


def episode(path, scaffold, *moments, **how):
    """The one episode of a run of these moments."""
    return next(episodes([run(path, scaffold, moments, **how)]))


def _steps(scaffold, moments, handoff):
    memory = make_memory(scaffold, Logic(scaffold.name, None))
    for t, (now, after) in enumerate(pairwise([*moments, {"sees": "the end"}])):
        calls = _phase(memory, t, "memory", "log", now["log"])
        calls += _phase(memory, t, "memory" if handoff else "gameplay", "plan", now["plan"])
        yield Step(
            t=t,
            observation=now["sees"],
            calls=calls,
            proposed="west",
            action="west",
            reward=0.0,
            progress=now["progress"],
            next_digest=text_digest(after["sees"]),
            memory=memory.take_journal(),
        )


def _phase(memory, t, role, phase, replies):
    messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": f"# {phase.upper()}"}]
    calls = []
    for reply in replies:
        records = [_record(memory, found, t, phase) for found in parse(reply)]
        usage = Usage(prompt=9, completion=9)
        calls.append(
            Call(role=role, phase=phase, messages=list(messages), reply=reply, operations=records, usage=usage)
        )
        told = "\n".join(record.result for record in records)
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": told or "go on"}]
    return calls


def _record(memory, found, t, phase):
    if isinstance(found, Malformed):
        return OperationRecord(name="?", args=[found.source], ok=False, result=found.error)
    spec = OPERATIONS[found.name]
    if not (spec.reads or spec.writes):
        return OperationRecord(name=found.name, args=list(found.args), ok=phase in spec.phases, result="ok")
    done = memory.execute(found, t)
    facts = {"ok": done.ok, "result": done.text, "hits": done.hits, "changed": done.changed, "repeat": done.repeat}
    return OperationRecord(name=found.name, args=list(found.args), **facts)
