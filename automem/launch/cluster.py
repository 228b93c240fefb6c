"""A cluster, as its users describe it in a YAML file: what to ask of Slurm, how to set up, how to serve models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from automem import plugins
from automem.config import read_yaml, validate
from automem.errors import UsageError, did_you_mean

#: Options that the launcher sets itself -> the key that is for them.
_OWN = {
    "--account": "account",
    "--array": "parallel",
    "--chdir": None,
    "--cpus-per-task": "cpus",
    "--dependency": None,
    "--error": None,
    "--gpus-per-node": "gpus",
    "--gres": "gpus",
    "--job-name": None,
    "--mem": "memory",
    "--mem-per-cpu": "memory",
    "--open-mode": None,
    "--output": None,
    "--partition": "partition",
    "--qos": "qos",
    "--requeue": "restarts",
    "--signal": "signal_lead",
    "--time": "time",
}


def _word(value: Any) -> Any:
    if isinstance(value, str) and (not value or value.split() != [value]):
        raise ValueError("one word, without spaces")
    return value


def _time(value: Any) -> Any:
    if isinstance(value, int):
        # YAML reads 24:00:00 as the number 86400.
        raise ValueError("write it in quotes, for example '24:00:00'")
    return value


def _directive(value: Any) -> Any:
    text = str(value)
    if not text.startswith("-") or "\n" in text:
        raise ValueError("an option of sbatch on one line, for example --constraint=a100")
    option = text.partition("=")[0].split()[0]
    if option in _OWN:
        key = _OWN[option]
        raise ValueError(f"{option} is set by the launcher" + (f": use the key {key}" if key else ""))
    return text


def _path(value: Any) -> Any:
    return str(Path(value).expanduser()) if isinstance(value, str) else value


Word = Annotated[str, BeforeValidator(_word)]
Time = Annotated[str, BeforeValidator(_time), Field(pattern=r"^(\d+-)?\d+(:\d+){0,2}$")]
Memory = Annotated[str, Field(pattern=r"^\d+[KMGT]?$")]
Directive = Annotated[str, BeforeValidator(_directive)]
Folder = Annotated[str, BeforeValidator(_path)]


class Asked(BaseModel):
    """What is asked of the scheduler; what is not set is not printed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: Word | None = Field(default=None, description="Partition.")
    account: Word | None = Field(default=None, description="Account that is charged.")
    qos: Word | None = Field(default=None, description="Quality of service.")
    time: Time | None = Field(default=None, description="Time limit of a job, in quotes: '24:00:00', '2-00:00:00'.")
    extra_directives: tuple[Directive, ...] = Field(
        default=(), description="More options of sbatch, as they are: --constraint=a100."
    )


class Resources(Asked):
    """A class of resources that jobs name: cpu, gpu, gpu-large. Its keys win over those of the cluster."""

    cpus: int | None = Field(default=None, ge=1, description="CPUs of a job.")
    memory: Memory | None = Field(default=None, description="Memory, for example 64G; see memory_as.")
    memory_as: Literal["mem", "mem-per-cpu", "none"] = Field(
        default="mem", description="How memory is asked for; none where the site gives it with CPUs or GPUs."
    )
    gpus: int = Field(default=0, ge=0, description="GPUs of a job, all on one node.")
    gpu_type: Word | None = Field(default=None, description="Type of the GPUs, for example a100.")
    gpus_as: Literal["gres", "gpus-per-node"] = Field(default="gres", description="How GPUs are asked for.")


class Setup(BaseModel):
    """What a job does first on its node."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    modules: tuple[Word, ...] = Field(default=(), description="Environment modules to load.")
    venv: Folder | None = Field(
        default=None, description="Virtual environment with automem in it; not set: the one that launches."
    )
    commands: tuple[str, ...] = Field(default=(), description="More lines of shell.")


class Container(BaseModel):
    """A wrapper round every command and server of a job; optional."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["none", "apptainer", "pyxis"] = "none"
    image: str | None = Field(default=None, description="Image: a .sif file, or what pyxis understands.")
    mounts: tuple[str, ...] = Field(default=(), description="Folders to show inside, FROM or FROM:TO.")
    options: tuple[str, ...] = Field(default=(), description="More options of the wrapper, for example --nv.")


class ServedModel(BaseModel):
    """How one model is served here; keys that are set win over those of `server`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Folder | None = Field(default=None, description="Folder of its weights; not set: its name on the hub.")
    tensor_parallel: int | None = Field(default=None, ge=1, description="GPUs that share it.")
    max_model_len: int | None = Field(default=None, ge=1, description="Longest context in tokens.")
    resources: str | None = Field(default=None, description="Class of resources, whatever the experiment says.")
    args: tuple[str, ...] = Field(default=(), description="More arguments of vLLM.")


class Server(BaseModel):
    """How models are served inside a job."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: Literal["automem", "vllm", "module"] = Field(
        default="automem",
        description="`automem serve`, which checks and probes adapters; or vLLM itself, as the program `vllm serve` or "
        "as `python -m vllm.entrypoints.openai.api_server`.",
    )
    tensor_parallel: int | None = Field(default=None, ge=1, description="GPUs of a model. [all of the job]")
    max_model_len: int | None = Field(default=None, ge=1, description="Longest context in tokens. [the model's]")
    deadline: int = Field(default=1800, ge=1, description="Seconds that loading may take.")
    silence: int = Field(default=120, ge=5, description="Seconds that a loaded server may not answer.")
    args: tuple[str, ...] = Field(default=(), description="More arguments of vLLM.")
    faults: str = Field(default="", description="Faults of a scripted: stand-in, see `automem serve`; for tests.")


class Endpoint(BaseModel):
    """A server that is there already, used instead of starting one in each job."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(pattern=r"^https?://\S+$", description="Its address, for example http://node7:8000/v1.")
    resources: str = Field(default="cpu", description="Class of resources of jobs that use it.")


class Hub(BaseModel):
    """The cache of the model hub, seen by login and compute nodes alike."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Folder | None = Field(default=None, description="HF_HOME, for example /scratch/me/hf.")
    offline: bool = Field(default=True, description="Jobs use only what `automem prefetch` has fetched.")


class Cluster(Asked):
    """Everything that differs between sites."""

    resources: dict[str, Resources] = Field(description="Classes of resources by name.")
    setup: Setup = Setup()
    container: Container = Container()
    server: Server = Server()
    endpoint: Endpoint | None = None
    models: dict[str, ServedModel] = Field(default={}, description="Models by the name that experiments use.")
    hub: Hub = Hub()
    max_array_size: int | None = Field(default=None, ge=2, description="Site's MaxArraySize. [asked of scontrol]")
    submit_limit: int | None = Field(default=None, ge=1, description="Jobs and array elements in the queue at most.")
    parallel: int | None = Field(default=None, ge=1, description="Elements of one array that run at once at most.")
    signal_lead: int = Field(default=90, ge=10, description="Seconds before the time limit that a job stops at.")
    restarts: int = Field(default=10, ge=0, description="Times that a job goes back to the queue by itself.")
    scratch: Folder = Field(default="/tmp", max_length=40, description="Node-local folder for temporary files.")

    def ask(self, name: str) -> Resources:
        """The class `name`, with what the cluster says about all.

        Raises:
            UsageError: there is none.
        """
        if name not in self.resources:
            raise UsageError(f"the cluster has no resources '{name}'", did_you_mean(name, self.resources))
        own = self.resources[name]
        shared = {key: getattr(self, key) for key in Asked.model_fields if key not in own.model_fields_set}
        return own.model_copy(update=shared)

    def model(self, name: str) -> ServedModel:
        """How the model `name` is served: its own entry, completed by what holds for all."""
        own = self.models.get(name, ServedModel())
        return own.model_copy(
            update={
                "tensor_parallel": own.tensor_parallel or self.server.tensor_parallel,
                "max_model_len": own.max_model_len or self.server.max_model_len,
                "args": self.server.args + own.args,
            }
        )


def load_cluster(name: str) -> Cluster:
    """The cluster in a YAML file, by path or by the name of a shipped one.

    Raises:
        UsageError: there is none, or it is not valid; names file, line and key.
    """
    path = _find(name)
    try:
        cluster = validate(Cluster, _read(path), path)
    except UsageError as error:
        if error.hint:
            raise
        raise UsageError(error.message, _how_to_write_one()) from error
    if cluster.container.kind != "none" and not cluster.container.image:
        raise UsageError(f"{path}: container.image is missing", f"container.kind is {cluster.container.kind}")
    for asked in (m.resources for m in cluster.models.values() if m.resources):
        cluster.ask(asked)
    return cluster


def shipped(folder: str = "slurm") -> Path:
    """A folder that comes with AutoMem: in the checkout, or in the installed package."""
    checkout = plugins.PACKAGE.parent / folder
    return checkout if checkout.is_dir() else plugins.PACKAGE / "_shipped" / folder


def _find(name: str) -> Path:
    path = Path(name)
    if path.is_file():
        return path
    known = {file.stem: file for file in (shipped() / "clusters").glob("*.yaml")}
    if name in known:
        return known[name]
    if os.sep in name or path.suffix in (".yaml", ".yml"):
        what = "that is a folder" if path.is_dir() else "there is no such file"
        raise UsageError(f"no cluster file '{name}': {what}", _how_to_write_one())
    raise UsageError(f"no cluster file '{name}'", f"{did_you_mean(name, known)} {_how_to_write_one()}")


def _read(path: Path) -> dict[str, Any]:
    if _is_empty(path):
        raise UsageError(f"{path} is empty", f"`resources` is needed; {_how_to_write_one()}")
    return read_yaml(path)


def _is_empty(path: Path) -> bool:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False  # who reads it says why it cannot
    return all(not line.strip() or line.lstrip().startswith("#") for line in lines)


def _how_to_write_one() -> str:
    return f"copy {shipped()}/clusters/example.yaml; {shipped()}/README.md explains every key"
