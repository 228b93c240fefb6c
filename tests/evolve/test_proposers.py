"""Proposers on a real run: whole sessions, every tool, every way in which a session or a command can fail."""

import asyncio
import json
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import pytest

from automem.episode import Limits, ModelSpec
from automem.errors import ModelFailure, ProposerFailure, UsageError
from automem.evolve.base import Assignment, Failed, Revision
from automem.evolve.changes import KINDS
from automem.evolve.diagnose import diagnose
from automem.evolve.proposers import candidate, tools
from automem.evolve.proposers.agentic import AgenticProposer, SessionBudget
from automem.evolve.proposers.command import CommandProposer, CommandSettings
from automem.evolve.proposers.recorded import RecordedProposer
from automem.messages import Usage
from automem.models import scripted
from automem.models.base import Completion
from automem.models.chat import ChatModel, ChatSettings
from automem.play.folder import RunConfig
from automem.play.run import play_run
from automem.results.plays import Cost
from automem.scaffold.spec import MAX_FILE, MAX_FILES, load
from automem.serve.server import build_app, running

DYING_SERVER = """
from automem.models import scripted
from automem.serve.faults import Faults
from automem.serve.server import serve
serve(scripted.make("meta"), port=0, faults=Faults(die_after=8), announce=lambda url: print(url, flush=True))
"""
WRITTEN = {"CHANGES.md", "scaffold.yaml", "prompts/log.j2", "prompts/plan.j2", "prompts/system.j2"}

ROW = Revision(
    revision=1,
    attempt=1,
    continuation=0,
    proposer="rules",
    parent="courier-v0",
    parent_digest="x",
    scaffold="courier-a",
    folder="proposals/r1-a1-c0",
    changes=[{"kind": "memory-structure", "title": "a shorter log"}],
    verdict="rejected",
    reason="paired gate: no gain",
    before={"a": 0.5, "b": 0.7},
    after={"a": 0.25, "b": 0.25},
    evaluator="e",
)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A short run of the courier with the appended log."""
    folder = tmp_path_factory.mktemp("evolve") / "run"
    return play(folder, load("courier-v0"), "scripted:courier")


def play(folder, scaffold, model):
    config = RunConfig(
        env="courier",
        tasks=["small"],
        seeds=[0, 1],
        scaffold=scaffold.name,
        scaffold_digest=scaffold.digest,
        models={"gameplay": ModelSpec(name=model)},
        limits=Limits(max_steps=60),
    )
    return play_run(folder, config, scaffold, {"gameplay": scripted.make(model.partition(":")[2])}, jobs=2).folder


@pytest.fixture(scope="module")
def report(played):
    return diagnose(played)


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory):
    return play(tmp_path_factory.mktemp("evolve") / "failed", load("courier-v1"), "scripted:null")


@pytest.fixture
def assignment(played, report, tmp_path):
    """An assignment whose scaffold and output are the test's own."""
    scaffold = load("courier-v0")
    scaffold.save(tmp_path / "courier-v0")
    (tmp_path / "candidate").mkdir()
    return Assignment(
        scaffold=load(str(tmp_path / "courier-v0")),
        run=played,
        diagnosis=report,
        allowed=frozenset(KINDS),
        output=tmp_path / "candidate",
        log=tmp_path / "log",
    )


@pytest.fixture
def failed(failed_run, tmp_path):
    """A candidate that was written and played, and did not make it."""
    load("courier-v1").save(tmp_path / "failed")
    scores = {"courier/small/0": 0.1, "courier/small/1": 0.0}
    return Failed(tmp_path / "failed", "paired gate: no gain", failed_run, scores)


def written(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def transcript(assignment, number=1):
    return [json.loads(line) for line in (assignment.log / f"session_{number}.jsonl").read_text().splitlines()]


class Script:
    """A model that says what it was told to, one reply after the other; the last again and again."""

    name = "script"

    def __init__(self, *replies, usage=None):
        self.replies = replies
        self.requests = []
        self.prompts = []
        self.usage = usage or Usage(100, 10, cached=40)
        self.closed = False

    async def generate(self, messages, request):
        reply = self.replies[min(len(self.requests), len(self.replies) - 1)]
        self.requests.append(request)
        self.prompts.append([dict(message) for message in messages])
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Completion):
            return reply
        if isinstance(reply, str):
            return Completion(reply, self.usage)
        calls = [
            {"id": f"c{len(self.requests)}-{n}", "name": name, "arguments": a if isinstance(a, str) else json.dumps(a)}
            for n, (name, a) in enumerate(reply)
        ]
        return Completion("", self.usage, tool_calls=tuple(calls))

    async def close(self):
        self.closed = True


def hold(assignment, *replies, budget=None, **settings):
    """One session with a scripted model; gives the proposal and the model."""
    model = Script(*replies, **settings)
    proposer = AgenticProposer(model, budget or SessionBudget())
    try:
        return proposer.propose(assignment), model
    finally:
        proposer.close()
        assert model.closed


FINISH = [("finish", {"analysis": "done"})]
BEGIN = [("start_from_current", {})]


# Whole sessions


def check_candidate_of_meta(assignment, proposal):
    candidate = load(str(assignment.output))
    assert (candidate.name, candidate.spec.parent) == ("courier-v0-keyed", "courier-v0")
    assert [(file.name, file.kind, file.key) for file in candidate.spec.files] == [("notes.txt", "table", ("name",))]
    assert "UPSERT" in candidate.spec.operations.log
    assert "## memory-structure: " in candidate.texts["CHANGES.md"]
    assert written(assignment.output) == WRITTEN
    assert assignment.run.config.specs()[0].id in proposal.analysis


def test_a_session_in_process(assignment):
    proposer = AgenticProposer(scripted.make("meta"))
    proposal = proposer.propose(assignment)
    check_candidate_of_meta(assignment, proposal)
    assert proposer.name == "scripted:meta"
    assert proposal.cost.calls == 10
    assert proposal.cost.tokens_in > 10_000
    first = {path: (assignment.output / path).read_text() for path in WRITTEN}
    proposer.propose(assignment)
    proposer.close()
    assert {path: (assignment.output / path).read_text() for path in WRITTEN} == first
    assert len(transcript(assignment, 2)) == len(transcript(assignment, 1))


def test_sessions_over_http(assignment):
    with running(build_app({"scripted:meta": scripted.make("meta")})) as url:
        proposer = AgenticProposer(ChatModel("any", ChatSettings(base_url=url)))
        check_candidate_of_meta(assignment, proposer.propose(assignment))
        proposal = proposer.propose(assignment)
        check_candidate_of_meta(assignment, proposal)
        proposer.close()
    assert proposer.name == "openai:any"
    assert proposal.cost.tokens_cached > 0


def test_an_endpoint_that_dies_leaves_nothing(assignment):
    with subprocess.Popen([sys.executable, "-c", DYING_SERVER], stdout=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().strip()
        proposer = AgenticProposer(ChatModel("any", ChatSettings(base_url=url, retries=1)))
        with pytest.raises(ProposerFailure, match=r"failed 2 times, last: no connection") as caught:
            proposer.propose(assignment)
        proposer.close()
    assert caught.value.cost.calls == 8
    said = [line for line in transcript(assignment) if line.get("role") == "tool"]
    assert said[-1]["content"].startswith("wrote scaffold.yaml")
    assert written(assignment.output) == set()


def test_a_model_that_fails_in_the_middle_leaves_nothing(assignment):
    with pytest.raises(ProposerFailure, match="server gone") as caught:
        hold(assignment, BEGIN, ModelFailure("server gone", "is it up?"))
    assert isinstance(caught.value.__cause__, ModelFailure)
    assert caught.value.hint == "is it up?"
    assert caught.value.cost.calls == 1
    assert (caught.value.cost.tokens_in, caught.value.cost.tokens_cached) == (100, 40)
    assert written(assignment.output) == set()
    assert transcript(assignment)[-1]["end"].startswith("server gone")


def test_the_transcript_has_every_message(assignment):
    _, model = hold(assignment, "Let me think.", BEGIN, FINISH)
    lines = transcript(assignment)
    roles = ["system", "user", "assistant", "user", "assistant", "tool", "assistant", "tool"]
    assert [line["role"] for line in lines[:-1]] == roles
    assert lines[-1]["end"] == "finished"
    assert lines[4]["tool_calls"][0]["name"] == "start_from_current"
    assert lines[4]["usage"]["prompt"] == 100
    assert [line["content"] for line in lines[:6]] == [message["content"] for message in model.prompts[-1]]


def test_the_briefing_tells_the_case(assignment, failed):
    case = replace(assignment, allowed=frozenset({"memory-structure"}), lineage=(ROW,), failed=failed, errors="- oh no")
    _, model = hold(case, FINISH)
    system, user = (message["content"] for message in model.prompts[0])
    assert "kinds of change are allowed here: memory-structure.\n" in system
    assert "- keep: log: only the newest so many lines" in system
    assert assignment.diagnosis.text() in user
    told = "courier-a from courier-v0 (memory-structure: a shorter log): rejected, mean 60.0% before, 25.0% after."
    assert told in user
    assert f"Its mean was 5.0%. Its files are in {failed.folder}, its run in {failed.run.path}" in user
    assert "# What the check found wrong\n- oh no" in user


def test_attempts_sample_differently_and_repeatably(assignment):
    def seeds(case):
        return [request.sampling_seed for request in hold(case, BEGIN, FINISH)[1].requests]

    first = seeds(assignment)
    assert len(set(first)) == 2
    assert seeds(assignment) == first
    others = seeds(replace(assignment, lineage=(ROW,)))
    assert not set(others) & set(first)


def test_requests_say_where_they_come_from(assignment):
    _, model = hold(assignment, BEGIN, FINISH)
    request = model.requests[1]
    assert (request.role, request.phase, request.env, request.task) == ("memory", "plan", "courier", "small")
    assert (request.seed, request.step, request.call) == (0, 1, 0)
    assert {schema["function"]["name"] for schema in request.tools} == set(tools.TOOLS)


def test_a_model_that_only_talks_ends_the_session(assignment):
    proposal, model = hold(assignment, BEGIN, "I think", "that is it.")
    assert proposal.analysis == "that is it."
    assert len(model.requests) == 3
    assert written(assignment.output) == WRITTEN
    proposal, model = hold(assignment, "hm", BEGIN, "hm", FINISH)
    assert (proposal.analysis, len(model.requests)) == ("done", 4)


def test_an_unsound_candidate_is_not_finished(assignment):
    bad = [("write_file", {"path": "scaffold.yaml", "text": "name: x\nfilez: []\n"})]
    _, model = hold(assignment, BEGIN, bad, FINISH, [("copy_file", {"path": "scaffold.yaml"})], FINISH)
    refused = [message["content"] for message in model.prompts[-1] if message["content"].startswith("error")]
    assert refused == [
        "error: not finished, the candidate does not load: scaffold.yaml, line 2: filez: unknown key 'filez'"
    ]
    assert written(assignment.output) == WRITTEN


def test_a_candidate_may_stay_empty(assignment):
    proposal, _ = hold(assignment, FINISH)
    assert proposal.analysis == "done"
    assert written(assignment.output) == set()


# Budgets


@pytest.mark.parametrize(
    ("budget", "limits", "what"),
    [
        ({"turns": 3}, {}, "3 turns"),
        ({"tokens": 250}, {}, "250 tokens"),
        ({}, {"calls_left": 2}, "2 calls that the whole loop had left"),
        ({}, {"tokens_left": 200}, "200 tokens that the whole loop had left"),
    ],
)
def test_budgets_end_a_session(assignment, budget, limits, what):
    with pytest.raises(ProposerFailure, match=f"^the session with script has used its {what}$") as caught:
        hold(replace(assignment, **limits), BEGIN, budget=SessionBudget(**budget))
    assert 2 <= caught.value.cost.calls <= 3
    assert written(assignment.output) == set()
    assert what in transcript(assignment)[-1]["end"]


def test_time_ends_a_session(assignment):
    class Slow(Script):
        async def generate(self, messages, request):
            await asyncio.sleep(30)

    proposer = AgenticProposer(Slow(), SessionBudget(seconds=0.05))
    with pytest.raises(ProposerFailure, match=r"has used its 0\.05 seconds"):
        proposer.propose(assignment)
    proposer.close()


def test_long_conversations_leave_out_the_oldest_answers(assignment):
    look = [("read_scaffold", {"path": "scaffold.yaml"}), ("diagnosis", {})]
    _, model = hold(assignment, *[look] * 20, FINISH, budget=SessionBudget(context_chars=40_000))
    longest = max(sum(len(message["content"]) for message in prompt) for prompt in model.prompts)
    assert longest <= 40_000
    answers = [message["content"] for message in model.prompts[-1] if message["role"] == "tool"]
    assert len(answers) == 40
    assert answers[0].startswith("(left out to save room")
    assert answers[-1] == assignment.diagnosis.text()
    kept = [line["content"] for line in transcript(assignment) if line.get("role") == "tool"]
    assert "left out" not in "".join(kept)


# Tools


@pytest.fixture
def desk(assignment):
    return tools.Desk(assignment)


def use(desk, name, **arguments):
    return tools.call(desk, name, json.dumps(arguments))


def test_tools_read_the_run(desk, played):
    spec = played.config.specs()[0]
    listed = use(desk, "list_episodes").splitlines()
    assert len(listed) == 2
    assert listed[0].startswith(f"{spec.id}  courier/small  truncated, progress 15.0%, 60 steps; unproductive")
    shown = use(desk, "show_step", episode=spec.id, step=20)
    for part in ("# Step 20", "## Observation\nRoom: ", "## LOG, call 1", "- APPEND notes.txt", "## Action\n"):
        assert part in shown
    assert shown == use(desk, "show_step", episode="0", step="20")
    found = use(desk, "search_trace", episode="0", text="CARRYING: NOTHING").splitlines()
    assert all(line.startswith("step ") and "observation: Carrying: nothing." in line for line in found[:-1])
    assert use(desk, "search_trace", episode="0", text="dragon") == "nothing in this episode contains 'dragon'"
    assert use(desk, "diagnosis") == desk.assignment.diagnosis.text()


def test_memory_at_the_end_is_what_was_kept(desk, played):
    spec = played.config.specs()[0]
    kept = (played.memory_path(spec) / "notes.txt").read_text().rstrip("\n")
    assert use(desk, "memory_at", episode="0", step=59, file="notes.txt") == kept
    assert (
        use(desk, "memory_at", episode="0", step=59) == "- notes.txt (log, 30 lines): what was seen where, newest last"
    )
    assert use(desk, "memory_at", episode="0", step=0, file="notes.txt") == "(empty)"


def test_tools_read_scaffolds(assignment, failed):
    desk = tools.Desk(replace(assignment, failed=failed))
    assert "prompts/log.j2  " in use(desk, "list_scaffold")
    assert use(desk, "read_scaffold", path="scaffold.yaml") == assignment.scaffold.texts["scaffold.yaml"]
    assert "name: courier-v1" in use(desk, "read_scaffold", path="scaffold.yaml", which="failed")
    assert use(desk, "list_scaffold", which="candidate") == "(no files)"
    use(desk, "write_file", path="logic.py", text="x = 1\n")
    assert use(desk, "read_scaffold", path="logic.py", which="candidate") == "x = 1\n"
    assert "progress 0.0%" in use(desk, "list_episodes", which="failed")
    assert "- places.txt (table, 0 rows)" in use(desk, "memory_at", episode="1", step=9, which="failed")


def test_tools_write_the_candidate(desk):
    assert use(desk, "write_file", path="memory/notes.txt", text="# é\n") == "wrote memory/notes.txt, 5 bytes"
    assert (desk.output / "memory/notes.txt").read_text() == "# é\n"
    assert use(desk, "copy_file", path="prompts/log.j2").startswith("wrote prompts/log.j2, ")
    assert use(desk, "delete_file", path="memory/notes.txt") == "deleted memory/notes.txt"
    assert written(desk.output) == {"prompts/log.j2"}
    use(desk, "start_from_current")
    assert written(desk.output) == WRITTEN


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/passwd",
        "prompts/../../x.j2",
        "prompts/a/b.j2",
        "memory/../logic.py",
        "memory/.hidden",
        "memory/a\0b",
        "scaffold.yaml\n",
        "notes.txt",
        "evaluator.py",
        "prompts/log.txt",
        "",
        ".",
        "memory/",
        "x" * 5000,
    ],
)
def test_paths_outside_a_scaffold_are_refused(desk, path):
    before = written(desk.output.parent)
    for name, arguments in (("write_file", {"text": "x"}), ("delete_file", {})):
        answer = use(desk, name, path=path, **arguments)
        assert answer.startswith("error: ")
        assert "is not a file of a scaffold: write scaffold.yaml, logic.py, CHANGES.md, prompts/NAME.j2" in answer
        assert len(answer) < 400
    assert use(desk, "copy_file", path=path).startswith("error: there is no file ")
    assert use(desk, "read_scaffold", path=path).startswith("error: there is no file ")
    assert written(desk.output.parent) == before


def test_links_in_a_failed_candidate_are_not_followed(assignment, failed):
    (failed.folder / "memory").mkdir()
    (failed.folder / "memory" / "secret.txt").symlink_to("/etc/hostname")
    desk = tools.Desk(replace(assignment, failed=failed))
    assert "secret" not in use(desk, "list_scaffold", which="failed")
    assert use(desk, "read_scaffold", path="memory/secret.txt", which="failed").startswith("error: there is no file")


def test_sizes_are_limited(desk):
    assert use(desk, "write_file", path="logic.py", text="x" * MAX_FILE).startswith("wrote")
    assert use(desk, "write_file", path="logic.py", text="é" * MAX_FILE) == (
        f"error: {2 * MAX_FILE} bytes are too many: a file has at most {MAX_FILE}"
    )
    answers = [use(desk, "write_file", path=f"memory/{n}.txt", text="") for n in range(MAX_FILES)]
    assert answers[-1] == f"error: a scaffold has at most {MAX_FILES} files"
    assert len(written(desk.output)) == MAX_FILES


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("show_stp", "{}", "there is no tool 'show_stp': did you mean 'show_step'?"),
        ("", "{}", "there is no tool ''"),
        ("show_step", "{", "show_step: the arguments are not valid JSON"),
        ("show_step", "[" * 100_000, "show_step: the arguments are not valid JSON"),
        ("show_step", "[]", "show_step: the arguments must be one JSON object"),
        ("show_step", "", "show_step: episode: Field required; step: Field required"),
        ("show_step", '{"episode": "0", "step": -1}', "show_step: step: Input should be greater than or equal to 0"),
        ("show_step", '{"episode": "0", "step": "x"}', "show_step: step: Input should be a valid integer"),
        ("show_step", '{"episode": "7", "step": 1}', "there is no episode '7'"),
        ("show_step", '{"episode": "0", "step": 60}', "episode 0 has no step 60: it has 60 steps, from 0"),
        ("list_episodes", '{"which": "best"}', "list_episodes: which: Input should be 'current' or 'failed'"),
        ("list_episodes", '{"which": "failed"}', "there is no failed candidate in this assignment"),
        ("read_scaffold", '{"path": "a", "which": "failed"}', "there is no failed candidate in this assignment"),
        ("read_scaffold", '{"path": "scafold.yaml"}', "there is no file 'scafold.yaml': did you mean 'scaffold.yaml'"),
        ("read_scaffold", '{"path": "scaffold.yaml", "line": 99}', "there are only 20 lines"),
        ("memory_at", '{"episode": "0", "step": 5, "file": "note"}', "there was no memory file 'note' at step 5"),
        ("write_file", '{"path": "logic.py"}', "write_file: text: Field required"),
        ("write_file", '{"path": "logic.py", "text": "x", "mode": 7}', "write_file: mode: Extra inputs"),
        ("write_file", '{"path": "logic.py", "text": "\\ud800"}', "the text holds characters that are not Unicode"),
        ("delete_file", '{"path": "logic.py"}', "there is no file 'logic.py'"),
        ("finish", "{}", "finish: analysis: Field required"),
    ],
)  # fmt: skip
def test_wrong_calls_are_answered(desk, name, arguments, error):
    answer = tools.call(desk, name, arguments)
    assert answer.startswith(f"error: {error}")
    assert desk.analysis is None


def test_a_failed_candidate_that_was_not_played(assignment, failed):
    desk = tools.Desk(replace(assignment, failed=replace(failed, run=None)))
    assert use(desk, "list_episodes", which="failed") == (
        "error: the failed candidate was not played: paired gate: no gain"
    )


def test_wrong_calls_do_not_end_a_session(assignment):
    calls = [("show_step", "{"), ("nonsense", {}), ("write_file", {"path": "../x", "text": "x"})]
    proposal, model = hold(assignment, calls, FINISH)
    assert proposal.analysis == "done"
    answers = [message for message in model.prompts[-1] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in answers] == ["c1-0", "c1-1", "c1-2"]
    assert all(message["content"].startswith("error: ") for message in answers)
    # Servers' chat templates read the arguments again: only JSON goes back, while the transcript is verbatim.
    assert model.prompts[-1][2]["tool_calls"][0]["arguments"] == "{}"
    assert transcript(assignment)[2]["tool_calls"][0]["arguments"] == "{"


def test_a_reply_that_was_cut_off_is_told_so(assignment):
    cut = Completion(
        "", Usage(1, 1), finish_reason="length", tool_calls=({"id": "c", "name": "write_file", "arguments": '{"pa'},)
    )
    _, model = hold(assignment, cut, FINISH)
    assert "the reply was cut off at the limit of its length" in model.prompts[-1][-1]["content"]


def test_long_texts_come_in_pages(desk):
    text = "\n".join(f"line {number} {'x' * 50}" for number in range(1, 301))
    use(desk, "write_file", path="logic.py", text=text)
    lines, first = [], 1
    while first:
        answer = use(desk, "read_scaffold", path="logic.py", which="candidate", line=first)
        assert len(answer) < tools.ANSWER_CHARS + 100
        *shown, told = answer.split("\n")
        lines += shown
        first = int(told.partition("line=")[2].split()[0]) if "line=" in told else 0
    assert "\n".join(lines) == text
    use(desk, "write_file", path="logic.py", text="y" * 10_000 + "\nlast")
    answer = use(desk, "read_scaffold", path="logic.py", which="candidate")
    assert answer.endswith("… (line cut, it has 10000 characters)\nlast")
    assert len(answer) < 2_100


# Commands

AGENT = """
import os, shutil, sys, time
from pathlib import Path
workspace, prompt, output = map(Path, sys.argv[1:4])
assert Path.cwd() == workspace and not sys.stdin.read()
def improve():
    assert "# What every rewrite must keep to" in prompt.read_text()
    assert (workspace / "diagnosis.md").read_text().startswith("# Diagnosis")
    assert len(list((workspace / "run/traces").rglob("*.jsonl"))) == 2
    shutil.copytree(workspace / "scaffold", output, dirs_exist_ok=True)
    source = output / "scaffold.yaml"
    source.write_text(source.read_text().replace("name: courier-v0", "name: by-command"))
    (output / "ANALYSIS.md").write_text("I looked.\\n")
"""


def command(tmp_path, body, timeout=20.0):
    """A proposer that runs this Python code."""
    script = tmp_path / "agent.py"
    script.write_text(AGENT + textwrap.dedent(body))
    line = f"{sys.executable} '{script}' {{workspace}} {{prompt}} {{output}}"
    return CommandProposer(line, CommandSettings(seconds=timeout))


def fail(assignment, tmp_path, body, timeout=20.0):
    """The message with which a command fails; the output is then empty."""
    (assignment.output / "old.txt").write_text("x")
    with pytest.raises(ProposerFailure) as caught:
        command(tmp_path, body, timeout).propose(assignment)
    assert list(assignment.output.iterdir()) == []
    assert caught.value.cost.seconds > 0
    return caught.value.message


def test_a_command_that_behaves(assignment, tmp_path):
    proposer = command(tmp_path, "improve(); print('bye')")
    proposal = proposer.propose(assignment)
    assert load(str(assignment.output)).name == "by-command"
    assert written(assignment.output) == WRITTEN
    assert proposal.analysis == "I looked."
    assert proposal.cost.calls == 0
    assert proposal.cost.seconds > 0
    log = assignment.log / "command_1"
    assert (log / "stdout.txt").read_text() == "bye\n"
    assert "You improve the memory" in (log / "task.md").read_text()
    assert proposer.name == f"command:{sys.executable.rpartition('/')[2]}"


def test_a_command_that_writes_nothing(assignment, tmp_path):
    proposal = command(tmp_path, "print('no idea')").propose(assignment)
    assert proposal.analysis == "no idea"
    assert written(assignment.output) == set()


def test_a_command_sees_what_failed(assignment, failed, tmp_path):
    case = replace(assignment, failed=failed, errors="- too much")
    (assignment.output / "scaffold.yaml").write_text("name: refused\n")
    body = """
    assert "name: courier-v1" in (workspace / "failed/scaffold/scaffold.yaml").read_text()
    assert len(list((workspace / "failed/run/traces").rglob("*.jsonl"))) == 2
    assert (output / "scaffold.yaml").read_text() == "name: refused\\n"
    assert "- too much" in prompt.read_text() and "no gain" in prompt.read_text()
    (output / "scaffold.yaml").write_text("name: mended\\n")
    """
    command(tmp_path, body).propose(case)
    assert (assignment.output / "scaffold.yaml").read_text() == "name: mended\n"


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        ("(workspace / 'notes.txt').write_text('x')", "added notes.txt"),
        ("(workspace / 'scaffold/scaffold.yaml').write_text('x')", "changed scaffold/scaffold.yaml"),
        ("(workspace / 'task.md').unlink()", "removed task.md"),
        ("(workspace / 'cache').mkdir(); (workspace / 'cache/a').write_text('')", "added cache (and 1 more)"),
        ("(workspace / 'run/run.json').unlink(); os.symlink('/x', workspace / 'run/run.json')", "changed run/run.json"),
    ],
)  # fmt: skip
def test_a_command_may_write_to_output_only(assignment, tmp_path, deed, told):
    message = fail(assignment, tmp_path, f"improve()\n{deed}")
    assert message == f"the command {told}: it may write to output/ only"


def test_a_command_may_not_edit_the_originals(assignment, tmp_path):
    original = assignment.scaffold.folder / "prompts" / "log.j2"
    message = fail(assignment, tmp_path, f"improve()\nPath({str(original)!r}).write_text('be lucky')")
    assert message == f"the command changed {original}: it may write to output/ only"


def test_a_command_may_not_edit_the_run(assignment, tmp_path, played):
    file = played.path / "logs" / "cheat"
    try:
        message = fail(assignment, tmp_path, f"Path({str(file)!r}).write_text('1.0'); sys.exit(1)")
    finally:
        file.unlink()
    assert message == f"the command added {file}: it may write to output/ only"


def test_a_command_that_hangs_is_stopped_with_its_children(assignment, tmp_path):
    mark = tmp_path / "alive"
    child = f"import time; time.sleep(1.5); open({str(mark)!r}, 'w')"
    body = f"""
    import subprocess
    improve()
    subprocess.Popen([sys.executable, "-c", {child!r}])
    time.sleep(60)
    """
    began = time.monotonic()
    message = fail(assignment, tmp_path, body, timeout=0.6)
    assert message.endswith("was stopped after 0.6 seconds")
    assert time.monotonic() - began < 1.4
    time.sleep(max(0.0, began + 2.2 - time.monotonic()))
    assert not mark.exists()


def test_a_command_that_fails_is_quoted(assignment, tmp_path):
    assert fail(assignment, tmp_path, "improve(); sys.exit('no credit left')").endswith(
        "ended with exit code 1: no credit left"
    )
    assert fail(assignment, tmp_path, "print('on stdout', flush=True); os._exit(7)").endswith(
        "ended with exit code 7: on stdout"
    )
    assert fail(assignment, tmp_path, "os.kill(os.getpid(), 9)").endswith("ended with exit code -9: it printed nothing")


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        ("(output / 'memory').symlink_to('/etc')", "output/memory is a link"),
        ("(output / 'logic.py').symlink_to('/etc/hostname')", "output/logic.py is a link"),
        ("os.mkfifo(output / 'logic.py')", "output/logic.py is not a regular file"),
        (f"(output / 'logic.py').write_text('x' * {MAX_FILE + 1})", "output/logic.py is larger than 256 KiB"),
        (f"[(output / str(n)).touch() for n in range({MAX_FILES + 1})]", f"output/ holds {MAX_FILES + 7} files"),
        ("shutil.rmtree(output)", "output/ is no longer a folder"),
        ("shutil.rmtree(output); output.symlink_to(workspace / 'scaffold')", "output/ is no longer a folder"),
        ("(output / 'a\\nb').touch()", "output/ holds a file with the name 'a\\nb'"),
    ],
)  # fmt: skip
def test_only_small_regular_files_are_taken(assignment, tmp_path, deed, told):
    assert fail(assignment, tmp_path, f"improve()\n{deed}").startswith(told)


def test_a_command_that_floods_its_log_is_stopped(assignment, tmp_path):
    message = fail(assignment, tmp_path, "while True: print('x' * 10_000)")
    assert message.endswith("was stopped: it printed more than 64 MiB")


def test_a_command_that_is_not_there(assignment):
    with pytest.raises(ProposerFailure, match="command:no-such-agent cannot be run: No such file or directory"):
        CommandProposer("no-such-agent {prompt}").propose(assignment)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "the command is empty"),
        ("agent 'open", "No closing quotation"),
        ("agent {promt}", "unknown placeholder {promt}"),
    ],
)
def test_wrong_templates_are_named(template, message):
    with pytest.raises(UsageError, match=message):
        CommandProposer(template)


def test_a_template_may_hold_a_shell(assignment):
    proposer = CommandProposer("""sh -c 'cp -r scaffold/. "$1" && echo "{\\"a\\": 1}"' sh {output}""")
    assert proposer.propose(assignment).analysis == '{"a": 1}'
    assert written(assignment.output) == WRITTEN


# Recorded


def test_recorded_folders_are_replayed_in_order(assignment, tmp_path):
    shelf = tmp_path / "shelf"
    for name in ("b", "a"):
        load("courier-v1").save(shelf / name)
        (shelf / name / "CHANGES.md").write_text(name)
    (shelf / "README").write_text("not a scaffold")
    proposer = RecordedProposer(shelf)
    row = Revision.model_construct()
    for position, expected in enumerate(("a", "b", None)):
        candidate.empty(assignment.output)
        proposal = proposer.propose(replace(assignment, lineage=(row,) * position))
        changes = assignment.output / "CHANGES.md"
        assert (changes.read_text() if changes.exists() else None) == expected
        assert proposal.cost == Cost()
    assert proposal.analysis == "nothing more is recorded: there are 2 candidates"


def test_recorded_lineages_are_replayed(assignment, tmp_path):
    earlier = tmp_path / "earlier"
    load("courier-v1").save(earlier / "proposals" / "r1-a2-c0" / "candidate")
    rows = [ROW.model_copy(update={"folder": f"proposals/r1-a{attempt}-c0"}) for attempt in (1, 2)]
    (earlier / "lineage.jsonl").write_text("".join(row.model_dump_json() + "\n" for row in rows))
    proposer = RecordedProposer(earlier)
    proposer.propose(assignment)
    assert written(assignment.output) == set()
    proposer.propose(replace(assignment, lineage=rows[:1]))
    assert load(str(assignment.output)).name == "courier-v1"
    (assignment.output / "CHANGES.md").write_text("refused")
    proposer.propose(replace(assignment, lineage=rows[:1], errors="- wrong"))
    assert (assignment.output / "CHANGES.md").read_text() == "refused"


def test_recorded_links_are_refused(assignment, tmp_path):
    (tmp_path / "shelf" / "a").mkdir(parents=True)
    (tmp_path / "shelf" / "a" / "logic.py").symlink_to("/etc/hostname")
    with pytest.raises(ProposerFailure, match=r"a/logic\.py is a link"):
        RecordedProposer(tmp_path / "shelf").propose(assignment)
    assert written(assignment.output) == set()


@pytest.mark.parametrize(("make", "message"), [(False, "there is no folder"), (True, "holds no proposals")])
def test_wrong_recordings_are_named(tmp_path, make, message):
    if make:
        (tmp_path / "shelf").mkdir()
    with pytest.raises(UsageError, match=message):
        RecordedProposer(tmp_path / "shelf")
