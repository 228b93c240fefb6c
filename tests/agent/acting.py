"""An agent in a real game, with models that answer from a list."""

from automem import env as envs
from automem.agent.agent import Agent
from automem.episode import EpisodeSpec, Limits, ModelSpec, text_digest
from automem.messages import Usage
from automem.models.base import Completion
from automem.trace import Step


class Replies:
    """Gives the replies of a list in turn and keeps what it was asked. A list of calls is a reply of tool calls."""

    def __init__(self, *replies, name="replies"):
        self.name = name
        self.left = list(replies)
        self.asked = []
        self.requests = []

    async def generate(self, messages, request):
        assert self.left, f"{self.name} was asked once more: {messages[-1]['content']}"
        self.asked.append(list(messages))
        self.requests.append(request)
        reply = self.left.pop(0)
        if isinstance(reply, str):
            return Completion(reply, Usage(10, 2))
        return Completion("", Usage(10, 2), tool_calls=tuple(reply))

    async def close(self):
        pass


def tool_call(name, arguments, id="c1"):
    return {"id": id, "name": name, "arguments": arguments}


async def inline(function, /, *args, **kwargs):
    return function(*args, **kwargs)


class Game:
    """A game of courier and the agent that plays it."""

    def __init__(self, scaffold, gameplay, memory=None, **limits):
        self.env = envs.make("courier", "small")
        models = {"gameplay": gameplay} | ({"memory": memory} if memory else {})
        spec = EpisodeSpec(
            env="courier",
            task="small",
            seed=1,
            scaffold=scaffold.name,
            scaffold_digest=scaffold.digest,
            models={role: ModelSpec(name=model.name) for role, model in models.items()},
            limits=Limits(**limits),
        )
        self.agent = Agent(spec, scaffold, self.env, models, inline)
        self.observation, info = self.env.reset(seed=1)
        self.state = info["state"]
        self.agent.history.start(self.state)

    async def act(self):
        return await self.agent.act(self.observation, self.state)

    def step(self, action="wait", **facts):
        """Play `action` without asking any model."""
        after, reward, _, _, info = self.env.step(action)
        step = Step(
            t=self.agent.history.step,
            observation=self.observation,
            action=action,
            reward=reward,
            progress=info["progress"],
            next_digest=text_digest(after),
            **facts,
        )
        self.agent.record(step, self.state, after, info["state"])
        self.observation, self.state = after, info["state"]
        return self

    def text(self, name="notes.txt"):
        return self.agent.memory.text(name)


def results(call):
    """Name, success and answer of each operation of a call."""
    return [(operation.name, operation.ok, operation.result) for operation in call.operations]
