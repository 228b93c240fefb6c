"""Policies without a plan: they do nothing, anything, or everything wrong."""

from __future__ import annotations

import random

from automem.grammar import Operation
from automem.models.scripted.base import Prompt


class NullPolicy:
    """Always the env's default action, and no memory: the floor."""

    def reply(self, prompt: Prompt) -> list[Operation]:
        """DONE, or the default action."""
        if prompt.phase == "log":
            return [Operation("DONE", ())]
        return [Operation("ACTION", (prompt.default_action,))]


class RandomPolicy:
    """A random action each step, drawn from what the prompt says, so that the same prompt draws the same."""

    def reply(self, prompt: Prompt) -> list[Operation]:
        """DONE, or a random action."""
        if prompt.phase == "log":
            return [Operation("DONE", ())]
        request = prompt.request
        draw = random.Random(f"{request.sampling_seed} {prompt.observation}")
        return [Operation("ACTION", (draw.choice(prompt.actions),))]


class MalformedPolicy:
    """Replies as weak models write them; every second round of a phase has a sound ending."""

    def reply(self, prompt: Prompt) -> str:
        """Broken tags, a different set for each step."""
        breakages = [
            "<|SEARCH|>no_such_file.txt|x<|END|> <|READ|>",
            "<|APPEND|>../../etc/passwd|owned<|END|>",
            "<|FORGET|>everything<|END|> and <|END|>",
            "<|append>{file}|step noted<|END}",
            "<|WRITE|>{file}|<|APPEND|>{file}|nested<|END|>",
            "<|TAIL|>{file}|many<|END|>",
            "```\n<|COUNT|>{file}|a<|END|>\n```",
        ]
        draw = random.Random(f"{prompt.request.sampling_seed} {prompt.observation} {len(prompt.asked)}")
        file = prompt.files[0].name if prompt.files else "none.txt"
        broken = draw.choice(breakages).replace("{file}", file)
        if not prompt.asked:
            return broken
        ending = "<|DONE|>" if prompt.phase == "log" else f"<|action|>{draw.choice(prompt.actions)}<|END|>"
        return f"{broken}\n{ending}"
