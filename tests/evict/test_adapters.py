"""Adapters: messages shaped as LangChain, LlamaIndex and AppWorld shape them, and their real ones where installed."""

import asyncio
from types import SimpleNamespace

import pytest

from automem.errors import UsageError
from automem.evict import ContextManager, Limits, make
from automem.evict.adapters.appworld import read_appworld_log, units_from_appworld
from automem.evict.adapters.langchain import MessageTrimmer
from automem.evict.adapters.llamaindex import EvictingMemory
from automem.evict.labels import hindsight


def manager(policy="window", budget=60):
    return ContextManager(make(policy), Limits(budget=budget, keep_last=2))


def lc(kind, content, **more):
    return SimpleNamespace(type=kind, content=content, **more)


def lc_chat(turns=8, make=lc):
    chat = [make("system", "be brief"), make("human", ["the task", {"type": "text", "text": "and more"}])]
    for turn in range(turns):
        call = {"name": "look", "args": {"at": f"door-{turn}7"}, "id": f"c{turn}", "type": "tool_call"}
        chat += [make("ai", "", tool_calls=[call]), make("tool", f"it is open {turn}", tool_call_id=f"c{turn}")]
    return chat


def real_lc(kind, content, **more):
    messages = pytest.importorskip("langchain_core.messages")
    kinds = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    return getattr(messages, kinds[kind])(content, **more)


@pytest.mark.parametrize("make_message", [lc, real_lc])
def test_langchain_gets_its_own_objects_back(make_message):
    chat = lc_chat(make=make_message)
    trim = MessageTrimmer(manager())
    kept = trim(chat)
    assert 4 <= len(kept) < len(chat)
    assert all(any(message is given for given in chat) for message in kept)
    assert kept[:2] == chat[:2]
    assert kept[-4:] == chat[-4:]
    calls = [call["id"] for message in kept for call in getattr(message, "tool_calls", None) or ()]
    assert calls == [message.tool_call_id for message in kept if message.type == "tool"]
    assert "look" in trim.manager.archive[0].unit.text
    assert "door-07" in trim.manager.archive[0].unit.text


@pytest.mark.parametrize("make_message", [lc, real_lc])
def test_langchain_may_go_on_with_what_it_got(make_message):
    chat = lc_chat(make=make_message)
    whole, short = MessageTrimmer(manager()), MessageTrimmer(manager())
    kept = short(chat[:12])
    assert kept == whole(chat[:12])
    assert short([*kept, *chat[12:]]) == whole(chat)
    assert len(short.manager.archive) == len(whole.manager.archive) > 0


def test_a_message_that_is_read_anew_is_the_same_message():
    trim = MessageTrimmer(manager())
    trim(lc_chat(6))
    gone = len(trim.manager.archive)
    trim(lc_chat(6))
    assert len(trim.manager.archive) == gone > 0


def test_what_no_model_is_sent_is_refused():
    with pytest.raises(UsageError, match="'remove'"):
        MessageTrimmer(manager())([lc("remove", "")])


def test_a_chat_message_says_its_role():
    chat = [lc("chat", "hello", role="user"), lc("chat", "hi", role="assistant")]
    assert MessageTrimmer(manager())(chat) == chat


def test_langchain_messages_are_pydantic_and_trimmed_in_a_chain():
    runnables = pytest.importorskip("langchain_core.runnables")
    chat = lc_chat(make=real_lc)
    assert runnables.RunnableLambda(MessageTrimmer(manager())).invoke(chat) == MessageTrimmer(manager())(chat)


def li(role, content, **more):
    return SimpleNamespace(role=SimpleNamespace(value=role), content=content, additional_kwargs=more, blocks=[])


def li_chat(turns=8, make=li):
    chat = [make("user", "the task")]
    for turn in range(turns):
        function = {"name": "look", "arguments": f'{{"at": "door-{turn}7"}}'}
        chat += [make("assistant", None, tool_calls=[{"id": f"c{turn}", "function": function}])]
        chat += [make("tool", f"it is open {turn}", tool_call_id=f"c{turn}")]
    return chat


def real_li(role, content, **more):
    llms = pytest.importorskip("llama_index.core.llms")
    return llms.ChatMessage(role=role, content=content, additional_kwargs=more)


@pytest.mark.parametrize("make_message", [li, real_li])
def test_llamaindex_memory_gives_what_fits_and_has_everything(make_message):
    chat = li_chat(make=make_message)
    memory = EvictingMemory(manager())
    for message in chat:
        memory.put(message)
    kept = memory.get("what next?")
    assert 5 <= len(kept) < len(chat)
    assert kept[0] is chat[0]
    assert kept[-4:] == chat[-4:]
    assert memory.get_all() == chat
    assert "door-07" in memory.manager.archive[0].unit.text
    memory.set(chat[:3])
    assert memory.get() == chat[:3]
    memory.reset()
    assert memory.get() == memory.get_all() == []


def test_llamaindex_calls_as_blocks_and_as_objects():
    block = SimpleNamespace(block_type="tool_call", tool_name="look", tool_kwargs={"at": "north gate"})
    call = SimpleNamespace(model_dump=lambda: {"function": {"name": "take", "arguments": "{}"}})
    first, second = li("assistant", None), li("assistant", None, tool_calls=[call])
    first.blocks = [block]
    memory = EvictingMemory(manager(budget=0))
    memory.put_messages([first, second, li("assistant", "done"), li("assistant", "bye")])
    memory.get()
    assert [gone.unit.text for gone in memory.manager.archive] == ['look({"at": "north gate"})', "take({})"]


def test_llamaindex_memory_without_waiting():
    async def talk():
        memory = EvictingMemory(manager())
        chat = li_chat()
        await memory.aput(chat[0])
        await memory.aput_messages(chat[1:])
        assert await memory.aget_all() == chat
        assert len(await memory.aget(input="x")) < len(chat)
        await memory.aset(chat[:1])
        assert await memory.aget() == chat[:1]
        await memory.areset()
        assert await memory.aget_all() == []

    asyncio.run(talk())


@pytest.mark.filterwarnings("ignore")  # LlamaIndex's own
def test_llamaindex_agent_runs_on_it():
    llms = pytest.importorskip("llama_index.core.llms")
    workflow = pytest.importorskip("llama_index.core.agent.workflow")
    memory = EvictingMemory(manager())
    agent = workflow.ReActAgent(tools=[], llm=llms.MockLLM(max_tokens=5))
    asyncio.run(_ask(agent, memory))
    assert [message.role.value for message in memory.get_all()][:1] == ["user"]


async def _ask(agent, memory):
    await agent.run("hello", memory=memory, max_iterations=3)


STEPS = [
    {"input": "print(apis.login())", "output": "tk-4711x"},
    {"input": "a = 1\n\nprint(tk-4711x)", "output": "```\n\n### not a step\ntk-4711x\n```"},
    {"input": "print('tk-4711x')", "output": ""},
    {"input": "apis.send(token='tk-4711x')", "output": "Execution failed."},
]


def log(steps):
    """As appworld 0.1.3 writes it."""
    rule = "-" * 76
    return "".join(
        f"\n### Environment Interaction {number}\n{rule}\n```python\n{step['input']}\n```\n\n"
        f"```\n{step['output']}\n```\n\n\n"
        for number, step in enumerate(steps, 1)
    )


def test_an_appworld_log_is_read(tmp_path):
    path = tmp_path / "environment_io.md"
    path.write_text(log(STEPS), encoding="utf-8")
    steps = read_appworld_log(path)
    assert steps == STEPS
    units = units_from_appworld(steps)
    assert units[0].text == "print(apis.login())\ntk-4711x"
    assert hindsight([unit.text for unit in units]) == [1, 0, 0, 0]


@pytest.mark.parametrize("names", [("action", "observation"), ("code", "output"), ("input", "output")])
def test_steps_of_appworld_have_one_of_several_names(names):
    assert [unit.text for unit in units_from_appworld([dict(zip(names, "xy", strict=True))])] == ["x\ny"]


def test_a_step_that_lacks_something_is_named():
    with pytest.raises(UsageError, match="step 1 of AppWorld has none of output, observation: it has code"):
        units_from_appworld([{"code": "x", "output": "y"}, {"code": "x"}])


def test_other_files_are_no_appworld_logs(tmp_path):
    with pytest.raises(UsageError, match="cannot read") as caught:
        read_appworld_log(tmp_path / "none.md")
    assert "appworld download data" in caught.value.hint
    for text in ("", "# Notes", log(STEPS).replace("```python", "```")):
        (tmp_path / "other.md").write_text(text)
        with pytest.raises(UsageError, match="no log of AppWorld"):
            read_appworld_log(tmp_path / "other.md")
