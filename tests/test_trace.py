from __future__ import annotations

import json
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from automem.episode import EpisodeSpec, ModelSpec, text_digest
from automem.errors import UsageError
from automem.memory.kinds import Splice
from automem.messages import Usage
from automem.trace import (
    Call,
    OperationRecord,
    Result,
    Step,
    TraceReader,
    TraceWriter,
    check_lines,
    check_unedited,
    read_result,
    read_trace,
)

DONE = Result(end="terminated", progress=0.5, score=2.0, steps=3)
DONE_AT_ONCE = DONE.model_copy(update={"steps": 1})
FAILED = Result(end="failed", progress=0.1, score=0.1, steps=1, failure="model", message="endpoint down")


def spec(seed=0):
    model = ModelSpec(name="scripted:courier")
    return EpisodeSpec(
        env="courier", task="short", seed=seed, scaffold="s", scaffold_digest="d", models={"gameplay": model}
    )


def step(t=0, observation="here", **changes):
    base = {"action": "wait", "reward": 0.0, "progress": 0.0, "next_digest": text_digest("there")}
    return Step(t=t, observation=observation, **base | changes)


def call(messages, reply="ok", **changes):
    base = {"role": "memory", "phase": "log", "usage": Usage(1, 1)}
    return Call(messages=messages, reply=reply, **base | changes)


def write(path, steps, result=None, of=None):
    with closing(TraceWriter(path, of or spec())) as writer:
        for one in steps:
            writer.step(one)
        if result:
            writer.result(result)
    return path


#: Texts of few kinds of block, so that blocks come back, on both sides of the length that is shared.
BLOCKS = st.one_of(
    st.sampled_from(["", "\n", "\n\n", "\n\n\n\n", " \n\n ", "short", "rules " * 30, "\n\n" + "map " * 60 + "\n"]),
    st.text(max_size=120),
    st.text(alphabet="\n\r\t \u2028a", max_size=200),
)
TEXTS = st.lists(BLOCKS, max_size=8).map("".join) | st.text(min_size=200, max_size=2_000)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=12))
def test_texts_come_back_word_for_word(tmp_path, texts):
    path = tmp_path / "t.jsonl"
    path.unlink(missing_ok=True)
    steps = []
    for t, text in enumerate(texts):
        talk = [{"role": "system", "content": texts[0]}, {"role": "user", "content": text}]
        longer = [*talk, {"role": "assistant", "content": text}, {"role": "user", "content": texts[-1]}]
        answered = OperationRecord(name="READ", args=[text], result=text)
        calls = [call(talk, text, operations=[answered]), call(longer, text), call(talk[:1])]
        steps.append(step(t, text, calls=calls, memory=[Splice("log", 0, 1, (text, ""))]))
    done = DONE.model_copy(update={"steps": len(steps)})
    assert read_trace(write(path, steps, done)).steps == steps


def test_all_fields_come_back(tmp_path):
    used = [{"id": "c1", "name": "SEARCH", "arguments": '{"file": "log"}'}]
    messages = [
        {"role": "assistant", "content": "", "tool_calls": used},
        {"role": "tool", "content": "1 hit", "tool_call_id": "c1"},
    ]
    full = step(
        calls=[
            call(
                messages,
                tool_calls=used,
                operations=[OperationRecord(name="?", args=["<|X"], ok=False, hits=0, changed=True, repeat=True)],
                usage=Usage(10, 2, cached=4, estimated=True),
                finish_reason="length",
                retries=2,
                seconds=0.5,
            )
        ],
        proposed="fly",
        fallback=True,
        rejections=["fly: no wings"],
        terminated=True,
        truncated=True,
        evictions=[{"unit": 3, "score": 0.25}],
        seconds={"env": 0.1},
    )
    trace = read_trace(write(tmp_path / "t.jsonl", [full], FAILED))
    assert (trace.steps, trace.result, trace.spec) == ([full], FAILED, spec())


def test_bytes_per_step_stay_flat(tmp_path):
    """A long system prompt, the same in each call, and a conversation that grows within the step."""
    system = {"role": "system", "content": "The rules of the game. " * 400}
    path = tmp_path / "t.jsonl"
    sizes = []
    with closing(TraceWriter(path, spec())) as writer:
        for t in range(50):
            before = path.stat().st_size
            talk = [system, {"role": "user", "content": f"{t:04} " + "you see a room. " * 20}]
            longer = [
                *talk,
                {"role": "assistant", "content": "x" * 200},
                {"role": "user", "content": f"{t:04}"},
            ]
            writer.step(step(t, f"{t:04}", calls=[call(talk), call(longer)]))
            sizes.append(path.stat().st_size - before)
    assert sizes[0] > len(system["content"])
    assert max(sizes[10:]) <= 1.02 * min(sizes[10:])
    assert sizes[-1] < 1_500


def test_a_torn_last_line_is_dropped_and_owed_again(tmp_path):
    long = "a text of some length " * 20
    steps = [step(t, f"{t} {long}\n\n{long}") for t in range(3)]
    path = write(tmp_path / "t.jsonl", steps)
    whole = path.read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    for cut in (1, last // 2, last - 1):
        path.write_bytes(whole[:-cut])
        assert read_trace(path).steps == steps[:2]
        write(path, steps[2:], DONE)
        assert (read_trace(path).steps, read_trace(path).result) == (steps, DONE)
        assert path.read_bytes().startswith(whole)


def test_a_torn_header_is_written_again(tmp_path):
    path = write(tmp_path / "t.jsonl", [])
    path.write_bytes(path.read_bytes()[:20])
    assert read_trace(write(path, [step()])).steps == [step()]


def test_a_failed_result_is_dropped_on_resume(tmp_path):
    steps = [step(t, "the same long text " * 10) for t in range(3)]
    path = write(tmp_path / "t.jsonl", steps[:2], FAILED)
    assert read_result(path) == FAILED
    with closing(TraceWriter(path, spec())):
        assert read_result(path) is None
    write(path, steps[2:], DONE)
    trace = read_trace(path)
    assert (trace.steps, trace.result) == (steps, DONE)
    assert path.read_bytes().count(b'"kind":"result"') == 1


def test_the_result_is_read_from_the_end(tmp_path):
    path = write(tmp_path / "t.jsonl", [step(observation="long " * 40_000)], DONE)
    assert read_result(path) == DONE
    path.write_bytes(path.read_bytes()[:-1])
    assert read_result(path) is None
    assert read_result(write(tmp_path / "unfinished.jsonl", [step()])) is None
    (tmp_path / "empty.jsonl").touch()
    assert read_result(tmp_path / "empty.jsonl") is None


def test_an_unfinished_trace_has_no_result(tmp_path):
    reader = TraceReader(write(tmp_path / "t.jsonl", [step()]))
    assert list(reader.steps()) == [step()]
    assert reader.result is None


def test_a_reader_can_read_twice(tmp_path):
    reader = TraceReader(write(tmp_path / "t.jsonl", [step(observation="long " * 100)], DONE_AT_ONCE))
    assert list(reader.steps()) == list(reader.steps())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no header line"),
        (b'{"kind":"step"}\n', "no header line"),
        (b'{"kind":"header","format":99,"id":"x","spec":{}}\n', "trace format 99, this version reads 1"),
        (b"not json\nat all\n", "line 1: not JSON"),
        (b"\xff\xfenot text\nat all\n", "line 1: not JSON"),
        (b"42\n", "line 1: not a line of a trace"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        TraceReader(path)


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    path = write(tmp_path / "t.jsonl", [step(0), step(1)], DONE)
    lines = path.read_text().splitlines()
    lines[1] = lines[1][:-9]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UsageError, match="line 2: not JSON"):
        read_trace(path)


def test_the_trace_of_another_episode_is_not_continued(tmp_path):
    path = write(tmp_path / "t.jsonl", [step()])
    before = path.read_bytes()
    with pytest.raises(UsageError, match="another episode"):
        TraceWriter(path, spec(seed=1))
    assert path.read_bytes() == before


def test_a_line_is_plain_json(tmp_path):
    path = write(tmp_path / "t.jsonl", [step(observation="ключ " * 40)], DONE)
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert kinds == ["header", "step", "result"]
    assert "ключ" in path.read_text()


LONG = "a text that is stored once " * 10


@pytest.fixture
def lines(tmp_path):
    """Lines of a finished trace of three steps, the second of which brings a text that the third needs."""
    steps = [step(0), step(1, observation=LONG), step(2, observation=LONG)]
    return write(tmp_path / "whole.jsonl", steps, DONE).read_bytes().splitlines(keepends=True)


#: What is done to the lines -> what is said, by whoever reads the steps and by whoever looks at the order only.
DAMAGE = {
    "the line with a text is missing": (
        lambda lines: lines[:2] + lines[3:],
        "line 3: damaged: step 2 stands where step 1 is due",
    ),
    "a line stands twice": (
        lambda lines: lines[:3] + lines[2:],
        "line 4: damaged: step 1 stands where step 2 is due",
    ),
    "the last step is missing": (
        lambda lines: lines[:3] + lines[4:],
        "line 4: damaged: the result is of 3 steps, and 2 are there",
    ),
    "a line is cut": (lambda lines: [*lines[:2], lines[2][:50] + b"\n", *lines[3:]], "line 3: not JSON"),
    "zeros in a line": (lambda lines: [*lines[:2], bytes(99) + b"\n", *lines[3:]], "line 3: not JSON"),
    "an empty line": (lambda lines: [*lines[:2], b"\n", *lines[2:]], "line 3: not JSON"),
    "a list": (lambda lines: [*lines[:2], b"[1]\n", *lines[3:]], "line 3: not a line of a trace"),
    "no kind": (lambda lines: [*lines[:2], b"{}\n", *lines[3:]], "line 3: damaged: kind: this key is missing"),
    "another kind": (lambda lines: [*lines[:2], b'{"kind":"x"}\n', *lines[3:]], "line 3: damaged: it is no step"),
    "two headers": (lambda lines: [lines[0], *lines], "line 2: damaged: it is no step"),
    "two results": (lambda lines: [*lines, lines[-1]], "line 6: damaged: it stands behind the result"),
    "a step behind the result": (lambda lines: [*lines, lines[1]], "line 6: damaged: it stands behind the result"),
    "a wrong value in the result": (
        lambda lines: [*lines[:-1], lines[-1].replace(b"0.5", b'"much"')],
        "line 5: damaged: progress: input should be a valid number",
    ),
    "an unknown key in the result": (
        lambda lines: [*lines[:-1], lines[-1].replace(b'"progress"', b'"progres"')],
        "line 5: damaged: progres: unknown key 'progres'",
    ),
}
#: Told only by whoever takes lines apart.
WITHIN = {
    "two lines are one": (lambda lines: [*lines[:2], lines[2][:50], *lines[3:]], "line 3: not JSON"),
    "a key is missing": (
        lambda lines: [*lines[:2], lines[2].replace(b'"action":', b'"acton":'), *lines[3:]],
        "line 3: damaged: acton: unknown key 'acton'",
    ),
    "no observation": (
        lambda lines: [*lines[:2], lines[2].replace(b'"observation":', b'"o":'), *lines[3:]],
        "line 3: damaged: observation: this key is missing",
    ),
    "a wrong value": (
        lambda lines: [*lines[:2], lines[2].replace(b'"reward":0.0', b'"reward":"x"'), *lines[3:]],
        "line 3: damaged: reward: input should be a valid number",
    ),
    "a text of another line": (
        lambda lines: [*lines[:2], lines[2].replace(b'"observation":0', b'"observation":7'), *lines[3:]],
        "line 3: damaged: it refers to something that is not there",
    ),
    "calls of a wrong kind": (
        lambda lines: [*lines[:2], lines[2].replace(b'"action"', b'"calls":[3],"action"'), *lines[3:]],
        "line 3: damaged: it is not as it was written",
    ),
}


@pytest.mark.parametrize("damage", [*DAMAGE, *WITHIN])
def test_a_damaged_trace_is_refused_by_line(tmp_path, lines, damage):
    do, said = (DAMAGE | WITHIN)[damage]
    path = tmp_path / "traces" / "courier" / "short" / "t.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(do(lines)))
    assert path.read_bytes() != b"".join(lines)
    readings = [lambda: read_trace(path)]
    if damage in DAMAGE:
        readings += [lambda: check_lines(path, spec()), lambda: TraceWriter(path, spec())]
    for reading in readings:
        with pytest.raises(UsageError) as caught:
            reading()
        assert caught.value.message.startswith(f"{path}, {said}")
        assert caught.value.hint == "delete this file and run again: its episode is played afresh"
    assert path.read_bytes() == b"".join(do(lines))


def test_the_digest_is_of_every_byte_also_after_a_resume(tmp_path):
    steps = [step(0), step(1, observation=LONG), step(2, observation=LONG)]
    once = write(tmp_path / "once.jsonl", steps, DONE)
    resumed = write(tmp_path / "resumed.jsonl", steps[:2], FAILED)
    resumed.write_bytes(resumed.read_bytes()[:-4])
    write(resumed, steps[2:], DONE)
    assert resumed.read_bytes() == once.read_bytes()
    whole = once.read_bytes()
    check_unedited(once)
    for place, byte in enumerate(whole):
        for edited in (b"1" if byte != ord("1") else b"2", bytes([byte]) + b" "):
            once.write_bytes(whole[:place] + edited + whole[place + 1 :])
            with pytest.raises(UsageError, match=r"once\.jsonl (was edited or is damaged|has no digest)"):
                check_unedited(once)


def test_a_finished_trace_without_a_digest_counts_as_edited(tmp_path, lines):
    result = json.loads(lines[-1])
    assert result.pop("digest")
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(lines[:-1]) + json.dumps(result).encode() + b"\n")
    assert read_trace(path).result == DONE
    with pytest.raises(UsageError, match="has no digest: it was edited, or written before traces had one"):
        check_unedited(path)


def test_a_file_that_is_in_no_run_is_not_to_be_deleted(tmp_path, lines):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b"".join(lines[:1] + lines[2:]))
    with pytest.raises(UsageError) as caught:
        read_trace(path)
    assert caught.value.hint == "copy it again from the run that it is of"
    path.write_bytes(b"# Some page\n\nwith text\n")
    with pytest.raises(UsageError) as caught:
        read_trace(path)
    assert caught.value.hint == "traces are the files traces/ENV/TASK/EPISODE.jsonl of a run folder"


def test_a_whole_trace_passes_the_check_finished_or_not(tmp_path, lines):
    path = tmp_path / "t.jsonl"
    for count in range(len(lines) + 1):
        for torn in (b"", b'{"kind":"st', b"garbage\n", b"\xff\n"):
            path.write_bytes(b"".join(lines[:count]) + torn)
            check_lines(path, spec())
    spaced = [json.dumps(json.loads(line)).encode() + b"\n" for line in lines]
    path.write_bytes(b"".join(spaced))
    check_lines(path, spec())
    assert [one.t for one in read_trace(path).steps] == [0, 1, 2]


def test_a_failed_result_may_tell_of_fewer_steps_than_are_there(tmp_path):
    path = write(tmp_path / "t.jsonl", [step(0), step(1)], FAILED)
    check_lines(path, spec())
    assert read_trace(path).result == FAILED


def test_a_trace_of_another_episode_does_not_pass(tmp_path, lines):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(lines))
    with pytest.raises(UsageError, match=f"line 1: damaged: it is the trace of another episode \\({spec().id}\\)"):
        check_lines(path, spec(seed=1))
