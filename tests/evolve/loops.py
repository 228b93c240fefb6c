"""Small evolve loops to be played in tests: a proposer that is told what to write, and a short game."""

import json
from hashlib import blake2b

import yaml

from automem.episode import Limits, ModelSpec
from automem.evolve.base import Proposal
from automem.evolve.config import EvolveConfig
from automem.evolve.loop import Evolution, opened
from automem.models import make_model
from automem.results.gate import MeanGate
from automem.results.plays import Cost, Game
from automem.scaffold.spec import load

#: On this gate seed and in so many steps the table of courier-v1 is just better than the log of courier-v0.
GATE, REPORT, STEPS = [7], [6], 45
COURIER = "scripted:courier"


def revised(base="courier-v1", name=None, kinds=("memory-structure",), logic=None, **spec):
    """Writes a candidate: the files of `base`, with keys of scaffold.yaml replaced."""

    def write(assignment):
        made = load(base)
        data = (
            yaml.safe_load(made.texts["scaffold.yaml"]) | {"name": name or f"{base}-x", "parent": "courier-v0"} | spec
        )
        texts = {**made.texts, "scaffold.yaml": yaml.safe_dump(data, sort_keys=False)}
        texts["CHANGES.md"] = "\n\n".join(["# x", *(f"## {kind}: changed\n\nWhy." for kind in kinds)])
        if logic:
            texts["logic.py"] = logic
        for path, text in texts.items():
            (assignment.output / path).parent.mkdir(parents=True, exist_ok=True)
            (assignment.output / path).write_text(text, encoding="utf-8")

    return write


def forgetful(lines=1):
    """A sound revision that plays no better: the log keeps next to nothing."""
    log = {"name": "notes.txt", "kind": "log", "keep": lines, "about": "what was seen where, newest last"}
    return revised("courier-v0", f"courier-short-{lines}", files=[log])


def nothing(assignment):
    """Writes nothing."""


def raising(failure):
    def write(assignment):
        raise failure

    return write


class Shelf:
    """A proposer that does one thing after the other; then it writes nothing. Keeps its assignments."""

    name = "shelf"

    def __init__(self, *acts, cost=None):
        self.acts = list(acts)
        self.asked = []
        self.cost = cost or Cost()

    def propose(self, assignment):
        self.asked.append(assignment)
        if self.acts:
            self.acts.pop(0)(assignment)
        return Proposal(f"proposal {len(self.asked)}", self.cost)


def config(start="courier-v0", model=COURIER, budget=None, **others):
    made = load(start)
    settings = {
        "env": "courier",
        "tasks": ["small"],
        "options": {},
        "start": made.name,
        "start_digest": made.digest,
        "models": {"gameplay": {"name": model, "settings": {}}},
        "proposer": "shelf",
        "gate": "mean",
        "gate_seeds": GATE,
        "report_seeds": REPORT,
        "limits": {"max_steps": STEPS},
        "budget": {"revisions": 1, "attempts": 1, "continuations": 0, **(budget or {})},
    }
    return EvolveConfig.model_validate({**settings, **others})


def evolve(folder, proposer, start="courier-v0", model=COURIER, models=None, gate=None, control=False, **others):
    """Run the loop in `folder`; `models` makes the model that plays where `model` is only its name."""
    asked = config(start, model, **others)
    game = Game(
        env="courier",
        tasks=tuple(asked.tasks),
        options={},
        models={"gameplay": ModelSpec(name=model)},
        make_models=models or (lambda: {"gameplay": make_model(model, {})}),
        limits=Limits(**asked.limits),
        jobs=2,
    )
    with opened(folder, asked):
        return Evolution(folder, asked, game, proposer, gate or MeanGate()).run(load(start), control)


def rows(folder):
    return [json.loads(line) for line in (folder / "lineage.jsonl").read_text(encoding="utf-8").splitlines()]


def verdicts(folder):
    """`revision.attempt+continuations: verdict` of every row."""
    return [f"{r['revision']}.{r['attempt']}{'+' * r['continuation']}: {r['verdict']}" for r in rows(folder)]


def best(folder):
    return load(str((folder / "best").resolve()))


def steps_played(folder):
    """Every trace, by its size and digest: what is played again is another one, if only by its timings."""
    return {
        str(path.relative_to(folder)): (len(data := path.read_bytes()), blake2b(data).hexdigest())
        for path in (folder / "plays").rglob("*.jsonl")
        if "traces" in path.parts
    }
