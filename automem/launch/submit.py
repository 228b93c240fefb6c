"""Gives the jobs of a launch to Slurm: all are checked first, and if one is refused later, none stays."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from automem.errors import AutoMemError, RunError
from automem.launch import slurm
from automem.launch.folder import LaunchFolder, Submission
from automem.launch.plan import Part, Planned

Tell = Callable[[str], None]


def check(folder: LaunchFolder, tell: Tell) -> None:
    """Have the scheduler look at every script.

    Raises:
        RunError: it would refuse one.
    """
    for planned in folder.jobs:
        for part in planned.parts:
            said = slurm.test(folder.job(planned.job.name) / part.script)
            tell(f"{planned.job.name}: {said}")


def submit_all(
    folder: LaunchFolder,
    tell: Tell,
    elements: Mapping[str, Sequence[int]] | None = None,
    active: Sequence[Submission] = (),
) -> None:
    """Submit the jobs in the order of their needs; with `elements`, only those, and of them only these elements.

    `active` are earlier submissions that have not ended: what needs them waits for them, too.

    Raises:
        RunError: one was refused; those submitted before it were cancelled.
    """
    wanted = {planned.job.name: range(planned.elements) for planned in folder.jobs} if elements is None else elements
    made: list[Submission] = []
    try:
        for planned in folder.jobs:
            if planned.job.name in wanted:
                for submission in _submit(folder, planned, wanted[planned.job.name], [*active, *made]):
                    made.append(submission)
                    tell(f"submitted {planned.job.name} as {submission.slurm_id}")
    except (AutoMemError, KeyboardInterrupt) as error:
        _take_back(made, tell)
        if isinstance(error, AutoMemError):
            raise
        raise RunError("interrupted; nothing stays submitted") from None
    folder.submitted(made)


def _submit(
    folder: LaunchFolder, planned: Planned, wanted: Sequence[int], before: Sequence[Submission]
) -> Iterator[Submission]:
    after, kind = dependency(planned, before)
    for part in planned.parts:
        indices = [element - part.first for element in wanted if 0 <= element - part.first < part.count]
        if not indices:
            continue
        some = indices if planned.array and len(indices) < part.count else ()
        script = folder.job(planned.job.name) / part.script
        name = slurm.submit(script, after, kind, some)
        yield Submission(
            job=planned.job.name,
            part=part.number,
            slurm_id=name,
            elements=[part.first + index for index in indices],
            at=time.time(),
        )


def dependency(planned: Planned, before: Sequence[Submission]) -> tuple[list[str], str]:
    """What a job waits for, and how: the table is made even if some of its jobs have failed."""
    ids = [submission.slurm_id for submission in before if submission.job in planned.job.needs]
    return ids, "afterany" if planned.job.stage == "aggregate" else "afterok"


def commands(jobs: Sequence[Planned], out: Path) -> Iterator[str]:
    """The commands that `submit_all` would run; ids are not known yet and stand as $JOB."""
    made: list[Submission] = []
    for planned in jobs:
        after, kind = dependency(planned, made)
        for part in planned.parts:
            words = ["sbatch", "--parsable", *slurm.options(after, kind), str(out / _script(planned, part))]
            yield " ".join(word if word.startswith("--dependency") else shlex.quote(word) for word in words)
            name = f"${planned.job.name}" + (f"-{part.number}" if part.number > 1 else "")
            made.append(Submission(job=planned.job.name, part=part.number, slurm_id=name, elements=[], at=0))


def _script(planned: Planned, part: Part) -> Path:
    return Path("jobs") / planned.job.name / part.script


def _take_back(made: Sequence[Submission], tell: Tell) -> None:
    if made:
        tell(f"cancelling {len(made)} jobs that were submitted before")
        slurm.cancel([submission.slurm_id for submission in made])
