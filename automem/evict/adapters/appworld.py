"""AppWorld (Trivedi et al., ACL 2024): the steps of its agents as units, to fit scorers on and to evict from.

AppWorld writes each task that was played to `experiments/outputs/NAME/tasks/TASK/logs/environment_io.md`. Its package
and data are not needed to read that; they are to play (`pip install appworld`, `appworld install`, `appworld download
data`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from automem.errors import UsageError
from automem.evict.counting import Count, approximate_tokens
from automem.evict.units import Unit

#: Names of what the agent did and of what came back, in the package and in common exports of it.
_DONE = ("input", "code", "action")
_SEEN = ("output", "observation")

_STEP = re.compile(r"^#+ (?:Execution|Environment Interaction) \d+\n-+\n", re.MULTILINE)
_BLOCKS = re.compile(r"```python\n(.*)\n```\n\n```\n(.*)\n```", re.DOTALL)


def units_from_appworld(steps: Sequence[Mapping[str, str]], count: Count = approximate_tokens) -> list[Unit]:
    """A unit for each step: the code and what it gave. `world.environment_io` is such a list.

    Raises:
        UsageError: a step without an action or an observation.
    """
    texts = [f"{_one(step, _DONE, number)}\n{_one(step, _SEEN, number)}" for number, step in enumerate(steps)]
    return [Unit(index, text, count(text)) for index, text in enumerate(texts)]


def read_appworld_log(path: Path) -> list[dict[str, str]]:
    """The steps in an `environment_io.md`: input and output.

    Raises:
        UsageError: no such file, or another format.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        hint = "AppWorld writes it while it plays: pip install appworld, appworld install, appworld download data"
        raise UsageError(f"cannot read the AppWorld log {path}: {error.strerror}", hint) from error
    before, *parts = _STEP.split(text)
    found = [_BLOCKS.fullmatch(part.strip()) for part in parts]
    if before.strip() or not parts or None in found:
        raise UsageError(f"{path} is no log of AppWorld", "name an environment_io.md")
    return [{"input": match[1], "output": match[2]} for match in found if match]


def _one(step: Mapping[str, str], names: Sequence[str], number: int) -> str:
    for name in names:
        if name in step:
            return step[name]
    raise UsageError(f"step {number} of AppWorld has none of {', '.join(names)}: it has {', '.join(step) or 'nothing'}")
