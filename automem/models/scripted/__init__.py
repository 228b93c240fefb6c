"""Scripted policies: deterministic models that ship with the product, for tests and quick looks."""

from __future__ import annotations

from importlib import import_module

from automem.errors import UsageError, did_you_mean
from automem.models.scripted.base import Policy, ScriptedModel

#: Name -> where its policy class is; imported only when asked for.
POLICIES = {
    "null": "simple:NullPolicy",
    "random": "simple:RandomPolicy",
    "malformed": "simple:MalformedPolicy",
    "courier": "courier:CourierPolicy",
    "crafter": "crafter:CrafterPolicy",
}


def make(name: str) -> ScriptedModel:
    """The model `scripted:NAME`.

    Raises:
        UsageError: no such policy.
    """
    if name not in POLICIES:
        raise UsageError(f"unknown scripted policy '{name}'", did_you_mean(name, POLICIES))
    module, _, attribute = POLICIES[name].partition(":")
    policy: type[Policy] = getattr(import_module(f"automem.models.scripted.{module}"), attribute)
    return ScriptedModel(name, policy())
