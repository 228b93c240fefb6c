"""Scripted policies: deterministic models that ship with the product, for tests and quick looks."""

from __future__ import annotations

from importlib import import_module

from automem.errors import UsageError, did_you_mean
from automem.models.base import Model
from automem.models.scripted.base import ScriptedModel

#: Name -> where its policy class is; imported only when asked for.
POLICIES = {
    "null": "simple:NullPolicy",
    "random": "simple:RandomPolicy",
    "malformed": "simple:MalformedPolicy",
    "courier": "courier:CourierPolicy",
    "crafter": "crafter:CrafterPolicy",
    "explorer": "explorer:ExplorerPolicy",
}


#: Name -> where its model class is: those that do not play, or read more of the conversation than a policy sees.
MODELS = {"meta": "meta:MetaModel", "desk": "desk:DeskModel", "courier-reader": "courier_reader:CourierReader"}


def make(name: str) -> Model:
    """The model `scripted:NAME`.

    Raises:
        UsageError: no such policy.
    """
    known = POLICIES | MODELS
    if name not in known:
        raise UsageError(f"unknown scripted policy '{name}'", did_you_mean(name, known))
    module, _, attribute = known[name].partition(":")
    made = getattr(import_module(f"automem.models.scripted.{module}"), attribute)()
    model: Model = made if name in MODELS else ScriptedModel(name, made)
    return model
