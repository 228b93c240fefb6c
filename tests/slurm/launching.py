"""Launches made by hand, and what is seen of them from outside."""

import re
import subprocess
import sys
import time
from pathlib import Path

from automem.config import validate
from automem.launch import folder as folders
from automem.launch import local, submit
from automem.launch.cluster import Cluster
from automem.launch.job import Job, Server
from automem.launch.plan import plan
from automem.launch.status import look

CI = {
    "partition": "main",
    "time": "00:10:00",
    "resources": {"cpu": {"cpus": 1, "memory": "256M"}},
    "server": {"deadline": 60},
    "restarts": 3,
}
#: A timing as it stands in a line of a trace, and the digest over all of them.
_TIMES = re.compile(rb'"(seconds|digest)":(?:\{[^}]*\}|[0-9.e-]+|"[0-9a-f]{32}")')


def cluster(**changes):
    return validate(Cluster, {**CI, **changes}, "ci")


def play(out, seeds="0", task="small", model="scripted:courier", steps=20, **options):
    """A command that plays Courier."""
    more = [word for key, value in options.items() for word in ("-s", f"{key.replace('__', '.')}={value}")]
    words = ("automem", "run", f"courier/{task}", "-S", "courier-v1", "-m", model, "--seeds", seeds)
    return (*words, "--max-steps", str(steps), *more, "-o", str(out))


def job(name, *tasks, stage="evaluate", **settings):
    return Job(name=name, stage=stage, tasks=tasks, **settings)


def served(name, *tasks, **settings):
    return job(name, *tasks, server=Server(model="scripted:courier"), **settings)


def made(out, jobs, site, on="slurm", size=31):
    return folders.make(out, "made", None, "ci", site, plan(jobs, site, size), on)


def submitted(out, jobs, site=None):
    """A launch whose jobs are in the queue."""
    launch = made(out, jobs, site or cluster())
    submit.submit_all(launch, lambda text: None)
    return launch


def run_here(out, jobs):
    launch = made(out, jobs, cluster(), "local", sys.maxsize)
    local.run_all(launch, lambda text: None)
    return launch


def until(condition, seconds=120.0):
    """What `condition` returns once it is true."""
    end = time.monotonic() + seconds
    while True:
        if found := condition():
            return found
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def states(launch):
    return {status.name: [element.state for element in status.elements] for status in look(launch)}


def wait(launch, seconds=600.0):
    """The states of all elements, once all have ended."""
    until(lambda: all(status.ended for status in look(launch)), seconds)
    return states(launch)


def element(launch, name, number=0):
    (status,) = [status for status in look(launch) if status.name == name]
    return status.elements[number]


def log(launch, name, number=0, attempt=1, file="job.log"):
    return (launch.job(name) / f"logs/{number}/attempt_{attempt}/{file}").read_text()


def traces(out):
    """The traces of a run, without timings."""
    found = sorted((out / "traces").rglob("*.jsonl"))
    return {path.name: _TIMES.sub(rb'"\1":0', path.read_bytes()) for path in found}


def steps(out):
    """How many steps are written."""
    return sum(path.read_bytes().count(b'"kind":"step"') for path in out.rglob("traces/**/*.jsonl"))


def queue():
    """What waits or runs, by name."""
    done = subprocess.run(["squeue", "-h", "-o", "%j %T"], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.split("\n")[:-1]


def left_behind(launch):
    """Processes that carry the mark of a job of this launch, or stand in its folder's name."""
    mark = f"JOB_FOLDER={launch.path}/".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                found.append((process.name, (process / "cmdline").read_bytes()))
        except OSError:
            continue
    return found


def scheduler_state(slurm_id):
    """The state in sacct, which lags by seconds."""
    done = subprocess.run(
        ["sacct", "-X", "-n", "-P", "-j", slurm_id, "-o", "State,ExitCode"], capture_output=True, text=True, timeout=30
    )
    return done.stdout.strip()
