"""`RecordedProposer`: proposes again what was proposed before, or scaffolds that someone wrote by hand."""

from __future__ import annotations

from pathlib import Path

from automem.errors import UsageError
from automem.evolve.base import Assignment, Proposal
from automem.evolve.lineage import Lineage
from automem.evolve.proposers.candidate import copy_files, emptied_on_failure
from automem.results.plays import Cost


class RecordedProposer:
    """Replays proposals, one for each row that the lineage has; then it has nothing more to propose."""

    def __init__(self, folder: Path) -> None:
        """`folder` is that of an earlier `automem evolve`, or one whose subfolders are scaffolds.

        Raises:
            UsageError: there are no candidates there.
        """
        self.name = f"recorded:{folder}"
        self._candidates = _candidates(folder)

    def propose(self, assignment: Assignment) -> Proposal:
        """Copy the candidate whose turn it is; a refused one stays as it was recorded.

        Raises:
            ProposerFailure: what was recorded is not a folder of small regular files.
        """
        position = len(assignment.lineage)
        if position >= len(self._candidates):
            return Proposal(f"nothing more is recorded: there are {len(self._candidates)} candidates", Cost())
        source = self._candidates[position]
        if source.is_dir() and assignment.errors is None:
            with emptied_on_failure(assignment.output):
                copy_files(source, assignment.output)
        return Proposal(f"recorded in {source}", Cost())

    def close(self) -> None:
        """Nothing is held."""


def _candidates(folder: Path) -> list[Path]:
    if (folder / "lineage.jsonl").is_file():
        found = [folder / row.folder / "candidate" for row in Lineage(folder).rows]
    elif folder.is_dir():
        found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    else:
        raise UsageError(f"there is no folder '{folder}' with recorded proposals")
    if not found:
        raise UsageError(f"'{folder}' holds no proposals", "expected lineage.jsonl, or scaffolds as subfolders")
    return found
