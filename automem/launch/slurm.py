"""Slurm's client programs: each call has a time limit, and refusals are told in the scheduler's own words."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from automem.errors import RunError, UsageError, did_you_mean

#: Stands for the state of a job that the scheduler does not know any more.
GONE = "GONE"
#: Seconds that a program may take which changes something, and one that only tells.
PATIENT, QUICK = 60.0, 10.0


@dataclass(frozen=True)
class Seen:
    """What the scheduler says about a job or an element: `4711` or `4711_3`."""

    id: str
    state: str
    exit_code: int | None = None
    reason: str = ""


class Refused(RunError):
    """The scheduler does not take a job."""


def test(script: Path) -> str:
    """Have a script checked, not submitted; returns what the scheduler says, such as the time it would start.

    Raises:
        Refused: it would not be taken.
        RunError: there is no Slurm here, or it does not answer.
    """
    done = _call(["sbatch", "--test-only", str(script)])
    if done.returncode:
        raise _refusal(done.stderr, script)
    return _words(done.stderr)


def submit(script: Path, after: Sequence[str] = (), kind: str = "afterok", elements: Iterable[int] = ()) -> str:
    """Submit a script, to start when the jobs `after` have succeeded (`afterok`) or ended (`afterany`).

    `elements` are indices of its array; without any it is all that the script says. Returns the job's id.

    Raises:
        Refused: it is not taken.
        RunError: Slurm does not answer.
    """
    done = _call(["sbatch", "--parsable", *options(after, kind, elements), str(script)])
    if done.returncode:
        raise _refusal(done.stderr, script)
    return done.stdout.strip().partition(";")[0]


def options(after: Sequence[str], kind: str, elements: Iterable[int] = ()) -> list[str]:
    """The options of sbatch that are not in the script, because the same script is submitted again by hand."""
    # Without the second, a job whose need has failed stays in the queue for ever.
    needs = [f"--dependency={kind}:{':'.join(after)}", "--kill-on-invalid-dep=yes"] if after else []
    wanted = ",".join(map(str, elements))
    return [*needs, *([f"--array={wanted}"] if wanted else [])]


def cancel(ids: Sequence[str]) -> None:
    """Cancel jobs or elements; those that have ended already are passed over.

    Raises:
        RunError: Slurm does not answer, or refuses.
    """
    done = _call(["scancel", *ids]) if ids else None
    if done and done.returncode and "already completing or completed" not in done.stderr.lower():
        raise RunError(f"scancel: {_words(done.stderr)}")


def max_array_size() -> int | None:
    """The site's MaxArraySize: indices of an array are below it. None if the scheduler does not say."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", _ask(["scontrol", "show", "config"]), re.MULTILINE)
    return int(found[1]) if found else None


def look(ids: Sequence[str]) -> dict[str, Seen]:
    """What sacct, then scontrol, know about the jobs `ids` and their elements, by the name of each.

    What neither knows is missing: sacct lags by seconds, and some sites have none.
    """
    if not ids:
        return {}
    seen = {entry.id: entry for entry in _from_sacct(ids)}
    for job in ids:
        if not any(_belongs(name, job) for name in seen):
            seen |= {entry.id: entry for entry in _from_scontrol(job)}
    return seen


def held(ids: Iterable[str]) -> dict[str, Seen]:
    """What the controller knows about the jobs `ids` and their elements; what it has forgotten is missing."""
    return {entry.id: entry for job in ids for entry in _from_scontrol(job) if entry.state != GONE}


def _belongs(name: str, job: str) -> bool:
    return name.partition("_")[0] == job


def _from_sacct(ids: Sequence[str]) -> Iterator[Seen]:
    fields = "JobID,State,ExitCode"
    for line in _ask(["sacct", "-X", "-n", "-P", "-j", ",".join(ids), "-o", fields]).splitlines():
        job, state, code = line.split("|")
        for name in _expanded(job):
            yield Seen(name, state.split()[0], _exit_code(code))


def _from_scontrol(job: str) -> Iterator[Seen]:
    done = _try(["scontrol", "show", "job", "-o", job])
    if done is not None and "Invalid job id" in done.stderr:
        yield Seen(job, GONE)
    for line in done.stdout.splitlines() if done is not None else ():
        facts = dict(part.partition("=")[::2] for part in line.split() if "=" in part)
        if "JobId" not in facts:
            continue
        task = facts.get("ArrayTaskId")
        name = f"{facts['ArrayJobId']}_[{task}]" if task and not task.isdecimal() else facts["JobId"]
        name = f"{facts['ArrayJobId']}_{task}" if task and task.isdecimal() else name
        for each in _expanded(name):
            yield Seen(each, facts["JobState"], _exit_code(facts.get("ExitCode", "")), facts.get("Reason", ""))


def _expanded(name: str) -> Iterator[str]:
    """`7_[1-3,5%2]` is four elements."""
    job, bracket, inside = name.partition("_[")
    if not bracket:
        yield name
        return
    for part in inside.rstrip("]").partition("%")[0].split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            yield from (f"{job}_{index}" for index in range(int(first), int(last or first) + 1))


def _exit_code(text: str) -> int | None:
    """`CODE:SIGNAL`; a signal counts as shells count it."""
    code, _, signal = text.partition(":")
    if not code.isdecimal():
        return None
    return 128 + int(signal) if signal.isdecimal() and int(signal) and int(code) == 0 else int(code)


def _try(command: list[str]) -> subprocess.CompletedProcess[str] | None:
    """A program that only tells; None where it is not there or is slow: some sites have no sacct."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=QUICK)
    except (OSError, subprocess.TimeoutExpired):
        return None


def _ask(command: list[str]) -> str:
    """What it says; nothing where it fails."""
    done = _try(command)
    return done.stdout if done is not None and done.returncode == 0 else ""


def _call(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENT)
    except FileNotFoundError as error:
        raise RunError(
            f"there is no {command[0]} here", "launch from a login node of a Slurm cluster, or use --on local"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise RunError(f"{command[0]} does not answer within {PATIENT:.0f} s", "is the cluster up?") from error


def _words(text: str) -> str:
    lines = (line.split(": ", 1)[-1] if line.startswith("sbatch: ") else line for line in text.splitlines())
    return "; ".join(line.strip() for line in lines if line.strip())


def _refusal(said: str, script: Path) -> Refused:
    return Refused(f"the scheduler refuses {script.parent.name}: {_words(said)}", _hint(said, script))


#: Words in a refusal -> what helps. The first that fits counts: limits are told with accounts and QOS in their text.
_HINTS = {
    "requested time limit": "key time in the cluster file; `sinfo -o '%P %l'` shows the limits",
    "limit": "set submit_limit in the cluster file, or wait until other jobs have ended",
    "array": "set max_array_size in the cluster file",
    "node configuration": "no node has so many CPUs, GPUs or so much memory: see `sinfo -N -o '%N %c %m %G'`",
    "gres": "see gpu_type and gpus_as in the cluster file, and `sinfo -o '%P %G'`",
    "contact": "is the cluster up? `scontrol ping` tells",
}
#: Words that name a key of the cluster file -> the key, and the question whose answer has the names that there are.
_NAMES = {
    "invalid account": ("account", ["sacctmgr", "-nP", "show", "assoc", "format=account"]),
    "partition": ("partition", ["sinfo", "-h", "-o", "%R"]),
    "account": ("account", ["sacctmgr", "-nP", "show", "assoc", "format=account"]),
    "qos": ("qos", ["sacctmgr", "-nP", "show", "qos", "format=name"]),
}


def _hint(said: str, script: Path) -> str | None:
    text = said.lower()
    for word, hint in _HINTS.items():
        if word in text:
            return hint
    for word, (key, question) in _NAMES.items():
        if word in text:
            return f"key {key} in the cluster file; {_known(script, key, question)}"
    return None


def _known(script: Path, option: str, question: list[str]) -> str:
    """The nearest name to what the script asks for, of those that the scheduler knows."""
    names = {name.strip() for name in _ask(question).splitlines() if name.strip()}
    asked = re.search(rf"^#SBATCH --{option}=(\S+)", script.read_text(encoding="utf-8"), re.MULTILINE)
    if not names:
        return f"`{' '.join(question)}` shows what there is"
    return did_you_mean(asked[1] if asked else "", names)


def require() -> None:
    """Raise what says that there is no Slurm here, before anything is written.

    Raises:
        UsageError: there is none.
    """
    try:
        subprocess.run(["sbatch", "--version"], capture_output=True, timeout=QUICK)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError("there is no sbatch here", "launch from a login node, or use --on local") from error
