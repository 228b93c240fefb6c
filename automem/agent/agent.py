"""`Agent`: at each step LOG what just happened, PLAN from memory, commit one action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from automem.agent.context import History, KeptSteps, LastSteps, Shown, Summary
from automem.agent.gameplay import gameplay
from automem.agent.log import log
from automem.agent.plan import plan
from automem.agent.summary import summarise
from automem.agent.turn import Setting, Spent, Turn, Worker, system_prompt, turn_variables
from automem.episode import EpisodeSpec
from automem.errors import ScaffoldFailure
from automem.evict.archive import Archive
from automem.evict.evictor import Evicted, Evictor, Limits
from automem.evict.mlp import MlpScorer, read_mlp
from automem.evict.policies.base import make as make_policy
from automem.evict.scorer import Scorer, read_scorer
from automem.evict.search import make_search
from automem.memory.files import Memory
from automem.messages import Role
from automem.models.base import Model
from automem.scaffold.logic import Logic
from automem.scaffold.prompts import Prompts
from automem.scaffold.spec import SCORER, Scaffold
from automem.trace import Call, Step

if TYPE_CHECKING:
    from automem.env import Env


#: A budget that no history reaches.
UNLIMITED = 10**12


@dataclass(frozen=True)
class Decision:
    """What the agent does at one step, and the calls that led to it."""

    action: str
    proposed: str | None
    fallback: bool
    rejections: list[str]
    calls: list[Call]
    evictions: list[dict[str, Any]]


class Agent:
    """Plays one episode with one scaffold: one or two models, one memory directory."""

    def __init__(
        self, spec: EpisodeSpec, scaffold: Scaffold, env: Env, models: Mapping[Role, Model], worker: Worker
    ) -> None:
        """`models` has `gameplay` and, if another model keeps memory, `memory`."""
        prompts = Prompts(scaffold.name, scaffold.prompts)
        logic = Logic(scaffold.name, scaffold.logic)
        self.history = History(make_shown(scaffold))
        self.spent = Spent()
        self.memory = make_memory(scaffold, logic)
        self._setting = Setting(
            spec=spec,
            scaffold=scaffold,
            env=env,
            models={"memory": models.get("memory", models["gameplay"]), "gameplay": models["gameplay"]},
            memory=self.memory,
            history=self.history,
            prompts=prompts,
            logic=logic,
            worker=worker,
            spent=self.spent,
            system=system_prompt(scaffold, prompts, env),
        )

    async def act(self, observation: str, state: dict[str, Any]) -> Decision:
        """One step: observation in, action out.

        Raises:
            EpisodeFailure: the model could not be asked, the scaffold is at fault, or a limit is reached.
                An outage never becomes an action.
        """
        setting = self._setting
        history = self.history.export()
        evictions = [_told(gone) for gone in self.history.evicted]
        variables = turn_variables(setting, observation, state, history)
        turn = Turn(setting, history["step"], variables)
        await summarise(turn)
        variables["blocks"] = await self._observe(state, history)
        if turn.step > 0 and turn.offered("log"):
            await log(turn)
        await self._write_auto_files(state, history)
        action = await (plan(turn) if setting.scaffold.spec.plan == "merged" else gameplay(turn))
        return Decision(
            action=setting.env.default_action if action is None else action,
            proposed=turn.proposed,
            fallback=action is None,
            rejections=turn.rejections,
            calls=turn.calls,
            evictions=evictions,
        )

    def record(self, step: Step, state: dict[str, Any], after: str, after_state: dict[str, Any]) -> None:
        """Take note of a step that was played (or replayed) and of the observation and state after it."""
        if self.history.summary is not None:
            self.history.summary.take(step.calls)
        self.history.record(
            observation=step.observation,
            state=state,
            action=step.action,
            proposed=step.proposed,
            fallback=step.fallback,
            reward=step.reward,
            progress=step.progress,
            next_observation=after,
            next_state=after_state,
        )

    async def _observe(self, state: dict[str, Any], history: dict[str, Any]) -> dict[str, str]:
        logic = self._setting.logic
        if "observe" not in logic.functions:
            return {}
        return await self._setting.worker(logic.observe, state, history, step=history["step"])

    async def _write_auto_files(self, state: dict[str, Any], history: dict[str, Any]) -> None:
        logic, memory = self._setting.logic, self.memory
        if "auto_files" not in logic.functions:
            return
        files = {name: memory.text(name) for name in memory.names()}
        written = await self._setting.worker(logic.auto_files, state, history, files, step=history["step"])
        for name, text in written.items():
            try:
                memory.set_auto(name, text)
            except ScaffoldFailure as failure:
                where = f"scaffold '{self._setting.scaffold.name}': logic.py, in auto_files, step {history['step']}"
                raise ScaffoldFailure(f"{where}: {failure}", failure.hint) from failure


def _told(gone: Evicted) -> dict[str, Any]:
    """An eviction as the trace tells it: which step left the prompt, with what score, and what it had cost."""
    return {"step": gone.unit.index, "score": round(gone.score, 6), "tokens": gone.unit.tokens}


def make_shown(scaffold: Scaffold) -> Shown:
    """The past steps that the scaffold shows: the last ones, or those that the policy of its `context` keeps.

    Raises:
        UsageError: no such policy, its scorer is not one, or RECALL is offered and the package for it is missing.
    """
    context = scaffold.spec.context
    if context is None:
        return LastSteps(scaffold.spec.budget.history)
    policy = make_policy(context.policy, _scorer(scaffold, context.policy))
    budget = UNLIMITED if context.budget is None else context.budget
    summary = Summary(int(context.summary * budget)) if context.policy == "summary" else None
    # The summary is paid from the budget of what it stands for.
    evictor = Evictor(policy, Limits(budget=budget - (summary.limit if summary else 0), keep_last=context.keep_last))
    archive = Archive(make_search(context.search)) if scaffold.spec.operations.offers("RECALL") else None
    return KeptSteps(evictor, archive, context.recall, summary)


def _scorer(scaffold: Scaffold, policy: str) -> Scorer | MlpScorer | None:
    if SCORER not in scaffold.texts:
        return None
    read = read_mlp if policy == "mlp" else read_scorer
    return read(scaffold.texts[SCORER], f"{SCORER} of scaffold '{scaffold.name}'")


def make_memory(scaffold: Scaffold, logic: Logic) -> Memory:
    """The memory of a fresh episode: declared files with their initial contents."""

    def upsert(file: str, rows: list[dict[str, Any]], entry: dict[str, Any]) -> Any:
        return logic.call("upsert", file, rows, entry, step=entry["step"])

    spec = scaffold.spec
    return Memory(spec.files, spec.memory, scaffold.initial, upsert if "upsert" in logic.functions else None)
