"""JSON that AutoMem wrote, and somebody spoilt: the file, line or key, and what to do; never the words of pydantic."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from automem.errors import UsageError
from automem.models.wire import problem
from automem.play.rows import Rows
from automem.problems import first_problem, said
from automem.records import read_record, reason

HINT = "bring it back"


class Pair(BaseModel):
    model_config = ConfigDict(extra="forbid")

    low: int
    high: int = 9

    @model_validator(mode="after")
    def _ordered(self) -> Pair:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


def refusal(function, *args):
    with pytest.raises(UsageError) as caught:
        function(*args)
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("content", "said", "hint"),
    [
        (b"", "it is empty", HINT),
        (b" \n", "it is empty", HINT),
        (b'{"low": 1', "it breaks off in the middle", HINT),
        (b'{"low": 1,\n "hi', "it breaks off in the middle", HINT),
        (b'{"low": 1,\n "high": }', "line 2 is not JSON", HINT),
        (b"low: 1", "it is not JSON", HINT),
        (b"1" * 5000, "it is not JSON", HINT),
        (b"[" * 99_999, "it is not JSON", HINT),
        (b"\xff\xfe", "it is not text", HINT),
        (b"[1]", "expected keys and values, here is a list", HINT),
        (b"{}", "low: this key is missing", HINT),
        (b'{"low": "a"}', "low: input should be a valid integer, unable to parse string as an integer", HINT),
        (b'{"low": 1, "hihg": 2}', "hihg: unknown key 'hihg'", f"did you mean 'high'? Otherwise: {HINT}"),
        (b'{"low": 1, "x": 2}', "x: unknown key 'x'", HINT),
        (b'{"low": 10}', "low is above high", HINT),
    ],
)
def test_a_damaged_record(tmp_path, content, said, hint):
    path = tmp_path / "pair.json"
    path.write_bytes(content)
    assert refusal(read_record, path, Pair, HINT) == (f"{path} is damaged: {said}", hint)


def test_a_record_that_cannot_be_read(tmp_path):
    assert refusal(read_record, tmp_path, Pair, HINT) == (f"cannot read {tmp_path}: Is a directory", HINT)
    path = tmp_path / "none.json"
    assert refusal(read_record, path, Pair, HINT) == (f"cannot read {path}: No such file or directory", HINT)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "it breaks off in the middle"),
        (b"", "it is empty"),
        (b"\xff", "it is not text"),
        (b"3", "expected keys and values, here is a number"),
        (b'{"low": 10}', "low is above high"),
        (b'{"high": 1}', "low: this key is missing"),
    ],
)
def test_a_damaged_row(tmp_path, line, said):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"low": 1}\n' + line + b'\n{"low": 2}\n')
    message, hint = refusal(Rows, path, Pair)
    assert message == f"{path}, line 2: damaged: {said}"
    assert hint == "put the line right, or bring the file back from a copy"


def test_what_a_validator_of_ours_says_stands_alone():
    with pytest.raises(ValueError) as caught:
        Pair(low=10)
    (entry,) = caught.value.errors()
    assert entry["msg"] == "Value error, low is above high"
    assert said(entry) == str(first_problem(caught.value)) == reason(caught.value) == "low is above high"
    assert problem(entry) == "body: low is above high"
