"""Which episode of a run `--episode` means, the same for all commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from automem.episode import EpisodeSpec
    from automem.play.folder import RunFolder

EPISODE = "Episode: its id, seed or TASK/SEED; where no seed is that number, its place, counted from 0. [the first]"


def chosen(run: RunFolder, episode: str | None) -> EpisodeSpec:
    """The episode that is meant; where it is meant by its place, stderr says which one that is.

    Raises:
        UsageError: there is none, or nothing of it was played yet.
    """
    specs = run.config.specs()
    if episode is None:
        spec = specs[0]
    elif _is_place(episode, specs):
        spec = specs[int(episode)]
        which = f"{spec.task}, seed {spec.seed} ({spec.id})"
        print(f"note: {run.path} has no seed {episode}; by place, from 0, that is {which}", file=sys.stderr)
    else:
        spec = run.find(episode)
    run.trace_of(spec.id)
    return spec


def _is_place(episode: str, specs: Sequence[EpisodeSpec]) -> bool:
    if not episode.isdecimal() or len(episode) > 9 or any(str(spec.seed) == episode for spec in specs):
        return False
    return int(episode) < len(specs)
