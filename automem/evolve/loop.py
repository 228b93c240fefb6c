"""Loop 1: propose, check, play, gate, write down. Kill it anywhere and run it again: it goes on.

    evolve.json                    what was asked
    lineage.jsonl                  every proposal, accepted or not
    best/                          a copy of the best scaffold so far
    proposals/r1-a1-c0/            candidate/, proposal.json, the proposer's own files
    plays/gate-<digest>/           run folders, one for each scaffold and set of seeds
    plays/report-<digest>/         the start and the best, where there are report seeds

Everything is derived from these files: a slot (revision, attempt, continuation) with a row in the lineage is
decided, one with a proposal.json is proposed, and a run folder resumes itself.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from automem.errors import RunError, UsageError
from automem.evolve.base import Assignment, Failed, Proposer, Revision
from automem.evolve.changes import claimed
from automem.evolve.config import EvolveConfig
from automem.evolve.diagnose import diagnose
from automem.evolve.lineage import Lineage
from automem.evolve.propose import Proposed, propose_and_check
from automem.play import provenance
from automem.play.folder import RunFolder, locked, write_atomically
from automem.records import read_record
from automem.results.gate import Gate, GateResult
from automem.results.plays import Cost, Game, GatePlay, play
from automem.scaffold.spec import Scaffold, load_folder
from automem.text import printable


class BudgetUsedUp(Exception):
    """A hard stop of the loop was reached; the message names it."""


@dataclass(frozen=True)
class Outcome:
    """How the loop ended: why it stopped, and the start and the best on the report seeds.

    Without report seeds it is the gate seeds, as `purpose` says. `report` compares the two; None where one of them
    failed in play there.
    """

    stopped: str
    purpose: str
    start: GatePlay
    best: GatePlay
    report: GateResult | None


class Evolution:
    """One evolve folder being worked on."""

    def __init__(self, folder: Path, config: EvolveConfig, game: Game, proposer: Proposer, gate: Gate) -> None:
        self.folder = folder
        self.config = config
        self.lineage = Lineage(folder)
        self._game = game
        self._proposer = proposer
        self._gate = gate
        self._evaluator = provenance.evaluator_digest(config.env)
        self._base_cost = Cost()
        self._same_evaluator(folder, {row.evaluator for row in self.lineage.rows})

    def run(self, start: Scaffold, control: bool = False) -> Outcome:
        """Improve `start` until the budget is used up or a revision finds nothing better.

        Raises:
            RunError: play or a proposer's endpoint failed; nothing is lost, the same command goes on.
        """
        best, scores = self._resume(start)
        if control:
            self._control(best, scores)
        stopped = "all revisions were made"
        try:
            for revision in range(1, self.config.budget.revisions + 1):
                better = self._revise(revision, best, scores)
                if better is None:
                    stopped = f"revision {revision} found nothing better"
                    break
                best, scores = better
        except BudgetUsedUp as reached:
            stopped = f"the budget is used up: {reached}"
        return self._report(stopped, start, best)

    def _resume(self, start: Scaffold) -> tuple[Scaffold, GatePlay]:
        """The scaffold to go on from, and its gate run."""
        scores = self._play("gate", start, self.config.gate_seeds)
        self._base_cost = scores.cost
        if scores.fault:
            raise RunError(f"'{start.name}' itself fails in play: {scores.fault}", "mend it before it is improved")
        if not self.lineage.accepted():
            self._keep(start)
        return start, scores

    def _revise(self, revision: int, best: Scaffold, scores: GatePlay) -> tuple[Scaffold, GatePlay] | None:
        """A better scaffold, found in some attempt or its continuations; None when all have failed."""
        for attempt in range(1, self.config.budget.attempts + 1):
            failed: Failed | None = None
            for continuation in range(self.config.budget.continuations + 1):
                slot = (revision, attempt, continuation)
                row = self.lineage.find(*slot) or self._decide(slot, best, scores, failed)
                if row.verdict == "accepted":
                    accepted = self._candidate(row.folder, row.digest)
                    if row is self.lineage.accepted()[-1]:
                        self._keep(accepted)
                    return accepted, self._play("gate", accepted, self.config.gate_seeds)
                if row.verdict == "empty":
                    break  # there is nothing to mend
                failed = self._failed(row)
        return None

    def _decide(self, slot: tuple[int, int, int], best: Scaffold, scores: GatePlay, failed: Failed | None) -> Revision:
        """Propose, check, play and gate one candidate, and write the row."""
        name = "proposals/r{}-a{}-c{}".format(*slot)
        self._stop_if_used_up()
        self._say(
            f"revision {slot[0]}, attempt {slot[1]}{', continued' if slot[2] else ''}: {self._proposer.name} proposes"
        )
        proposed = self._propose(self.folder / name, best, scores, failed)
        row = Revision(
            revision=slot[0],
            attempt=slot[1],
            continuation=slot[2],
            proposer=self._proposer.name,
            parent=best.name,
            parent_digest=best.digest,
            folder=name,
            diagnosis=proposed.analysis,
            verdict=proposed.verdict or "rejected",
            reason=proposed.reason,
            repaired=proposed.repaired,
            before=scores.scores,
            evaluator=self._evaluator,
            proposal_cost=proposed.cost,
        )
        if proposed.verdict is None:
            row = self._gate_candidate(row, self._candidate(name, proposed.digest), scores)
        self.lineage.append(row)
        self._say(f"  {row.verdict}: {row.reason}")
        if row.verdict == "outage":
            raise RunError(f"the proposer could not be asked: {row.reason}", "the same command tries it again")
        return row

    def _propose(self, folder: Path, best: Scaffold, scores: GatePlay, failed: Failed | None) -> Proposed:
        """A candidate that has passed the check, or why there is none; from the disk if it was done before."""
        done = folder / "proposal.json"
        if done.is_file():
            return read_record(done, Proposed, "delete it: the proposer is then asked again")
        shutil.rmtree(folder / "candidate", ignore_errors=True)
        (folder / "candidate").mkdir(parents=True)
        spent = self._spent()
        budget = self.config.budget
        assignment = Assignment(
            scaffold=best,
            run=scores.run,
            diagnosis=diagnose(scores.run),
            allowed=frozenset(self.config.allowed),
            output=folder / "candidate",
            log=folder,
            lineage=tuple(self.lineage.rows),
            failed=failed,
            calls_left=budget.max_calls - spent.calls if budget.max_calls else None,
            tokens_left=budget.max_tokens - spent.tokens_in - spent.tokens_out if budget.max_tokens else None,
        )
        proposed = propose_and_check(self._proposer, assignment, self.config.env)
        if proposed.verdict != "outage":
            write_atomically(done, proposed.model_dump_json(indent=2) + "\n")
        return proposed

    def _candidate(self, folder: str, digest: str | None) -> Scaffold:
        """The candidate of a proposal, as it was checked."""
        candidate = load_folder(self.folder / folder / "candidate")
        if candidate.digest != digest:
            raise UsageError(f"{candidate.folder} is no longer what was checked", "put it back, or start a new folder")
        return candidate

    def _gate_candidate(self, row: Revision, candidate: Scaffold, scores: GatePlay) -> Revision:
        changes = [{"kind": change.kind, "title": change.title} for change in claimed(candidate)]
        row = row.model_copy(update={"scaffold": candidate.name, "digest": candidate.digest, "changes": changes})
        if twin := self._twin(candidate):
            reason = f"the same scaffold as in {twin.folder}: {twin.reason}"
            return row.model_copy(update={"after": twin.after, "gate": twin.gate, "reason": reason})
        self._stop_if_used_up(row.proposal_cost + self._base_cost)
        played = self._play("gate", candidate, self.config.gate_seeds)
        row = row.model_copy(update={"after": played.scores, "play_cost": played.cost})
        if played.fault:
            return row.model_copy(update={"verdict": "rejected", "reason": f"failed in play: {played.fault}"})
        result = self._gate.decide(scores.scores, played.scores)
        verdict = "accepted" if result.accepted else "rejected"
        return row.model_copy(
            update={"gate": result.data(), "verdict": verdict, "reason": f"{result.gate} gate: {result}"}
        )

    def _twin(self, candidate: Scaffold) -> Revision | None:
        """An earlier row about the very same scaffold: it was rejected, or it would be the best."""
        return next((row for row in self.lineage.rows if row.digest == candidate.digest), None)

    def _failed(self, row: Revision) -> Failed:
        folder = self.folder / row.folder / "candidate"
        played = self.folder / "plays" / f"gate-{row.digest}"
        run = RunFolder.read(played) if row.digest and (played / "run.json").is_file() else None
        return Failed(folder, row.reason, run, row.after)

    def _control(self, best: Scaffold, scores: GatePlay) -> None:
        """A/A: the unchanged scaffold once more, with other sampling seeds. What differs is noise."""
        again = self._play("control", best, self.config.gate_seeds, repeat=1)
        self._base_cost += again.cost
        if again.fault:
            raise RunError(f"'{best.name}' fails in the A/A control: {again.fault}", "mend it before it is improved")
        result = self._gate.decide(scores.scores, again.scores)
        write_atomically(self.folder / "control.json", json.dumps(result.data(), indent=2) + "\n")
        self._say(
            f"A/A control: {result}; {'ACCEPTED: the gate cannot tell noise here' if result.accepted else 'rejected'}"
        )

    def _report(self, stopped: str, start: Scaffold, best: Scaffold) -> Outcome:
        report, gate = self.config.report_seeds, self.config.gate_seeds
        purpose, seeds = ("report", report) if report else ("gate", gate)
        before = self._play(purpose, start, seeds)
        after = before if best.digest == start.digest else self._play(purpose, best, seeds)
        whole = not (before.fault or after.fault)
        return Outcome(
            stopped, purpose, before, after, self._gate.decide(before.scores, after.scores) if whole else None
        )

    def _play(self, purpose: str, scaffold: Scaffold, seeds: Sequence[int], repeat: int = 0) -> GatePlay:
        folder = self.folder / "plays" / f"{purpose}-{scaffold.digest}"
        if (folder / "run.json").is_file():
            self._same_evaluator(folder, {RunFolder.read(folder).record.get("evaluator")})
        return play(self._game, scaffold, seeds, folder, repeat)

    def _keep(self, best: Scaffold) -> None:
        """Make `best/` a copy of the best, whole at every moment."""
        target, fresh, old = self.folder / "best", self.folder / "best.new", self.folder / "best.old"
        if _holds(target, best.digest):
            return
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        best.save(fresh)
        if target.is_dir():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)

    def _spent(self) -> Cost:
        return sum((row.proposal_cost + row.play_cost for row in self.lineage.rows), self._base_cost)

    def _stop_if_used_up(self, coming: Cost | None = None) -> None:
        """Raise BudgetUsedUp when a limit is reached, or would be passed by what is `coming`."""
        if reached := self.config.budget.reached(self._spent() + (coming or Cost())):
            raise BudgetUsedUp(reached)

    def _same_evaluator(self, place: Path, evaluators: Set[str | None]) -> None:
        if others := evaluators - {self._evaluator}:
            raise UsageError(
                f"{place} was scored by another evaluator ({', '.join(map(str, others))}), this one is "
                f"{self._evaluator}",
                "scores of different code are not compared: start a new folder",
            )

    def _say(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)


def _holds(folder: Path, digest: str) -> bool:
    """Whether the scaffold with this digest stands in `folder`, whole."""
    try:
        return load_folder(folder).digest == digest
    except UsageError:
        return False


@contextmanager
def opened(folder: Path, config: EvolveConfig) -> Iterator[None]:
    """Make or reopen an evolve folder for `config`, and hold its lock.

    Raises:
        UsageError: it holds something else, was made with other settings, or is being written.
    """
    config.check_seeds()
    file = folder / "evolve.json"
    if folder.is_file():
        raise UsageError(f"-o {folder}: there is a file of that name")
    names = [path.name for path in folder.iterdir()] if folder.is_dir() and not file.is_file() else []
    # What a start that was killed at once may have left.
    if any(name != "run.lock" and not name.startswith(".evolve.json.") for name in names):
        raise UsageError(f"-o {folder}: the folder holds something else", "choose a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make {folder}: {error.strerror}") from error
    with locked(folder / "run.lock"):
        if file.is_file() and (differences := config.differences(read_config(folder))):
            raise UsageError(f"{folder} was made with other settings: {'; '.join(differences)}", "choose another -o")
        write_atomically(file, config.model_dump_json(indent=2) + "\n")
        yield


def read_config(folder: Path) -> EvolveConfig:
    """What was asked of the evolve folder.

    Raises:
        UsageError: it is not one, or is damaged.
    """
    file = folder / "evolve.json"
    if not file.is_file():
        raise UsageError(f"{folder} is not an evolve folder: there is no {file}")
    return read_record(file, EvolveConfig, "put it right, bring it back from a copy, or choose another -o")


def best_gate_run(folder: Path) -> RunFolder:
    """The gate run of the best scaffold of an evolve folder.

    Raises:
        UsageError: nothing has been played there.
    """
    best = folder / "best"
    if not best.is_dir():
        raise UsageError(f"{folder} has no best scaffold yet")
    return RunFolder.read(folder / "plays" / f"gate-{load_folder(best).digest}")
