"""`diagnose`: what the traces of a run say about its scaffold. Definitions: `docs/diagnosis.md`."""

from __future__ import annotations

from automem.episode import EpisodeSpec
from automem.evolve.findings import Diagnosis, Summary
from automem.play.folder import RunFolder
from automem.results.behaviour import Behaviour, read_behaviour
from automem.results.stats import mean, standard_error
from automem.trace import Result, read_result

__all__ = ["RATES", "Diagnosis", "diagnose"]

#: The rates of a diagnosis: every property of `Behaviour`.
RATES = tuple(name for name, value in vars(Behaviour).items() if isinstance(value, property))


def diagnose(run: RunFolder) -> Diagnosis:
    """The diagnosis of the finished episodes of `run`, in one pass over each trace.

    Raises:
        UsageError: the run's scaffold or a trace cannot be read.
    """
    results: list[Result] = []
    total = Behaviour()
    for spec in run.config.specs():
        result = _result(run, spec)
        if result is not None and result.failure is None:
            results.append(result)
            total += read_behaviour(run.trace_path(spec))
    return Diagnosis(
        summary=_summary(run, results),
        behaviour={name: getattr(total, name) for name in RATES},
    )


def _result(run: RunFolder, spec: EpisodeSpec) -> Result | None:
    path = run.trace_path(spec)
    return read_result(path) if path.is_file() else None


def _summary(run: RunFolder, results: list[Result]) -> Summary:
    scores = [result.progress for result in results]
    return Summary(
        run=run.name,
        env=run.config.env,
        tasks=run.config.tasks,
        scaffold=run.config.scaffold,
        episodes=len(results),
        failed=len(run.config.specs()) - len(results),
        steps=sum(result.steps for result in results),
        mean=mean(scores),
        se=standard_error(scores),
    )
