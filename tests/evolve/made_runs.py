"""Run folders made by hand: each operation is executed on a real memory, and recorded as the agent would."""

from contextlib import closing
from itertools import pairwise

from automem.agent.agent import make_memory
from automem.episode import ModelSpec, text_digest
from automem.grammar import OPERATIONS, Operation
from automem.messages import Usage
from automem.play.folder import RunConfig, RunFolder
from automem.scaffold.logic import Logic
from automem.trace import Call, OperationRecord, Result, Step, TraceWriter

ENDED = Result(end="terminated", progress=0.5, score=0.5, steps=0)


def run(path, scaffold, *episodes, results=None):
    """A run with an episode per seed; an episode is a list of moments, see `moment`."""
    config = RunConfig(
        env="courier",
        tasks=["small"],
        seeds=list(range(len(episodes))),
        scaffold=scaffold.name,
        scaffold_digest=scaffold.digest,
        models={"gameplay": ModelSpec(name="scripted:courier")},
    )
    folder = RunFolder(path, config, {})
    path.mkdir(parents=True)
    folder.save()
    scaffold.save(path / "scaffold")
    for number, (spec, moments) in enumerate(zip(config.specs(), episodes, strict=True)):
        with closing(TraceWriter(folder.trace_path(spec), spec)) as writer:
            for step in steps(scaffold, moments):
                writer.step(step)
            result = results[number] if results else ENDED.model_copy(update={"steps": len(moments)})
            if result:
                writer.result(result)
    return folder


def moment(sees, log=(), plan=(), action="wait", prompt="# PLAN", **changes):
    """What one step sees, writes, asks and does; operations are tuples of name and arguments."""
    return {"sees": sees, "log": log, "plan": plan, "action": action, "prompt": prompt, "changes": changes}


def steps(scaffold, moments):
    """The steps of an episode that ends as it began to look in its last moment, with a full stop."""
    memory = make_memory(scaffold, Logic(scaffold.name, None))
    end = {"sees": f"{moments[-1]['sees']}."}
    for t, (now, after) in enumerate(pairwise([*moments, end])):
        calls = [
            Call(
                role="memory" if phase == "log" else "gameplay",
                phase=phase,
                messages=[{"role": "user", "content": f"# {phase.upper()}" if phase == "log" else now["prompt"]}],
                reply="reply",
                operations=[record(memory, op, t) for op in now[phase]],
                usage=Usage(prompt=100, completion=10),
            )
            for phase in ("log", "plan")
        ]
        facts = {"action": now["action"], "proposed": now["action"], "reward": 0.0, "progress": 0.0} | now["changes"]
        yield Step(
            t=t,
            observation=now["sees"],
            calls=calls,
            next_digest=text_digest(after["sees"]),
            memory=memory.take_journal(),
            **facts,
        )


def record(memory, operation, step):
    """The operation executed; one that is no memory operation is (name, argument, answer): it failed."""
    name, *args = operation
    if name in OPERATIONS and (OPERATIONS[name].reads or OPERATIONS[name].writes):
        done = memory.execute(Operation(name, tuple(args)), step)
        facts = {"hits": done.hits, "changed": done.changed, "repeat": done.repeat}
        facts["refusal"] = None if done.ok else "memory"
        return OperationRecord(name=name, args=args, ok=done.ok, result=done.text, **facts)
    refusals = {"rejected": "rejected", "held": "held", "error": "unknown action"}
    refusal = "malformed" if name == "?" else refusals[args[1].partition(":")[0]] if name == "ACTION" else "memory"
    return OperationRecord(name=name, args=args[:1], ok=False, result=args[1], refusal=refusal)
