import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from automem.grammar import (
    OPERATIONS,
    Malformed,
    Operation,
    check,
    help_text,
    parse,
    parse_tool_calls,
    reads,
    render,
    render_tool_calls,
    reply_pattern,
    tool_schemas,
    without,
)

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEARCH = Operation("SEARCH", ("map.txt", "water"))
READ = Operation("READ", ("map.txt",))
DONE = Operation("DONE", ())


def call(name, arguments):
    return {"id": "x", "name": name, "arguments": arguments}


def errors(text):
    return [found.error for found in parse(text) if isinstance(found, Malformed)]


# --- what is read as an operation


@pytest.mark.parametrize(
    "text",
    [
        "<|SEARCH|>map.txt|water<|END|>",
        "<|search|>map.txt|water<|end|>",
        "<|Search|>map.txt|water<|End|>",
        "<SEARCH>map.txt|water<END>",
        "<|SEARCH>map.txt|water<|END>",
        "<SEARCH|>map.txt|water<END|>",
        "<|SEARCH|>map.txt|water<|END|}",
        "<|SEARCH|>map.txt|water<|END}",
        "<|SEARCH|>map.txt|water<|END|]",
        "<|SEARCH|>map.txt|water<|END|)",
        "< | SEARCH | > map.txt | water < | END | >",
        "<|SEARCH|>\n map.txt\t|\n water \n<|END|>",
        "I will look it up first.\n<|SEARCH|>map.txt|water<|END|>\nThen I will go on.",
        "```\n<|SEARCH|>map.txt|water<|END|>\n```",
        "a < b, if x <y> then <b>bold</b> <|SEARCH|>map.txt|water<|END|>",
    ],
)
def test_sloppy_tags_are_read(text):
    assert parse(text) == [SEARCH]


@pytest.mark.parametrize("text", ["<|DONE|>", "<|DONE|><|END|>", "<|done|> <|END|}", "<DONE>", "nothing new <|DONE|>."])
def test_done_needs_no_end(text):
    assert parse(text) == [DONE]


def test_written_order_is_kept():
    text = "<|WRITE|>a.txt|new<|END|> <|APPEND|>a.txt|line<|END|> <|READ|>a.txt<|END|> <|DONE|>"
    assert [op.name for op in parse(text)] == ["WRITE", "APPEND", "READ", "DONE"]


def test_last_text_may_contain_bars_and_line_breaks():
    assert parse("<|APPEND|>a.txt| x | y\n\n  z|<|END|>") == [Operation("APPEND", ("a.txt", "x | y\n\n  z|"))]
    assert parse("<|UPSERT|>a.txt|1,2|x|y<|END|>") == [Operation("UPSERT", ("a.txt", "1,2", "x|y"))]
    assert parse("<|ACTION|>put a|b<|END|>") == [Operation("ACTION", ("put a|b",))]


def test_optional_argument():
    assert parse("<|READ|>map.txt<|END|><|READ|>map.txt|41<|END|><|READ|>map.txt|<|END|>") == [
        READ,
        Operation("READ", ("map.txt", "41")),
        READ,
    ]


@pytest.mark.parametrize("text", ["", "no operation here", "a < b > c", "<b>", "<|", "|>", "<||>", "<think>hm</think>"])
def test_prose_holds_no_operations(text):
    assert parse(text) == []


# --- what is refused, and how


def test_unclosed_is_named_and_the_next_one_is_done_once():
    first, second = parse("<|APPEND|>a.txt|x\n<|READ|>map.txt<|END|>")
    assert isinstance(first, Malformed)
    assert first.error == "APPEND is not closed by <|END|>. Write <|APPEND|>file|text<|END|>"
    assert first.source == "<|APPEND|>a.txt|x"
    assert second == READ


def test_unclosed_at_the_end():
    assert parse("<|DONE|> <|APPEND|>a.txt|x")[1].error.startswith("APPEND is not closed")


def test_nested_refuses_the_outer_and_the_end_left_over():
    outer, inner, stray = parse("<|APPEND|>a.txt|see <|READ|>map.txt<|END|> there<|END|>")
    assert "APPEND is not closed" in outer.error
    assert inner == READ
    assert "closes nothing" in stray.error


def test_done_inside_an_open_operation_is_not_swallowed():
    assert [type(found) for found in parse("<|APPEND|>a.txt|x <|DONE|>")] == [Malformed, Operation]


def test_stray_ends():
    assert errors("<|END|>") == ["<|END|> closes nothing: no operation is open before it"]
    assert len(errors("<|DONE|><|END|><|END|>")) == 1
    assert len(errors("<|READ|>map.txt<|END|><|END|>")) == 1


def test_unknown_operation_is_answered_with_the_nearest():
    assert errors("<|SERCH|>map.txt|x<|END|>") == ["unknown operation SERCH: did you mean 'SEARCH'?"]
    assert errors("<|FROBNICATE|>")[0].startswith("unknown operation FROBNICATE")
    assert errors("<SERCH>map.txt") == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<|SEARCH|>map.txt<|END|>", "SEARCH needs keyword. Write <|SEARCH|>file|keyword<|END|>"),
        ("<|SEARCH|>map.txt| <|END|>", "SEARCH needs keyword. Write <|SEARCH|>file|keyword<|END|>"),
        ("<|SEARCH|> |water<|END|>", "SEARCH needs file. Write <|SEARCH|>file|keyword<|END|>"),
        ("<|READ|><|END|>", "READ needs file. Write <|READ|>file<|END|> or <|READ|>file|line<|END|>"),
        ("<|TAIL|>map.txt<|END|>", "TAIL needs n. Write <|TAIL|>file|n<|END|>"),
        ("<|UPSERT|>t.txt|1,2<|END|>", "UPSERT needs text. Write <|UPSERT|>file|key|text<|END|>"),
        ("<|CREATE|>a|b<|END|>", "CREATE: file may not contain '|'. Write <|CREATE|>file<|END|>"),
        ("<|DELETE|>a|b|c<|END|>", "DELETE: key may not contain '|'. Write <|DELETE|>file|key<|END|>"),
        ("<|ACTION|><|END|>", "ACTION needs action. Write <|ACTION|>action<|END|>"),
    ],
)
def test_missing_arguments_are_answered_with_the_form(text, error):
    assert errors(text) == [error]


@pytest.mark.parametrize("count", ["0", "-1", "+1", "1.5", "two", "9" * 5000, "²", "٣", "1|2"])
def test_count_must_be_a_positive_whole_number(count):
    message = "TAIL: n must be a positive whole number. Write <|TAIL|>file|n<|END|>"
    assert errors(f"<|TAIL|>map.txt|{count}<|END|>") == [message]


def test_check_knows_names_and_numbers_of_arguments():
    assert check(SEARCH) is None
    assert check(Operation("?", ())).startswith("unknown operation ?")
    assert check(Operation("DONE", ("x",))) == "DONE takes 0 arguments, not 1"


@pytest.mark.parametrize(
    "text",
    [
        "<" * 200_000,
        "< " * 100_000,
        "<|" * 100_000,
        "<|READ" + " " * 200_000,
        "<|" + "A" * 200_000,
        "|" * 200_000,
        "<|READ|>" * 25_000,
        "<|END|>" * 28_000,
        "<|APPEND|>a|" + "x|" * 100_000 + "<|END|>",
        "<|APPEND|>a|" + " \n" * 100_000 + "<|END|>",
        "<|FOO|>" * 28_000,
    ],
)
def test_hostile_input_costs_linear_time(text):
    started = time.process_time()
    parse(text)
    assert time.process_time() - started < 2


@CALM
@given(st.text(alphabet="<|>}] \nENDREADSRCHaz.|1", max_size=80))
def test_any_text_parses(text):
    for found in parse(text):
        if isinstance(found, Malformed):
            assert found.error
            assert found.source in text
        else:
            assert check(found) is None


# --- writing operations


ANY_TEXT = st.text(max_size=40)


@st.composite
def operations(draw, text=ANY_TEXT):
    """Any valid operation whose arguments hold no `<`."""
    free = text.map(lambda any_text: any_text.replace("<", "").strip()).filter(bool)
    kinds = {
        "file": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True),
        "count": st.integers(1, 10**9 - 1).map(str),
        "key": text.map(lambda key: re.sub(r"[<|\n]", "", key).strip()).filter(bool),
    }
    spec = OPERATIONS[draw(st.sampled_from(list(OPERATIONS)))]
    shortest = sum(param.default is None for param in spec.params)
    params = spec.params[: draw(st.integers(shortest, len(spec.params)))]
    return Operation(spec.name, tuple(draw(kinds.get(param.kind, free)) for param in params))


@CALM
@given(st.lists(operations(), max_size=5))
def test_tags_round_trip(ops):
    assert parse("\n".join(map(render, ops))) == ops


@CALM
@given(st.lists(operations(), max_size=5))
def test_tool_calls_round_trip(ops):
    calls = render_tool_calls(ops)
    assert parse_tool_calls(calls) == ops
    assert [made["id"] for made in calls] == [f"call_{number}" for number in range(len(ops))]


def test_render():
    assert render(SEARCH) == "<|SEARCH|>map.txt|water<|END|>"
    assert render(DONE) == "<|DONE|>"
    assert render(Operation("search", (" map.txt", "water\n"))) == "<|SEARCH|>map.txt|water<|END|>"
    assert render(Operation("APPEND", ("a.txt", "x < 3, y > 4, <b>"))) == "<|APPEND|>a.txt|x < 3, y > 4, <b><|END|>"


@pytest.mark.parametrize(
    "op",
    [
        Operation("APPEND", ("a.txt", "say <|END|> now")),
        Operation("APPEND", ("a.txt", "I am <done>")),
        Operation("APPEND", ("a.txt", "<|foo|>")),
        Operation("APPEND", ("a|b", "text")),
        Operation("SEARCH", ("a.txt", " ")),
        Operation("DONE", ("x",)),
        Operation("?", ()),
    ],
)
def test_what_would_not_parse_back_is_not_rendered(op):
    with pytest.raises(ValueError, match="cannot be written as tags"):
        render(op)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<|SEARCH|>a|b<|END|>", "<|SEARCH|>a|b<|END|>"),
        ("go: <|ACTION|>north<|END|> now", "go:  now"),
        ("<|action|>x<|END|}<|SEARCH|>a|b<|END|><|ACTION|>y<|END|>", "<|SEARCH|>a|b<|END|>"),
        ("see <|ACTION|>north", "see "),
        ("<|ACTION|>north <|SEARCH|>a|b<|END|>.", "<|SEARCH|>a|b<|END|>."),
        ("<|APPEND|>a|no <b>action</b><|END|>", "<|APPEND|>a|no <b>action</b><|END|>"),
    ],
)
def test_one_operation_is_cut_out(text, left):
    assert without(text, "ACTION") == left
    assert Operation("ACTION", ("north",)) not in parse(without(text, "ACTION"))


@CALM
@given(st.lists(operations(), max_size=5))
def test_cutting_leaves_all_others(ops):
    text = " ".join(map(render, ops))
    assert parse(without(text, "ACTION")) == [op for op in ops if op.name != "ACTION"]


# --- native tool calls


def test_tool_calls_are_read():
    calls = [
        call("search", '{"file": " map.txt", "keyword": "water"}'),
        call("READ", '{"line": 41, "file": "map.txt"}'),
        call("READ", '{"file": "map.txt"}'),
        call("TAIL", '{"file": "map.txt", "n": "3"}'),
        call("UPSERT", '{"file": "t.txt", "key": 12, "text": "<|END|> | x"}'),
        call("DONE", ""),
    ]
    assert parse_tool_calls(calls) == [
        SEARCH,
        Operation("READ", ("map.txt", "41")),
        READ,
        Operation("TAIL", ("map.txt", "3")),
        Operation("UPSERT", ("t.txt", "12", "<|END|> | x")),
        DONE,
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("SERCH", "{}", "unknown operation SERCH: did you mean 'SEARCH'?"),
        ("READ", "{", "READ: the arguments are not valid JSON"),
        ("READ", "[" * 100_000, "READ: the arguments are not valid JSON"),
        ("TAIL", '{"file": "a", "n": ' + "9" * 5000 + "}", "TAIL: the arguments are not valid JSON"),
        ("READ", '["a.txt"]', "READ: the arguments must be one JSON object"),
        ("READ", "null", "READ: the arguments must be one JSON object"),
        ("READ", "{}", "READ needs file"),
        ("READ", '{"line": 3}', "READ needs file"),
        ("READ", '{"file": null}', "READ: file must be a string"),
        ("READ", '{"file": 3}', "READ: file must be a string"),
        ("READ", '{"file": ["a"]}', "READ: file must be a string"),
        ("READ", '{"file": "a", "path": "b"}', "READ: unknown argument 'path'"),
        ("TAIL", '{"file": "a"}', "TAIL needs n"),
        ("TAIL", '{"file": "a", "n": 0}', "TAIL: n must be a positive whole number"),
        ("TAIL", '{"file": "a", "n": 1.5}', "TAIL: n must be a whole number"),
        ("TAIL", '{"file": "a", "n": true}', "TAIL: n must be a whole number"),
        ("UPSERT", '{"file": "a", "key": "a|b", "text": "x"}', "UPSERT: key may not contain '|'"),
    ],
)
def test_hostile_tool_calls_are_answered(name, arguments, error):
    (found,) = parse_tool_calls([call(name, arguments)])
    assert isinstance(found, Malformed)
    assert found.error.split(". Write ")[0] == error


def test_lone_surrogates_do_not_get_in():
    (op,) = parse_tool_calls([call("APPEND", r'{"file": "a", "text": "\ud800"}')])
    assert op == Operation("APPEND", ("a", "\ufffd"))


# --- made from the declaration


def test_help_text_has_one_line_for_each_operation():
    tags = help_text(["SEARCH", "READ", "DONE"], "tags").splitlines()
    assert tags[0] == f"<|SEARCH|>file|keyword<|END|>: {OPERATIONS['SEARCH'].about}"
    assert tags[1].startswith("<|READ|>file<|END|> or <|READ|>file|line<|END|>: ")
    assert tags[2].startswith("<|DONE|>: ")
    tools = help_text(OPERATIONS, "tools").splitlines()
    assert len(tools) == len(OPERATIONS)
    assert tools[1].startswith("READ(file) or READ(file, line): ")


def test_tool_schemas():
    (schema,) = tool_schemas(["READ"])
    assert schema["type"] == "function"
    assert schema["function"]["name"] == "READ"
    parameters = schema["function"]["parameters"]
    assert parameters["required"] == ["file"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["line"] | {"description": ""} == {
        "type": "integer",
        "minimum": 1,
        "default": 1,
        "description": "",
    }


def test_reads_writes_and_phases():
    assert {name for name, spec in OPERATIONS.items() if spec.reads} == {"SEARCH", "READ", "TAIL", "COUNT", "RECALL"}
    assert {name for name, spec in OPERATIONS.items() if spec.writes} == {
        "APPEND",
        "WRITE",
        "CREATE",
        "UPSERT",
        "DELETE",
    }
    assert all(spec.phases == ("log",) for spec in OPERATIONS.values() if spec.writes)
    assert "log" not in OPERATIONS["ACTION"].phases


@CALM
@given(st.lists(operations(st.text("ab é東.|,:>}\n 3")), min_size=1, max_size=4))
def test_reply_pattern_takes_rendered_operations(ops):
    reply = "\n".join(map(render, ops))
    assert re.fullmatch(reply_pattern(OPERATIONS), reply)


def test_reply_pattern_takes_nothing_else():
    pattern = reply_pattern(["SEARCH", "DONE", "ACTION"], ["go north", "wait (5)"])
    assert re.fullmatch(pattern, "<|ACTION|>wait (5)<|END|>")
    assert re.fullmatch(pattern, "<|SEARCH|>a.txt|x<|END|>\n<|DONE|>")
    for reply in [
        "",
        "<|ACTION|>go<|END|>",
        "<|ACTION|>go north south<|END|>",
        "<|READ|>a.txt<|END|>",
        "<|SEARCH|>a.txt<|END|>",
        "<|SEARCH|>a.txt| <|END|>",
        "<|SEARCH|>../a|x<|END|>",
        "<|DONE|>\n",
        "well, <|DONE|>",
        "<|search|>a.txt|x<|END|>",
    ]:
        assert not re.fullmatch(pattern, reply), reply


@CALM
@given(st.from_regex(reply_pattern(tuple(OPERATIONS)), fullmatch=True))
def test_what_reply_pattern_takes_parses(reply):
    found = parse(reply)
    assert found
    assert not [one for one in found if isinstance(one, Malformed)]


def test_reply_pattern_is_plain():
    pattern = reply_pattern(OPERATIONS, ["a.b", "x|y", "(z)", "50%"])
    assert not re.search(r"\(\?[^:]|\\[1-9dDwWsSbBAZ]|[*+?}][?+]", pattern)


@pytest.mark.parametrize(("name", "expected"), [("SEARCH", True), ("COUNT", True), ("WRITE", False), ("?", False)])
def test_what_reads(name, expected):
    assert reads(name) is expected
