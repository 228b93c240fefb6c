"""What people write: seed lists, overrides, YAML; errors name file, line and key."""

from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict

from automem.config import apply_override, parse_overrides, parse_seeds, read_yaml, validate
from automem.errors import UsageError


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    depth: int = 0
    kind: Literal["a", "b"] = "a"


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    inner: Inner | None = None
    several: list[Inner] = []


def refusal(function, *args):
    with pytest.raises(UsageError) as caught:
        function(*args)
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("0", [0]),
        ("0-3", [0, 1, 2, 3]),
        ("42,43", [42, 43]),
        ("0-2,10, 7", [0, 1, 2, 10, 7]),
        ("5-5", [5]),
        (" 3 ", [3]),
    ],
)
def test_seeds(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "1.5", "0-3-5", "1 2", "0-a", "1,"])
def test_what_is_no_list_of_seeds(text):
    message, hint = refusal(parse_seeds, text)
    assert message.startswith(f"--seeds '{text}': ")
    assert hint == "write seeds as 0-9 or 42,43 or 0-3,10"


def test_seeds_that_run_backwards_or_stand_twice():
    assert refusal(parse_seeds, "9-3") == ("--seeds '9-3': the range 9-3 runs backwards", "write 3-9")
    assert refusal(parse_seeds, "0-3,2")[0] == "--seeds '0-3,2': a seed stands twice"


def test_overrides_are_read_as_yaml():
    pairs = ["a=1", "b.c=true", "d=", "e=x=y", "f=[1, 2]", "g=null", "h='1'", "i=text"]
    expected = {"a": 1, "b.c": True, "d": None, "e": "x=y", "f": [1, 2], "g": None, "h": "1", "i": "text"}
    assert parse_overrides(pairs) == expected


@pytest.mark.parametrize("pair", ["a", "=1", "", "a: 1"])
def test_overrides_need_key_and_value(pair):
    assert refusal(parse_overrides, [pair])[0] == f"-s '{pair}': expected key=value"


def test_an_override_that_is_not_yaml():
    assert "not valid YAML" in refusal(parse_overrides, ["a=[1"])[0]


def test_overrides_are_put_where_they_belong():
    data = {"a": 1, "b": {"c": 2, "d": 3}}
    apply_override(data, "a", 5)
    apply_override(data, "b.c", 6)
    apply_override(data, "new.deep.key", 7)
    assert data == {"a": 5, "b": {"c": 6, "d": 3}, "new": {"deep": {"key": 7}}}
    assert refusal(apply_override, data, "a.x", 1)[0] == "-s a.x: 'a' is a value, not a group of keys"


def write(tmp_path, text):
    path = tmp_path / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_yaml(tmp_path):
    assert read_yaml(write(tmp_path, "a: 1\nb: [x, ü]\n")) == {"a": 1, "b": ["x", "ü"]}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: 1\nb: [1\nc: 2\n", ", line 3: "),
        ("a: 1\n  b: 2\n", ", line 2: "),
        ("- a\n", ": expected keys and values"),
        ("", ": expected keys and values"),
        ("a: !!python/object/apply:os.system [id]\n", ", line 1: "),
        (b"a: \xff\n", ": not UTF-8 text"),
        (b"a: \x00\n", ": not valid YAML"),
    ],
)
def test_what_is_no_yaml_of_ours(tmp_path, text, what):
    path = write(tmp_path, text)
    assert refusal(read_yaml, path)[0].startswith(f"{path}{what}")


def test_a_file_that_cannot_be_read(tmp_path):
    assert (
        refusal(read_yaml, tmp_path / "none.yaml")[0] == f"cannot read {tmp_path}/none.yaml: No such file or directory"
    )


@pytest.mark.parametrize(
    ("text", "where", "hint"),
    [
        ("name: x\nnmae: y\n", "line 2: nmae: unknown key 'nmae'", "did you mean 'name'?"),
        ("name: x\ninner:\n  dpth: 1\n", "line 3: inner.dpth: unknown key 'dpth'", "did you mean 'depth'?"),
        (
            "name: x\nseveral:\n  - depth: 1\n  - knd: a\n",
            "line 4: several.1.knd: unknown key 'knd'",
            "did you mean 'kind'?",
        ),
        ("name: x\ninner:\n  depth: much\n", "line 3: inner.depth: input should be a valid integer", None),
        ("name: x\ninner: {kind: c}\n", "line 2: inner.kind: input should be 'a' or 'b'", None),
        ("name: x\nqqq: 1\n", "line 2: qqq: unknown key 'qqq'", "known: inner, name, several"),
        ("inner:\n  depth: 1\n", ": name: field required", None),
    ],
)
def test_errors_name_file_line_key_and_the_nearest(tmp_path, text, where, hint):
    path = write(tmp_path, text)
    message, told = refusal(validate, Outer, read_yaml(path), path)
    assert message.startswith(str(path))
    assert where in message
    assert told == hint


def test_errors_without_a_file_name_the_source():
    assert refusal(validate, Outer, {"name": "x", "inner": {"dpth": 1}}, "-s limits") == (
        "-s limits: inner.dpth: unknown key 'dpth'",
        "did you mean 'depth'?",
    )


def test_what_is_valid(tmp_path):
    assert validate(Outer, {"name": "x", "inner": {"kind": "b"}}, "here").inner.kind == "b"


def test_a_key_that_stands_twice_is_refused(tmp_path):
    file = tmp_path / "twice.yaml"
    file.write_text("name: a\nplan: merged\nname: b\n")
    with pytest.raises(UsageError, match=r"line 3: key 'name' stands twice"):
        read_yaml(file)


def test_an_override_given_twice_is_refused():
    with pytest.raises(UsageError, match="set twice"):
        parse_overrides(["a.b=1", "a.b=2"])


def test_a_range_that_was_typed_wrong_does_not_fill_the_memory():
    with pytest.raises(UsageError, match="more than 100,000 seeds"):
        parse_seeds("0-999999999999")
