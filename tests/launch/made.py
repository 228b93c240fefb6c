"""Jobs and clusters made by hand."""

import shutil
import subprocess
import sys
from pathlib import Path

from automem.config import validate
from automem.launch.cluster import Cluster
from automem.launch.job import Job, Server
from automem.launch.plan import plan
from automem.launch.render import Place, render

MODEL = "Qwen/Qwen2.5-32B-Instruct"


def cluster(**keys):
    return validate(Cluster, {"resources": {"cpu": {}}, **keys}, "made")


def job(name="play", tasks=(("true",),), stage="evaluate", **others):
    return Job(name=name, stage=stage, tasks=tasks, **others)


def served(model=MODEL, adapters=None, **others):
    return job(server=Server(model=model, adapters=adapters or {}), **others)


def place(out="/scratch/me/runs/made"):
    return Place(Path(out), Path(out) / "snapshot", Path("/home/me/work"))


def script(made, site, size=1001, number=0):
    """The script of the first part of a job."""
    (planned,) = plan([made], site, size)
    return render(planned, planned.parts[number], site, place(), "Experiment made.")


def directives(text):
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def shellcheck(*files):
    program = Path(sys.executable).with_name("shellcheck")
    command = [str(program) if program.is_file() else shutil.which("shellcheck"), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def bash_takes(text):
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
