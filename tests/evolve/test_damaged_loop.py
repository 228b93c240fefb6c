"""Records of loop 1, spoilt."""

import json

import pytest
from loops import Shelf, evolve, nothing, revised, verdicts

from automem.errors import UsageError
from automem.evolve.loop import read_config
from automem.evolve.proposers.recorded import RecordedProposer


@pytest.fixture
def out(tmp_path):
    evolve(tmp_path / "evolve", Shelf(nothing))
    return tmp_path / "evolve"


def refusal(function, *args):
    with pytest.raises(UsageError) as caught:
        function(*args)
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("{", "it breaks off in the middle"),
        ("{}", "env: this key is missing"),
        ("[1]", "expected"),
    ],
)
def test_evolve_json(out, text, said):
    file = out / "evolve.json"
    file.write_text(text)
    message, hint = refusal(read_config, out)
    assert message.startswith(f"{file} is damaged: {said}") and "\n" not in message
    assert hint == "put it right, bring it back from a copy, or choose another -o"


def test_a_proposal_is_asked_for_again_when_it_is_deleted(out):
    (file,) = out.glob("proposals/*/proposal.json")
    (out / "lineage.jsonl").unlink()
    file.write_text(json.dumps({**json.loads(file.read_text()), "verdcit": "empty"}))
    message, hint = refusal(evolve, out, Shelf(revised()))
    assert message == f"{file} is damaged: verdcit: unknown key 'verdcit'"
    assert hint == "did you mean 'verdict'? Otherwise: delete it: the proposer is then asked again"
    file.unlink()
    evolve(out, Shelf(revised()))
    assert verdicts(out) == ["1.1: accepted"]


def test_the_lineage_of_recorded_proposals(out):
    file = out / "lineage.jsonl"
    file.write_text("{}\n" + file.read_text())
    message, hint = refusal(RecordedProposer, out)
    assert message == f"{file}, line 1: damaged: revision: this key is missing"
    assert hint == "put the line right, or bring the file back from a copy"
