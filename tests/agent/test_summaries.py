"""The policy `summary`: the memory model writes what left the prompt, as a call of the step like any other."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from acting import Game, Replies, results

from automem.agent.context import Summary
from automem.errors import LimitFailure, UsageError
from automem.evict.counting import approximate_tokens
from automem.evict.units import step_text
from automem.messages import Usage
from automem.models import make_model
from automem.models.scripted.desk import summary
from automem.play.folder import RunConfig
from automem.play.run import play_run
from automem.results.diff import diff_runs
from automem.results.drift import episode_drift
from automem.scaffold.spec import load
from automem.trace import Call, read_trace
from automem.train.turns import turns

WAIT = "<|ACTION|>wait<|END|>"
HEADING = "# Summary of steps that are no longer shown"
#: Whatever the budget, the last step alone stays; the summary has half of it.
CONTEXT = {"policy": "summary", "budget": 200, "summary": 0.5, "keep_last": 1}
PLAIN = {"operations": {"log": [], "plan": ["READ", "ACTION"]}, "context": CONTEXT}


def called(text):
    return Call(role="memory", phase="summary", messages=[], reply=text, usage=Usage(1, 1))


def played(scaffold, model, memory=None, steps=4, limits=None, **parts):
    """A game in which steps have left the prompt."""
    game = Game(scaffold(**{**PLAIN, **parts}), model, memory, **(limits or {}))
    for _ in range(steps):
        game.step()
    return game


async def test_the_memory_model_writes_and_the_prompt_shows_it_in_place_of_the_steps(scaffold):
    memory, model = Replies("gate at 3"), Replies(WAIT)
    game = played(scaffold, model, memory)
    decision = await game.act()
    assert [(call.role, call.phase) for call in decision.calls] == [("memory", "summary"), ("gameplay", "plan")]
    asked = memory.asked[0][-1]["content"]
    left = [gone["step"] for gone in decision.evictions]
    assert all(f"# Step {step}\n" in asked for step in left) and "# SUMMARY\n" in asked and HEADING not in asked
    assert model.asked[0][-1]["content"].startswith(f"{HEADING}\n> gate at 3\n\n# Observation\n")
    assert (memory.requests[0].phase, memory.requests[0].call, memory.requests[0].tools) == ("summary", 0, ())


async def test_the_step_to_come_is_not_shown_to_who_summarises(scaffold):
    memory = Replies("so far")
    game = played(scaffold, Replies(WAIT), memory)
    game.observation = "what is asked for now"
    decision = await game.act()
    assert "what is asked for now" not in str(memory.asked) and "what is asked for now" in str(decision.calls[1])


async def test_nothing_left_nobody_is_asked(scaffold):
    decision = await played(scaffold, Replies(WAIT), steps=1).act()
    assert [call.phase for call in decision.calls] == ["plan"]


async def test_the_next_one_is_made_of_the_one_before(scaffold):
    model = Replies("first", WAIT, "second", WAIT)
    game = played(scaffold, model)
    await game.act()
    for _ in range(4):
        game.step()
    await game.act()
    assert model.asked[2][-1]["content"].startswith(f"{HEADING}\n> first\n\n# Step ")
    assert f"{HEADING}\n> second\n" in model.asked[3][-1]["content"]


async def test_a_blank_reply_leaves_it_and_operations_are_refused(scaffold):
    model = Replies("first", WAIT, "  \n", WAIT, "<|APPEND|>notes.txt|owned<|END|>", WAIT)
    game = played(scaffold, model)
    decisions = []
    for _ in range(3):
        decisions.append(await game.act())
        for _ in range(4):
            game.step()
    assert f"{HEADING}\n> first\n" in model.asked[3][-1]["content"]
    assert results(decisions[2].calls[0]) == [("APPEND", False, "error: APPEND is not offered now; offered: ")]
    assert game.text() == ""


@pytest.mark.parametrize("dialect", ["tags", "tools"])
async def test_nothing_is_offered_and_no_form_is_asked_for(scaffold, dialect):
    model = Replies("first", WAIT)
    await played(scaffold, model, dialect=dialect, constrained=True).act()
    assert (model.requests[0].tools, model.requests[0].grammar) == ((), None)
    assert model.requests[1].grammar


async def test_its_call_counts_against_the_limits(scaffold):
    game = played(scaffold, Replies("first"), limits={"max_calls": 1})
    with pytest.raises(LimitFailure, match="its 1 model calls"):
        await game.act()
    assert (game.agent.spent.calls, game.agent.spent.tokens) == (1, 12)


async def test_a_prompt_of_ones_own(scaffold):
    model = Replies("first", WAIT)
    prompts = {"summary.j2": "{{ leaving | length }} steps, {{ limit }} tokens.\n# SUMMARY\nShort!"}
    await played(scaffold, model, prompts=prompts).act()
    assert model.asked[0][-1]["content"] == "2 steps, 100 tokens.\n# SUMMARY\nShort!"


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("one\ntwo", "one\ntwo"),
        ("one\n" + "é" * 300, "one"),
        ("x" * 400, "x" * 164),
        ("# PLAN\nDo it", "# PLAN\nDo it"),
    ],
)
def test_it_is_cut_to_its_tokens_behind_a_whole_line(reply, kept):
    made = Summary(limit=60)
    made.take([called(reply)])
    assert made.text == kept
    assert approximate_tokens(made.shown().rstrip("\n")) <= 60
    assert all(line.startswith("> ") for line in made.shown().strip().splitlines()[1:])


def test_a_summary_needs_a_budget(scaffold):
    with pytest.raises(UsageError, match="the policy summary needs a budget"):
        scaffold(context={"policy": "summary"})


def test_scripted_models_summarise():
    lines = ["Token for desk: a.", "noise 77", "Case of A B: 1.", "Token for desk: b."]
    assert summary(lines) == "Case of A B: 1.\nToken for desk: b."


def run_of(made, model="scripted:desk", seeds=(3,)):
    return RunConfig.model_validate(
        {
            "env": "desk",
            "tasks": ["easy"],
            "seeds": list(seeds),
            "scaffold": made.name,
            "scaffold_digest": made.digest,
            "models": {"gameplay": {"name": model}},
        }
    )


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    """A game of desk with a summary, played to its end: scaffold, folder and trace."""
    made = load("desk-summary", {"context.budget": 1500})
    folder = tmp_path_factory.mktemp("summary") / "run"
    config = run_of(made)
    play_run(folder, config, made, {"gameplay": make_model("scripted:desk", {})}, 1)
    (file,) = folder.glob("traces/**/*.jsonl")
    return made, folder, file


def test_desk_is_served_within_the_budget(game):
    _, _, file = game
    trace = read_trace(file)
    calls = [call for step in trace.steps for call in step.calls]
    made = [call for call in calls if call.phase == "summary"]
    assert trace.result.progress == 1.0
    # Half of the room is freed each time, so few steps need a call.
    assert 3 <= len(made) < len(trace.steps) / 2 and all(call.role == "memory" for call in made)
    assert all(call.usage.prompt > 0 and call.usage.completion > 0 for call in made)
    gone, size = set(), {}
    for step in trace.steps:
        gone |= {eviction["step"] for eviction in step.evictions}
        old = [size[t] for t in size if t not in gone and t < step.t - 5]
        prompt = step.calls[-1].messages[1]["content"]
        head = prompt.partition("\n\n")[0] if prompt.startswith(HEADING) else ""
        assert sum(old) + approximate_tokens(head) <= 1500
        assert bool(head) == bool(gone)
        size[step.t] = approximate_tokens(step_text(step.observation, step.action))


def test_a_summary_is_no_memory_turn_and_what_it_has_is_not_lost(game):
    _, _, file = game
    assert not [turn for step in read_trace(file).steps for turn in turns(step)]
    found = episode_drift(file)
    assert found.evicted > 10 and found.asked_again == 0


def test_killed_anywhere_it_goes_on_to_the_same_trace(game, tmp_path):
    made, folder, file = game
    lines = file.read_bytes().splitlines(keepends=True)
    summaries = [step.t for step in read_trace(file).steps if step.calls[0].phase == "summary"]
    first = summaries[0]
    for count in (first, first + 1, first + 2, summaries[-1] + 2):
        again = tmp_path / str(count)
        half = again / file.relative_to(folder)
        play_run(again, run_of(made), made, {"gameplay": make_model("scripted:desk", {})}, 1)
        half.write_bytes(b"".join(lines[: count + 1]))
        play_run(again, run_of(made), made, {"gameplay": make_model("scripted:desk", {})}, 1)
        assert diff_runs(folder, again) is None


def test_it_is_replayed_call_by_call(game, tmp_path):
    made, folder, _ = game
    name = f"replay:{folder}"
    play_run(tmp_path / "again", run_of(made, name), made, {"gameplay": make_model(name, {})}, 1)
    assert diff_runs(folder, tmp_path / "again") is None


def test_other_hash_seeds_play_the_same_and_trace_show_tells_it(game, tmp_path):
    _, folder, file = game
    automem = Path(sys.executable).with_name("automem")
    asked = ["run", "desk/easy", "-S", "desk-summary", "-m", "scripted:desk", "-s", "context.budget=1500"]
    environ = {**os.environ, "PYTHONHASHSEED": "77"}
    command = [automem, *asked, "--seeds", "3", "-o", "other"]
    subprocess.run(command, check=True, cwd=tmp_path, env=environ, capture_output=True)
    assert diff_runs(folder, tmp_path / "other") is None
    shown = subprocess.run([automem, "trace", "show", file], check=True, capture_output=True, text=True).stdout
    assert re.search(r"^--- summary \(memory\), \d+ \+ \d+ tokens\nYour password: ", shown, re.M)
