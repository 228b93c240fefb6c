"""Loop 2: select, clean, verify, train, play, write down, adopt. Kill it anywhere and run it again: it goes on.

    train.json                     what was asked
    ledger.jsonl                   every recipe, adopted or not
    best/                          a copy of the adopted adapter, in PEFT's format
    plans/i1.json                  what the engine proposed
    datasets/<digest>/             rows and card, by what they follow from
    recipes/i1-c1/                 job.json, adapter/, result.json, train.log, checkpoints/
    plays/gate-<digest>/           run folders: by adapter, `base` for none
    plays/report-<digest>/

Everything is derived from these files. A run folder has the hash of the adapter in its name and the ledger has it in
each row, so nothing can be scored that was not trained.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from automem.errors import RunError, UsageError
from automem.models.weights import adapter_digest
from automem.play import provenance
from automem.play.folder import locked, write_atomically
from automem.records import read_record
from automem.results.gate import Gate
from automem.results.plays import Cost, Game, GatePlay, play
from automem.results.stats import paired
from automem.scaffold.spec import Scaffold
from automem.train import dataset
from automem.train.config import TrainConfig
from automem.train.engine import Engine, Plan, View, recipes
from automem.train.job import Job, ReportTo, Trained
from automem.train.ledger import Ledger, LedgerRow
from automem.train.players import Players
from automem.train.recipe import Recipe, Unfit
from automem.train.select import Selector
from automem.train.turns import Episode
from automem.train.verify import verify

#: Confidence of the interval of the paired difference on the report seeds.
CONFIDENCE = 0.90
#: What took long to make and follows from the settings; and what is made again in moments.
_WORK = ("ledger.jsonl", "plays", "recipes/*/result.json", "recipes/*/checkpoints/checkpoint-*")
_DERIVED = ("plans", "datasets", "recipes")
MakeSelector = Callable[[Recipe], Selector]


@dataclass(frozen=True)
class Outcome:
    """How the loop ended: why it stopped, the scaffold alone on the report seeds, and the adopted row, if any."""

    stopped: str
    base: GatePlay
    best: LedgerRow | None
    best_run: GatePlay | None


@dataclass(frozen=True)
class Bench:
    """What training and playing need besides the config."""

    episodes: Sequence[Episode]
    scaffold: Scaffold
    players: Players
    game: Game
    engine: Engine
    gate: Gate
    make_selector: MakeSelector
    train: Callable[[Job], Trained]
    report_to: ReportTo
    tell: Callable[[str], None]


class Training:
    """One train folder being worked on."""

    def __init__(self, folder: Path, config: TrainConfig, bench: Bench) -> None:
        self.folder = folder
        self.config = config
        self.ledger = Ledger(folder)
        self._bench = bench
        self._tell = bench.tell
        self._evaluator = provenance.evaluator_digest(config.env)
        self._check_evaluator()

    def run(self) -> Outcome:
        """Train, play and decide until the iterations are made or the engine has nothing more to try.

        Raises:
            RunError: training, play or a model failed; nothing is lost, the same command goes on.
        """
        if best := self.ledger.best():
            self._adopt(best)
        stopped = "all iterations were made"
        for iteration in range(1, self.config.iterations + 1):
            view = View(iteration, self.config.recipe, [row for row in self.ledger.rows if row.iteration < iteration])
            plan = self._plan(view)
            if plan is None:
                stopped = f"the engine had nothing to try in iteration {iteration}"
                break
            for number, recipe in enumerate(recipes(plan, view), 1):
                if not self.ledger.find(iteration, number):
                    self._decide(iteration, number, recipe, plan)
        best = self.ledger.best()
        return Outcome(stopped, self._play("report", None), best, self._play("report", best) if best else None)

    def _plan(self, view: View) -> Plan | None:
        """The plan of an iteration; from the disk if it was made before."""
        file = self.folder / "plans" / f"i{view.iteration}.json"
        if file.is_file():
            return read_record(file, Plan, "delete it: the engine is then asked again")
        plan = self._bench.engine.propose(view)
        if plan:
            file.parent.mkdir(exist_ok=True)
            write_atomically(file, plan.model_dump_json(indent=2) + "\n")
        return plan

    def _decide(self, iteration: int, number: int, recipe: Recipe, plan: Plan) -> None:
        """Train and play one recipe, and write its row."""
        reason = plan.configs[number - 1].reason
        self._tell(f"iteration {iteration}, recipe {number}: {reason}")
        row = LedgerRow(
            iteration=iteration,
            config=number,
            recipe=recipe,
            recipe_digest=recipe.digest,
            engine=self._bench.engine.name,
            reason=reason,
            data=plan.data,
            base=self._bench.players.base,
            base_digest=self._bench.players.digest,
            folder=f"recipes/i{iteration}-c{number}",
            verdict="refused",
            why="",
            evaluator=self._evaluator,
        )
        row = self._tried(row)
        self.ledger.append(row)
        self._tell(f"  {row.verdict}: {row.why}")
        if row.verdict == "adopted":
            self._adopt(row)

    def _tried(self, row: LedgerRow) -> LedgerRow:
        """The row with everything that came of it."""
        if twin := next((other for other in self.ledger.rows if other.recipe_digest == row.recipe_digest), None):
            return row.model_copy(update={"why": f"the same recipe as in {twin.folder}"})
        try:
            folder, card = self._dataset(row.recipe)
            trained = self._train(row, folder, card)
        except Unfit as error:
            if row.iteration == 1:
                raise
            return row.model_copy(update={"why": error.message})
        row = row.model_copy(
            update={
                "dataset": str(folder.relative_to(self.folder)),
                "dataset_digest": folder.name,
                "rows": card.rows,
                "held_out_rows": card.held_out,
                "dropped": card.dropped,
                "trained": trained,
                "adapter": trained.adapter,
            }
        )
        return self._scored(row)

    def _dataset(self, recipe: Recipe) -> tuple[Path, dataset.Card]:
        """The rows of a recipe, built if they were not, and verified against the traces in any case."""
        selector = self._bench.make_selector(recipe)
        name = dataset.identity(self._bench.episodes, recipe.selection, self.config.selector)
        folder = self.folder / "datasets" / name
        if not (folder / "card.json").is_file():
            dataset.build(self._bench.episodes, recipe.selection, selector, folder, self._tell)
        card = verify(folder, self._bench.episodes)
        self._tell(f"{card.rows} rows of {card.turns} turns, {card.held_out} held out; all verified")
        if card.rows < recipe.selection.min_rows:
            self._tell(f"warning: fewer rows than the {recipe.selection.min_rows} that the recipe asks for")
        return folder, card

    def _train(self, row: LedgerRow, folder: Path, card: dataset.Card) -> Trained:
        players = self._bench.players
        job = Job(
            name=row.recipe.name,
            base=players.base,
            base_digest=players.digest,
            dataset=str(folder),
            digests=card.digests,
            lora=row.recipe.lora,
            out=str(self.folder / row.folder),
            report_to=self._bench.report_to,
            provenance={
                "base_digest": players.digest,
                "recipe": row.recipe_digest,
                "dataset": folder.name,
                "rows": card.rows - card.held_out,
                "runs": ", ".join(card.runs),
                "scaffold": f"{self.config.scaffold} ({self.config.scaffold_digest})",
                "env": self.config.env,
            },
        )
        trained = self._bench.train(job)
        if card.supervised_tokens != trained.supervised_tokens:
            dataset.write_card(folder, card.model_copy(update={"supervised_tokens": trained.supervised_tokens}))
        return trained

    def _scored(self, row: LedgerRow) -> LedgerRow:
        """The row with its scores on gate and report seeds, and the gate's verdict."""
        best = self.ledger.best()
        before, after = self._play("gate", best), self._play("gate", row)
        result = self._bench.gate.decide(before.scores, after.scores)
        base, report = self._play("report", None), self._play("report", row)
        pairs = paired(*_aligned(base, report), confidence=CONFIDENCE)
        return row.model_copy(
            update={
                "before": before.scores,
                "after": after.scores,
                "gate": result.data(),
                "base_report": base.scores,
                "report": report.scores,
                "difference": {**vars(pairs), "confidence": CONFIDENCE},
                "verdict": "adopted" if result.accepted else "rejected",
                "why": f"{result.gate} gate against {best.folder if best else 'the base alone'}: {result}",
                "play_cost": sum((played.cost for played in (after, report)), Cost()),
            }
        )

    def _play(self, purpose: str, row: LedgerRow | None) -> GatePlay:
        """The run of a recipe's adapter, or of the base alone, on gate or report seeds.

        Raises:
            UsageError: the adapter is not the one that the row is about.
        """
        adapter = self._adapter(row) if row else None
        digest = row.adapter if row else "base"
        bench = self._bench
        game = Game(
            env=bench.game.env,
            tasks=bench.game.tasks,
            options=bench.game.options,
            models=bench.players.specs(adapter, digest),
            make_models=lambda: bench.players.models(adapter, digest),
            limits=bench.game.limits,
            jobs=bench.game.jobs,
        )
        seeds = self.config.gate_seeds if purpose == "gate" else self.config.report_seeds
        played = play(game, bench.scaffold, seeds, self.folder / "plays" / f"{purpose}-{digest}")
        if played.fault:
            raise RunError(f"the scaffold failed in play: {played.fault}", "nothing was decided; mend the scaffold")
        return played

    def _adapter(self, row: LedgerRow) -> Path:
        adapter = self.folder / row.folder / "adapter"
        if adapter_digest(adapter) != row.adapter:
            raise UsageError(f"{adapter} is not the adapter that was trained", "restore it, or start a new folder")
        return adapter

    def _adopt(self, row: LedgerRow) -> None:
        """Make `best/` a copy of the adopted adapter, whole at every moment."""
        target, fresh, old = self.folder / "best", self.folder / "best.new", self.folder / "best.old"
        if target.is_dir() and adapter_digest(target) == row.adapter:
            return
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(self._adapter(row), fresh)
        if target.is_dir():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)

    def _check_evaluator(self) -> None:
        if others := {row.evaluator for row in self.ledger.rows} - {self._evaluator}:
            raise UsageError(
                f"{self.folder}: its rows were scored by another evaluator ({', '.join(others)}), "
                f"this one is {self._evaluator}",
                "scores of different code are not compared: start a new folder",
            )


@contextmanager
def opened(folder: Path, config: TrainConfig) -> Iterator[None]:
    """Make or reopen a train folder for `config`, and hold its lock.

    Raises:
        UsageError: it holds something else, was made with other settings, or is being written.
    """
    config.check_seeds()
    file = folder / "train.json"
    if folder.exists() and not file.is_file() and any(folder.iterdir()):
        raise UsageError(f"-o {folder}: the folder holds something else", "choose a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "run.lock"):
        if file.is_file() and (differences := config.differences(read_config(folder))):
            if any(made for pattern in _WORK for made in folder.glob(pattern)):
                raise UsageError(
                    f"{folder} was made with other settings: {'; '.join(differences)}", "choose another -o"
                )
            # What was refused before anything was trained may be asked differently.
            for name in _DERIVED:
                shutil.rmtree(folder / name, ignore_errors=True)
        write_atomically(file, config.model_dump_json(indent=2) + "\n")
        yield


def read_config(folder: Path) -> TrainConfig:
    """What was asked of the train folder.

    Raises:
        UsageError: it is not one, or is damaged.
    """
    file = folder / "train.json"
    if not file.is_file():
        raise UsageError(f"{folder} is not a train folder: there is no {file}")
    return read_record(file, TrainConfig, "put it right, bring it back from a copy, or choose another -o")


def _aligned(before: GatePlay, after: GatePlay) -> tuple[list[float], list[float]]:
    return [before.scores[key] for key in before.scores], [after.scores[key] for key in before.scores]
