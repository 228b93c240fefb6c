"""docs/formats.md names everything that is written."""

import re
from pathlib import Path

import pytest

from automem.episode import EpisodeSpec
from automem.evolve.base import Revision
from automem.memory.kinds import Splice
from automem.messages import Message, ToolCall, Usage
from automem.play.folder import RunConfig
from automem.results.plays import Cost
from automem.trace import Call, OperationRecord, Result, Step

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "formats.md").read_text(encoding="utf-8")
#: The heading under which each is told.
SECTIONS = {
    RunConfig: "The run folder",
    EpisodeSpec: "Header",
    Step: "Step",
    Splice: "Step",
    Call: "Call",
    Message: "Call",
    ToolCall: "Call",
    Usage: "Call",
    OperationRecord: "Operation",
    Result: "Result",
    Revision: "The lineage of an evolve folder",
    Cost: "The lineage of an evolve folder",
}


def section(title):
    found = re.search(rf"^##+ {title}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/formats.md has no section '{title}'"
    return found[1]


@pytest.mark.parametrize("record", SECTIONS, ids=lambda record: record.__name__)
def test_every_field_is_named(record):
    named = set(re.findall(r"`(\w+)`", section(SECTIONS[record])))
    fields = set(getattr(record, "model_fields", None) or record.__annotations__)
    assert fields <= named, f"docs/formats.md does not name {sorted(fields - named)} of {record.__name__}"
