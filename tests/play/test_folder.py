"""`RunFolder`: which episodes there are, and how they ended."""

import pytest

from automem.episode import EpisodeSpec, ModelSpec
from automem.errors import UsageError
from automem.play.folder import RunConfig, RunFolder
from automem.trace import Result, TraceWriter

DONE = Result(end="terminated", progress=1.0, score=1.0, steps=0)
FAILED = Result(end="failed", progress=0.0, score=0.0, steps=0, failure="model", message="down")


def folder(path, tasks=("a", "b"), seeds=(0, 1)) -> RunFolder:
    models = {"gameplay": ModelSpec(name="scripted:null")}
    shared = {"scaffold": "s", "scaffold_digest": "d", "models": models}
    return RunFolder(path, RunConfig(env="toy", tasks=list(tasks), seeds=list(seeds), **shared), {})


def write(run: RunFolder, spec: EpisodeSpec, result: Result | None) -> None:
    writer = TraceWriter(run.trace_path(spec), spec)
    if result:
        writer.result(result)
    writer.close()


def refusal(function, *args):
    with pytest.raises(UsageError) as caught:
        function(*args)
    return caught.value.message, caught.value.hint or ""


def test_results(tmp_path):
    run = folder(tmp_path)
    first, second, third, fourth = run.config.specs()
    for spec, result in ((first, DONE), (second, FAILED), (third, None)):
        write(run, spec, result)
    assert [run.result(spec) for spec in (first, second, third, fourth)] == [DONE, FAILED, None, None]
    assert list(run.finished()) == [(first, DONE)]
    assert (DONE.finished, FAILED.finished) == (True, False)


def test_an_episode_is_found_by_id_seed_or_both(tmp_path):
    run = folder(tmp_path)
    specs = run.config.specs()
    assert run.find(specs[2].id) == specs[2]
    assert run.find("b/1") == specs[3]
    assert folder(tmp_path, tasks=["a"]).find("1").seed == 1
    message, hint = refusal(run.find, "1")
    assert message == "several episodes have the seed 1"
    assert specs[1].id in hint and specs[3].id in hint and specs[0].id not in hint
    assert refusal(run.find, "c/1") == ("there is no episode 'c/1'", "did you mean 'b/1'?")


def test_an_episode_that_was_not_played_has_no_trace(tmp_path):
    run = folder(tmp_path)
    first, second, *_ = run.config.specs()
    write(run, first, None)
    assert run.trace_of("a/0") == run.trace_path(first)
    assert refusal(run.trace_of, "a/1")[0] == f"episode {second.id} (a, seed 1) was not played yet"
