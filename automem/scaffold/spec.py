"""`Scaffold`: a folder of text that says how the agent keeps and uses its memory.

scaffold.yaml     files, operations offered per phase, budgets, plan: merged | handoff
prompts/          system.j2 log.j2 plan.j2 gameplay.j2 summary.j2 and partials
memory/           initial contents of files
logic.py          optional: pure functions, run in the sandbox
CHANGES.md        what this version changed and why
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from automem import plugins
from automem.config import overridden, read_yaml, validate
from automem.episode import digest
from automem.errors import RunError, UsageError
from automem.grammar import OPERATIONS
from automem.memory.files import MemoryLimits
from automem.memory.kinds import FileSpec
from automem.messages import Phase

#: A scaffold is text for people to read; a file larger than this is not that.
MAX_FILE = 256 * 1024
MAX_FILES = 64
#: The file of a scaffold that holds its fitted scorer.
SCORER = "scorer.json"
_READING = ["SEARCH", "READ", "TAIL", "COUNT"]
_FOLDERS = {"prompts": ".j2", "memory": ""}
_FILES = ("scaffold.yaml", "logic.py", "CHANGES.md", "scorer.json")


class Operations(BaseModel):
    """Which operations each phase offers. A phase that offers none is skipped."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    log: list[str] = Field(default_factory=list, description="Offered while logging.")
    plan: list[str] = Field(default_factory=lambda: [*_READING, "ACTION"], description="Offered while planning.")
    gameplay: list[str] = Field(
        default_factory=lambda: [*_READING, "ACTION"], description="Offered to the gameplay model (handoff)."
    )

    def offers(self, name: str) -> bool:
        """Whether some phase offers the operation `name`."""
        return any(name in offered for offered in (self.log, self.plan, self.gameplay))

    @model_validator(mode="after")
    def _known(self) -> Operations:
        for phase in ("log", "plan", "gameplay"):
            for name in getattr(self, phase):
                if name not in OPERATIONS:
                    raise ValueError(f"unknown operation '{name}' in {phase}; known: {', '.join(OPERATIONS)}")
                if phase not in OPERATIONS[name].phases:
                    raise ValueError(f"operation {name} cannot be offered in {phase}")
        for phase in ("plan", "gameplay"):
            if "ACTION" not in getattr(self, phase):
                raise ValueError(f"{phase} must offer ACTION")
        return self


class Budget(BaseModel):
    """How much one step may cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    log_rounds: int = Field(10, ge=1, description="Model calls in one LOG phase at most.")
    plan_rounds: int = Field(10, ge=1, description="Model calls in one PLAN phase at most.")
    gameplay_rounds: int = Field(10, ge=1, description="Model calls in one GAMEPLAY phase at most (handoff).")
    rejections: int = Field(2, ge=0, description="Actions that `guard` may reject in one step.")
    history: int = Field(16, ge=1, le=256, description="Past steps that prompts and logic can see.")
    reply_chars: int = Field(16_000, ge=200, description="Characters of a reply that are read.")
    operations: int = Field(32, ge=1, description="Operations of one reply that are executed.")
    result_chars: int = Field(6_000, ge=200, description="Characters of results sent back in one round.")


class Context(BaseModel):
    """Which past steps `history.steps` shows, instead of the last `budget.history`: what a policy keeps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: str = Field("window", description="full, window, lru, tfidf, bm25, embedding, summary, lre or mlp.")
    scorer: str | None = Field(
        None, description="File of the fitted scorer (policies lre and mlp), taken into the scaffold."
    )
    budget: int | None = Field(None, ge=0, description="Tokens of the old history; null: unlimited.")
    keep_last: int = Field(5, ge=1, description="The latest steps that always stay.")
    summary: float = Field(0.25, gt=0, lt=1, description="Share of the budget for the summary (policy summary).")
    search: Literal["bm25", "embedding"] = Field("bm25", description="How RECALL finds what was evicted.")
    recall: int = Field(3, ge=1, le=32, description="Steps that one RECALL shows at most.")

    @model_validator(mode="after")
    def _scorer_for_learned(self) -> Context:
        if (self.policy in ("lre", "mlp")) != (self.scorer is not None):
            raise ValueError("a scorer goes with the policies lre and mlp, and with no other")
        if self.policy == "summary" and not self.budget:
            raise ValueError("the policy summary needs a budget: without one nothing is left out")
        return self


class Example(BaseModel):
    """One example turn: what the user says and what the model should answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: str = Field(description="A prompt of the phase, or an answer to operations.")
    assistant: str = Field(description="The reply to imitate.")


class ScaffoldSpec(BaseModel):
    """The contents of `scaffold.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="Name of the scaffold.")
    parent: str | None = Field(None, description="The scaffold this one was made from.")
    env: str | None = Field(None, description="The environment it is written for; null: any.")
    about: str = Field("", description="One sentence for lists.")
    plan: Literal["merged", "handoff"] = Field(
        "merged",
        description="merged: one model consults and commits; handoff: the memory model consults, "
        "then the gameplay model commits in the same conversation.",
    )
    dialect: Literal["tags", "tools"] = Field("tags", description="Operations as tags in text or as tool calls.")
    constrained: bool = Field(False, description="Ask the server to let only well-formed replies through.")
    files: list[FileSpec] = Field(default_factory=list, description="The memory files.")
    operations: Operations = Field(default_factory=Operations, description="Operations offered per phase.")
    budget: Budget = Field(Budget(), description="Limits per step.")
    memory: MemoryLimits = Field(MemoryLimits(), description="Limits on the memory directory.")
    context: Context | None = Field(None, description="History under a token budget, chosen by a policy.")
    examples: dict[Phase, list[Example]] = Field(
        default_factory=dict, description="Example turns shown before the prompt of a phase, for small models."
    )

    @model_validator(mode="after")
    def _files_once(self) -> ScaffoldSpec:
        names = [file.name for file in self.files]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"file '{min(twice)}' is declared twice")
        return self


@dataclass(frozen=True)
class Scaffold:
    """A loaded scaffold: its spec and the text of every file, by relative path."""

    spec: ScaffoldSpec
    texts: Mapping[str, str]
    folder: Path
    digest: str = field(compare=False)

    @property
    def name(self) -> str:
        """The scaffold's name, from `scaffold.yaml`."""
        return self.spec.name

    @property
    def logic(self) -> str | None:
        """The source of `logic.py`, or None."""
        return self.texts.get("logic.py")

    @property
    def prompts(self) -> dict[str, str]:
        """Template name -> source, e.g. `log.j2`."""
        return _below(self.texts, "prompts/")

    @property
    def initial(self) -> dict[str, str]:
        """Initial contents of memory files, by file name."""
        return _below(self.texts, "memory/")

    def save(self, folder: Path) -> None:
        """Write the scaffold, overrides included, as a folder that loads to the same digest.

        Raises:
            RunError: the folder cannot be written.
        """
        try:
            if folder.exists():
                shutil.rmtree(folder)
            _write(self.texts, folder)
        except OSError as error:
            raise RunError(f"cannot write {folder}: {error.strerror}") from error


def load(name: str, overrides: Mapping[str, Any] | None = None) -> Scaffold:
    """Load scaffold `name` (or a path), with dotted `overrides` of keys of `scaffold.yaml`.

    Raises:
        UsageError: unknown scaffold, or as `load_folder`.
    """
    return load_folder(plugins.find(plugins.SCAFFOLD, name), overrides)


def load_folder(folder: Path, overrides: Mapping[str, Any] | None = None) -> Scaffold:
    """Load the scaffold in `folder`.

    Raises:
        UsageError: there is none, wrong key or value, or files that do not belong in one.
    """
    folder = plugins.at(plugins.SCAFFOLD, folder)
    texts = _read_folder(folder)
    source = folder / "scaffold.yaml"
    before = read_yaml(source)
    data = overridden(before, overrides or {})
    _take_scorer(data, texts, overrides or {})
    named = f"{source} with -s {', -s '.join(overrides)}" if overrides else source
    spec = validate(ScaffoldSpec, data, named, before)
    if overrides:
        texts["scaffold.yaml"] = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    _check_files(spec, texts, folder)
    played = {path: text for path, text in texts.items() if path != "CHANGES.md"}
    return Scaffold(spec, texts, folder, digest(played)[:16])


def _take_scorer(data: dict[str, Any], texts: dict[str, str], overrides: Mapping[str, Any]) -> None:
    """Take a scorer named by an override into the scaffold, so that what is played is there by value."""
    path = overrides.get("context.scorer")
    if path is None:
        return
    try:
        texts[SCORER] = Path(str(path)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"-s context.scorer: cannot read {path}", "fit one with `automem evict fit`") from error
    data["context"]["scorer"] = SCORER


def _read_folder(folder: Path) -> dict[str, str]:
    """The text of every file of a scaffold folder; anything that does not belong there is refused."""
    texts: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise UsageError(f"{path}: a scaffold holds no links")
        if path.is_dir() or "__pycache__" in relative:
            continue
        if not _belongs(relative):
            raise UsageError(
                f"{path} does not belong in a scaffold", f"expected {', '.join(_FILES)}, prompts/*.j2, memory/*"
            )
        if not path.is_file():
            raise UsageError(f"{path}: a scaffold holds regular files only")
        if path.stat().st_size > MAX_FILE or len(texts) >= MAX_FILES:
            raise UsageError(f"{path}: a scaffold has at most {MAX_FILES} files of {MAX_FILE // 1024} KiB")
        try:
            texts[relative] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: not UTF-8 text") from error
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
    return texts


def _belongs(relative: str) -> bool:
    folder, slash, name = relative.partition("/")
    if not slash:
        return relative in _FILES
    return folder in _FOLDERS and "/" not in name and name.endswith(_FOLDERS[folder])


def _check_files(spec: ScaffoldSpec, texts: Mapping[str, str], folder: Path) -> None:
    if "prompts/system.j2" not in texts or "prompts/plan.j2" not in texts:
        raise UsageError(f"{folder}: prompts/system.j2 and prompts/plan.j2 must be there")
    if spec.operations.log and "prompts/log.j2" not in texts:
        raise UsageError(f"{folder}: the log phase offers operations but prompts/log.j2 is missing")
    if spec.plan == "handoff" and "prompts/gameplay.j2" not in texts:
        raise UsageError(
            f"{folder}: plan: handoff needs prompts/gameplay.j2", "add the text that asks the gameplay model to commit"
        )
    if spec.context and spec.context.scorer and (spec.context.scorer != SCORER or SCORER not in texts):
        raise UsageError(
            f"{folder}: context.scorer is '{spec.context.scorer}'", f"name the file {SCORER} of the scaffold"
        )
    declared = {file.name for file in spec.files}
    for name in _below(texts, "memory/"):
        if name not in declared:
            raise UsageError(f"{folder}/memory/{name} is not declared under files in scaffold.yaml")


def _below(texts: Mapping[str, str], folder: str) -> dict[str, str]:
    return {path.removeprefix(folder): text for path, text in texts.items() if path.startswith(folder)}


def copy_as(parent: Scaffold, name: str, folder: Path) -> Path:
    """Write a copy of `parent` that is called `name` and names it as its parent.

    Raises:
        UsageError: the folder exists, or the name is not one.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists already")
    data = yaml.safe_load(parent.texts["scaffold.yaml"])
    data = {"name": name, "parent": parent.name, **{k: v for k, v in data.items() if k not in ("name", "parent")}}
    validate(ScaffoldSpec, data, "the new scaffold")
    texts = dict(parent.texts)
    texts["scaffold.yaml"] = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    texts["CHANGES.md"] = f"# {name}\n\nA copy of {parent.name}: say here what you change and why.\n"
    _write(texts, folder)
    return folder


def _write(texts: Mapping[str, str], folder: Path) -> None:
    for name, text in texts.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
