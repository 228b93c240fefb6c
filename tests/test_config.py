"""What people write: seed lists, overrides, YAML; errors name file, line and key."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from automem.config import overridden, parse_overrides, parse_seeds, read_yaml, validate
from automem.errors import UsageError


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    depth: int = 0
    kind: Literal["alpha", "beta"] = "alpha"


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
    changed = overridden(data, {"a": 5, "b.c": 6, "new.deep.key": 7})
    assert changed == {"a": 5, "b": {"c": 6, "d": 3}, "new": {"deep": {"key": 7}}}
    assert data == {"a": 1, "b": {"c": 2, "d": 3}}
    assert refusal(overridden, data, {"a.x": 1})[0] == "-s a.x: 'a' is a value, not a group of keys"


def test_an_override_changes_one_of_two_places_that_share_an_alias(tmp_path):
    data = read_yaml(write(tmp_path, "a: &shared {x: 1}\nb: *shared\n"))
    assert overridden(data, {"a.x": 2}) == {"a": {"x": 2}, "b": {"x": 1}}


def write(tmp_path, text):
    path = tmp_path / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_yaml(tmp_path):
    assert read_yaml(write(tmp_path, "a: 1\nb: [x, ü]\n")) == {"a": 1, "b": ["x", "ü"]}


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("a: 1\nb: [1\nc: 2\n", ", line 3: ", "not valid YAML"),
        ("a: 1\n  b: 2\n", ", line 2: ", ""),
        ("- a\n", ": expected keys and values, here is a list", "start with a line such as `name: …`"),
        ("text", ": expected keys and values, here is text", "start with a line such as `name: …`"),
        ("", ": it is empty", "start with a line such as `name: …`"),
        ("# to be written\n---\n", ": it is empty", "start with a line such as `name: …`"),
        ("a: !!python/object/apply:os.system [id]\n", ", line 1: could not determine a constructor", "not valid YAML"),
        (b"a: \xff\n", ": not UTF-8 text", "save it as UTF-8"),
        ("a: 1\n".encode("utf-16"), ": not UTF-8 text", "save it as UTF-8"),
        (b"a: \x00\n", ": the character #x0000 is not allowed", "take it out"),
        ('a: 1\nb: "\\ud800"\n', ", line 2: an escape such as \\ud800 is half a character", "the character itself"),
        ("a: 1\nb:\n\tc: 1\n", ", line 3: found character '\\t'", "indent with spaces, not with tabs"),
        ("a: 1\n---\nb: 2\n", ", line 2: but found another document", "take the line --- out"),
        ("a: 1\nb: 2020-13-45\n", ", line 2: '2020-13-45' is no number or date", "put it in quotes"),
        ("a: 1\nb: [x, 0b]\nc: 2020-02-30\n", ", line 3: '2020-02-30' is no number or date", "put it in quotes"),
        ("a: b: c\n", ", line 1: mapping values are not allowed here", "a colon in it"),
        ("a: @x\n", ", line 1: found character '@'", "begins with a sign, stands in quotes"),
        ("a: {{ x }}\n", ", line 1: a key is a word", "bracket or brace stands in quotes"),
        ("[a]: b\n", ", line 1: a key is a word", "bracket or brace stands in quotes"),
        ("a: 1\nyes: 2\n", ", line 2: the key yes is no text to YAML", "put it in quotes"),
        ("a: 1\n3: 2\n", ", line 2: the key 3 is no text to YAML", "put it in quotes"),
        ('a: 1\nb: "x\nc: 2\n', ", line 4: found unexpected end of stream (while scanning a quoted scalar that", ""),
        ("a: 1\nb: 2\na: 3\n", ", line 3: key 'a' stands twice", "it stands in line 1, too"),
        ("a: " + "1" * 5000, ", line 1: a value of 5000 characters that is not text", "put it in quotes"),
        ("a: " + "[" * 5000, ": nested too deep", ""),
        ("a: &a [x]\nb: *c\n", ", line 2: found undefined alias 'c'", "not valid YAML"),
        ("a: &a\n  b: *a\n", ", line 1: with its aliases written out it has more than 100000 values", "write less"),
    ],
)
def test_what_is_no_yaml_of_ours(tmp_path, text, what, hint):
    path = write(tmp_path, text)
    message, told = refusal(read_yaml, path)
    assert message.startswith(f"{path}{what}")
    assert "\n" not in message
    assert hint in (told or "")


def test_yaml_with_the_mark_of_other_editors(tmp_path):
    assert read_yaml(write(tmp_path, b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")) == {"a": 1, "b": 2}
    assert read_yaml(write(tmp_path, "a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n"))["c"] == {"b": 1, "d": 2}


def test_a_folder_in_place_of_a_file(tmp_path):
    assert refusal(read_yaml, tmp_path)[0] == f"cannot read {tmp_path}: Is a directory"


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
            "name: x\nseveral:\n  - depth: 1\n  - knd: alpha\n",
            "line 4: several.1.knd: unknown key 'knd'",
            "did you mean 'kind'?",
        ),
        ("name: x\ninner:\n  depth: much\n", "line 3: inner.depth: input should be a valid integer", None),
        ("name: x\ninner: {kind: xyz}\n", "line 2: inner.kind: input should be 'alpha' or 'beta'", None),
        ("name: x\nqqq: 1\n", "line 2: qqq: unknown key 'qqq'", "known: inner, name, several"),
        (
            "name: x\ninner: {kind: bete}\n",
            "line 2: inner.kind: input should be 'alpha' or 'beta'",
            "did you mean 'beta'?",
        ),
        ("name: 3\n", "line 1: name: expected text, here is a number", "write it in quotes"),
        ("name: [x]\n", "line 1: name: expected text, here is a list", None),
        ("name: x\ninner: [1]\n", "line 2: inner: expected keys and values, here is a list", None),
        ("name: x\nseveral: 1\n", "line 2: several: expected a list, here is a number", None),
        ("name: x\nseveral: [null]\n", "line 2: several.0: expected keys and values, here is nothing", None),
        ("name: x\ninner:\n  odd: 1\n  depth: much\n", "line 3: inner.odd: unknown key 'odd'", "known: depth, kind"),
        ("inner:\n  depth: 1\n", ": name: this key is missing", None),
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


class Cat(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["cat"]
    lives: int = Field(9, ge=1)


class Dog(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["dog"]
    tricks: list[str] = []


class Zoo(BaseModel):
    """Unions: pydantic puts names of their arms between the keys."""

    pets: dict[str, Annotated[Cat | Dog, Field(discriminator="kind")]] = {}
    visitor: str | Inner | None = None
    visits: str | dict[str, str] = ""
    even: int = 0

    @field_validator("even")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("an odd number")
        return value


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        ({"pets": {"tom": {"kind": "cat", "live": 3}}}, "pets.tom.live: unknown key 'live'", "did you mean 'lives'?"),
        (
            {"pets": {"lives": {"kind": "dog", "trick": 3}}},
            "pets.lives.trick: unknown key 'trick'",
            "did you mean 'tricks'?",
        ),
        (
            {"pets": {"cat": {"kind": "cat", "lives": 0}}},
            "pets.cat.lives: input should be greater than or equal to 1",
            None,
        ),
        ({"pets": {"tom": {"kind": "cow"}}}, "pets.tom.kind: unknown value 'cow'", "known: cat, dog"),
        ({"pets": {"tom": {"lives": 3}}}, "pets.tom.kind: this key is missing", "it is one of cat, dog"),
        ({"pets": {"tom": 3}}, "pets.tom: expected keys and values, here is a number", None),
        ({"visitor": {"dpth": 3}}, "visitor.dpth: unknown key 'dpth'", "did you mean 'depth'?"),
        ({"visitor": {"depth": "x"}}, "visitor.depth: input should be a valid integer", None),
        ({"visitor": [1]}, "visitor: expected text, here is a list", None),
        ({"visits": {"monday": 3}}, "visits.monday: expected text, here is a number", "write it in quotes"),
        ({"even": 3}, "even: an odd number", None),
    ],
)
def test_errors_name_keys_as_the_file_has_them(data, message, hint):
    told, mend = refusal(validate, Zoo, data, "zoo")
    assert told.startswith(f"zoo: {message}")
    assert mend == hint


def test_a_key_that_is_missing_below_a_misspelled_override():
    before = {"pets": {"tom": {"kind": "cat"}}, "even": 2}
    changed = overridden(before, {"pets.tim.lives": 3})
    assert refusal(validate, Zoo, changed, "zoo", before) == (
        "zoo: pets.tim.kind: this key is missing",
        "there was no 'tim' in pets: did you mean 'tom'?",
    )
    changed = overridden(before, {"pets.quux.lives": 3})
    assert refusal(validate, Zoo, changed, "zoo", before)[1] == "it is one of cat, dog"


def test_what_is_valid(tmp_path):
    assert validate(Outer, {"name": "x", "inner": {"kind": "beta"}}, "here").inner.kind == "beta"


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
