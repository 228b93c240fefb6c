"""The scripted meta-model: what it calls, answer by answer, and what it makes of what it has read."""

import json

import pytest
import yaml

from automem.errors import ModelFailure, UsageError
from automem.models import make_model, scripted
from automem.models.base import Request

TOOLS = ({"type": "function", "function": {"name": "finish", "parameters": {}}},)
BRIEFING = "6. Only these kinds of change are allowed here: memory-structure, memory-prompt.\n"
EPISODE = "s7-0123456789ab"
LISTED = f"{EPISODE}  courier/small  truncated, progress 15.0%, 60 steps; unproductive steps 0%"
SCAFFOLD = {
    "name": "base",
    "files": [{"name": "notes.txt", "kind": "log", "keep": 60, "about": "all"}],
    "operations": {"log": ["SEARCH", "APPEND", "DONE"], "plan": ["SEARCH", "ACTION"]},
    "memory": {"file_chars": 4000},
}
REPEATED = "tin cup at 1,2\nattic at 0,1\nTin cup at 1,2\ntin cup at 3,3\nno tin cup at 1,2"


def request(tools=TOOLS):
    return Request("gameplay", "plan", "", "", 0, 0, 0, 0, tools=tools)


async def talk(answers, opening=BRIEFING):
    """The calls that the model makes when tools answer as told; a list is taken one by one."""
    model = scripted.make("meta")
    left = {name: list(texts) if isinstance(texts, list) else None for name, texts in answers.items()}
    messages = [{"role": "system", "content": opening}, {"role": "user", "content": "# The case"}]
    calls = []
    while True:
        completion = await model.generate(messages, request())
        if not completion.tool_calls:
            return calls
        (call,) = completion.tool_calls
        calls.append((call["name"], json.loads(call["arguments"])))
        name = call["name"]
        text = left[name].pop(0) if left.get(name) else answers.get(name, "ok")
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "content": text, "tool_call_id": call["id"]})


def world(scaffold=SCAFFOLD, memory=REPEATED, **answers):
    usual = {"diagnosis": "fine", "list_episodes": LISTED, "list_scaffold": "scaffold.yaml  9 characters, 1 lines"}
    return {**usual, "read_scaffold": yaml.safe_dump(scaffold), "memory_at": memory, **answers}


def files_written(calls):
    return {arguments["path"]: arguments["text"] for name, arguments in calls if name == "write_file"}


def revised(calls):
    return yaml.safe_load(files_written(calls)["scaffold.yaml"])


async def test_it_looks_before_it_writes():
    report = f"Empty searches: 9 times ({EPISODE} step 31)."
    calls = await talk(world(diagnosis=report))
    names = [name for name, _ in calls]
    assert names[:4] == ["diagnosis", "list_episodes", "show_step", "read_scaffold"]
    assert names[4:] == ["list_scaffold", "memory_at", "start_from_current", "write_file", "write_file", "finish"]
    assert calls[2][1] == {"episode": EPISODE, "step": 31}
    assert calls[5][1] == {"episode": EPISODE, "step": 59, "file": "notes.txt"}
    analysis = calls[-1][1]["analysis"]
    assert f"episode {EPISODE}, step 31" in analysis
    assert "notes.txt held 5 lines about 2 subjects, 4 of them about 'tin cup'" in analysis


async def test_a_log_with_a_recurring_key_becomes_a_table():
    calls = await talk(world())
    after = revised(calls)
    assert (after["name"], after["parent"]) == ("base-keyed", "base")
    assert after["files"] == [{"name": "notes.txt", "about": "all", "kind": "table", "key": ["name"]}]
    assert after["operations"] == {"log": ["SEARCH", "UPSERT", "DONE"], "plan": ["SEARCH", "ACTION"]}
    assert after["memory"] == SCAFFOLD["memory"]
    changes = files_written(calls)["CHANGES.md"]
    assert "## memory-structure: notes.txt becomes a table keyed by name\n" in changes


async def test_things_of_one_kind_in_many_places_are_keyed_by_place():
    memory = "\n".join(f"tree at {n},-{n}" for n in range(9))
    two = {**SCAFFOLD, "files": [*SCAFFOLD["files"], {"name": "plan.txt", "kind": "note"}]}
    after = revised(await talk(world(two, memory)))
    assert after["files"][0]["key"] == ["x:int", "y:int"]
    assert after["operations"]["log"] == ["SEARCH", "UPSERT", "APPEND", "DONE"]


@pytest.mark.parametrize(
    ("files", "memory", "name", "expected"),
    [
        (
            [{"name": "a.txt", "kind": "log", "keep": 9}, {"name": "b.txt", "kind": "log", "keep": 9}],
            ["one thing", "(empty)"],
            "base-lean",
            [{"name": "a.txt", "kind": "log", "keep": 9}],
        ),
        (
            [{"name": "a.txt", "kind": "log"}],
            "one thing",
            "base-capped",
            [{"name": "a.txt", "kind": "log", "keep": 200}],
        ),
        (
            [{"name": "a.txt", "kind": "table", "key": ["name"]}],
            "a | 1 | step 1\nb | 2 | step 2\nc | 3 | step 3",
            "base-split",
            [
                {"name": "a.txt", "kind": "table", "key": ["name"]},
                {"name": "places.txt", "kind": "table", "key": ["name"]},
            ],
        ),
    ],
    ids=["unused logs go", "a log is capped", "a table is split"],
)
async def test_other_edits_where_no_key_recurs(files, memory, name, expected):
    after = revised(await talk(world({**SCAFFOLD, "files": files}, memory)))
    assert (after["name"], after["files"]) == (name, expected)


async def test_what_was_tried_is_not_tried_again():
    files = [{"name": "notes.txt", "kind": "log"}, {"name": "other.txt", "kind": "log", "keep": 9}]
    case = world({**SCAFFOLD, "files": files}, [REPEATED, "(empty)"])
    tried = ""
    for name in ("base-keyed", "base-lean", "base-capped"):
        assert revised(await talk(case, f"{BRIEFING}{tried}"))["name"] == name
        tried += f"\n- {name} from base (memory-structure: x): rejected. No gain."
    assert files_written(await talk(case, f"{BRIEFING}{tried}")) == {}


@pytest.mark.parametrize(
    ("case", "opening"),
    [
        (world(memory="nothing of note"), BRIEFING),
        (world(), BRIEFING.replace("memory-structure, ", "")),
        (world({**SCAFFOLD, "operations": {"plan": ["ACTION"]}}), BRIEFING),
        (world(list_scaffold="memory/notes.txt  9 characters, 1 lines"), BRIEFING),
        (world(list_episodes="error: no", read_scaffold="error: no", memory_at="error: no"), BRIEFING),
    ],
    ids=["no key recurs", "not allowed", "nothing is logged", "prefilled", "tools fail"],
)
async def test_it_may_find_nothing(case, opening):
    calls = await talk(case, opening)
    assert files_written(calls) == {}
    assert calls[-1][0] == "finish"
    assert "no change of memory structure" in calls[-1][1]["analysis"]


async def test_it_reads_all_pages():
    pages = [
        f"{EPISODE}\n(lines 1-1 of 3; line=2 for more)",
        "x\n(lines 2-2 of 3; line=3 for more)",
        "y\n(lines 3-3 of 3)",
    ]
    calls = await talk(world(list_episodes=pages))
    assert [arguments for name, arguments in calls if name == "list_episodes"] == [{}, {"line": 2}, {"line": 3}]


@pytest.mark.parametrize(
    ("errors", "scaffold", "mended"),
    [
        (
            "- memory.file_chars is 9000, above the 4000 it was: limits stay where they were",
            {**SCAFFOLD, "memory": {"file_chars": 9000}},
            {"scaffold.yaml": SCAFFOLD},
        ),
        (
            "- scaffold.yaml, line 3: files.0.size: unknown key 'size'",
            {**SCAFFOLD, "files": [{**SCAFFOLD["files"][0], "size": 3}]},
            {"scaffold.yaml": SCAFFOLD},
        ),
        (
            "- the files show a change of kind memory-prompt or task-advice, which CHANGES.md does not claim",
            SCAFFOLD,
            {"CHANGES.md": "## memory-prompt: "},
        ),
        ("- CHANGES.md has no entry '## <kind>: <title>'", SCAFFOLD, {"CHANGES.md": "## memory-structure: "}),
        ("- something else", SCAFFOLD, {}),
    ],
)
async def test_it_mends_what_a_check_names(errors, scaffold, mended):
    opening = f"{BRIEFING}\n\n# What the check found wrong\n{errors}\n\nMend this."
    calls = await talk({"read_scaffold": [yaml.safe_dump(scaffold), "# base\n"]}, opening)
    files = files_written(calls)
    assert files.keys() == mended.keys()
    if "scaffold.yaml" in mended:
        assert yaml.safe_load(files["scaffold.yaml"]) == mended["scaffold.yaml"]
    if "CHANGES.md" in mended:
        assert files["CHANGES.md"].startswith(f"# base\n\n{mended['CHANGES.md']}")
    assert calls[-1][0] == "finish"


async def test_without_tools_it_fails():
    with pytest.raises(ModelFailure, match="works by tools"):
        await scripted.make("meta").generate([{"role": "user", "content": "# LOG"}], request(tools=()))


def test_it_goes_by_its_name():
    assert make_model("scripted:meta", {}).name == "scripted:meta"
    with pytest.raises(UsageError, match="unknown scripted policy 'metta'") as caught:
        scripted.make("metta")
    assert caught.value.hint == "did you mean 'meta'?"
