"""Writes the batch script of a job: directives, setup, server, commands. Everything else is in slurm/lib."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from automem.launch.cluster import Cluster, Resources, shipped
from automem.launch.job import Job
from automem.launch.plan import Part, Planned, endpoint_of

#: Kinds of model that `automem serve` serves by itself; any other is a name for vLLM.
SERVED_HERE = ("scripted", "replay", "local")
_MODULE = ("python", "-m", "vllm.entrypoints.openai.api_server")


@dataclass(frozen=True)
class ServerCommand:
    """What starts a server; address and port come after `words`, then `more` for vLLM behind a `--`.

    `models` must be there before it counts as ready. `adapters` are those that vLLM itself is told of; `watched` says
    that `automem serve` starts it and writes its log.
    """

    words: tuple[str, ...]
    more: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    watched: bool = False
    adapters: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where things are: the launch folder, the code that jobs run, and where commands start. All absolute."""

    out: Path
    snapshot: Path
    cwd: Path
    plugins: tuple[Path, ...] = ()

    def job(self, name: str) -> Path:
        """The folder of a job."""
        return self.out / "jobs" / name

    @property
    def lib(self) -> Path:
        """The shell library in the snapshot."""
        installed = self.snapshot / "automem/_shipped/slurm/lib"
        return installed if installed.is_dir() else self.snapshot / "slurm/lib"


def render(planned: Planned, part: Part, cluster: Cluster, place: Place, about: str) -> str:
    """The script of one part of a job; `about` says in one line what it was made from."""
    job = planned.job
    elements = range(part.first, part.first + part.count)
    return (
        _environment()
        .get_template(template_of(job, cluster))
        .render(
            about=about,
            directives=directives(planned, part, cluster, place),
            job=job,
            part=part,
            per=planned.per,
            total=len(job.tasks),
            folder=place.job(job.name),
            script=place.job(job.name) / part.script,
            place=place,
            cluster=cluster,
            resources=planned.resources,
            venv=cluster.setup.venv or _own_venv(),
            wrap=wrapper(cluster, planned.resources, place),
            server=server_command(job, cluster, planned.resources),
            tasks={number: job.tasks[number] for element in elements for number in planned.tasks_of(element)},
        )
    )


def template_of(job: Job, cluster: Cluster) -> str:
    """Which template the script of a job is made with."""
    if job.stage != "evaluate":
        return f"{job.stage}.sh.j2"
    return "evaluate-endpoint.sh.j2" if server_command(job, cluster, Resources()) is None else "evaluate-server.sh.j2"


def directives(planned: Planned, part: Part, cluster: Cluster, place: Place) -> list[str]:
    """The options of sbatch that stand in the script; what is not set is not there."""
    asked = planned.resources
    logs = place.job(planned.job.name) / "logs"
    named = {
        "--job-name": f"{place.out.name}.{planned.job.name}",
        "--partition": asked.partition,
        "--account": asked.account,
        "--qos": asked.qos,
        "--time": asked.time,
        "--cpus-per-task": asked.cpus,
        **_memory(asked),
        **_gpus(asked),
        "--array": _array(planned, part),
        "--chdir": place.cwd,
        "--output": logs / ("slurm-%A_%a.out" if planned.array else "slurm-%j.out"),
        "--open-mode": "append",
        "--signal": f"B:USR2@{cluster.signal_lead}",
    }
    return [
        *(f"{option}={shlex.quote(str(value))}" for option, value in named.items() if value is not None),
        "--requeue" if cluster.restarts else "--no-requeue",
        *asked.extra_directives,
    ]


def _memory(asked: Resources) -> dict[str, str | None]:
    return {} if asked.memory_as == "none" else {f"--{asked.memory_as}": asked.memory}


def _gpus(asked: Resources) -> dict[str, str]:
    if not asked.gpus:
        return {}
    amount = f"{asked.gpu_type}:{asked.gpus}" if asked.gpu_type else str(asked.gpus)
    return {"--gres": f"gpu:{amount}"} if asked.gpus_as == "gres" else {"--gpus-per-node": amount}


def _array(planned: Planned, part: Part) -> str | None:
    if not planned.array:
        return None
    return f"0-{part.count - 1}" + (f"%{planned.parallel}" if planned.parallel else "")


def wrapper(cluster: Cluster, asked: Resources, place: Place) -> tuple[str, ...]:
    """What stands before every command of a job: nothing, or what starts it in a container."""
    box = cluster.container
    mounts = dict.fromkeys([str(place.cwd), str(place.out), *box.mounts])
    if box.kind == "apptainer":
        binds = [word for mount in mounts for word in ("--bind", mount)]
        return ("apptainer", "exec", *(["--nv"] if asked.gpus else []), *box.options, *binds, str(box.image))
    if box.kind == "pyxis":
        shown = ",".join(mount if ":" in mount else f"{mount}:{mount}" for mount in mounts)
        images = (f"--container-image={box.image}", f"--container-mounts={shown}", f"--container-workdir={place.cwd}")
        return ("srun", "--overlap", "--ntasks=1", *images, *box.options)
    return ()


def server_command(job: Job, cluster: Cluster, asked: Resources) -> ServerCommand | None:
    """What starts the job's server; None where a job needs none, or one is there already."""
    if job.server is None or endpoint_of(job, cluster):
        return None
    name, adapters = job.server.model, job.server.adapters
    if name.partition(":")[0] in SERVED_HERE:
        return ServerCommand(("automem", "serve", name, *_faults(cluster)))
    if job.stage == "loop2":
        # Training needs the GPUs that a server would hold: `automem train` has them by turns.
        return None
    model = cluster.model(name)
    served = model.path or name
    gpus = str(model.tensor_parallel or max(1, asked.gpus))
    length = str(model.max_model_len) if model.max_model_len else None
    if cluster.server.start == "automem":
        lora = [word for pair in adapters.items() for word in ("--lora", "=".join(pair))]
        limit = ("--max-model-len", length) if length else ()
        # The server that it starts has its own name for the base, and keeps it beside that of the experiment.
        names = ("--served-model-name", name, served) if served != name else ()
        start = ("automem", "serve", served, *lora, "--tensor-parallel", gpus, *limit)
        more = (*names, *model.args)
        return ServerCommand((*start, "--deadline", str(cluster.server.deadline)), more, tuple(adapters), watched=True)
    start = ("vllm", "serve", served) if cluster.server.start == "vllm" else (*_MODULE, "--model", served)
    limit = ("--max-model-len", length) if length else ()
    options = ("--served-model-name", name, "--tensor-parallel-size", gpus, *limit, "--enable-prefix-caching")
    return ServerCommand((*start, *options, *model.args), models=tuple(adapters), adapters=dict(adapters))


def _faults(cluster: Cluster) -> tuple[str, ...]:
    return ("--faults", cluster.server.faults) if cluster.server.faults else ()


def _own_venv() -> str | None:
    return sys.prefix if sys.prefix != sys.base_prefix else None


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(shipped() / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["sh"] = lambda value: shlex.quote(str(value))
    environment.filters["words"] = lambda words: shlex.join(map(str, words))
    return environment
