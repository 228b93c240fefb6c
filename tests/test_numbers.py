"""What people write is finite: .inf would come back from JSON as nothing."""

import pytest

from automem.config import validate
from automem.errors import UsageError
from automem.evolve.config import LoopBudget
from automem.evolve.proposers.agentic import SessionBudget
from automem.evolve.proposers.command import CommandSettings
from automem.models.chat import ChatSettings
from automem.models.local import LocalSettings
from automem.results.published import ExpectedRow
from automem.serve.faults import Faults
from automem.train.recipe import Lora

KEYS = {
    "temperature": (ChatSettings, LocalSettings),
    "timeout": (ChatSettings,),
    "max_minutes": (LoopBudget,),
    "usd_per_mtok_in": (LoopBudget,),
    "seconds": (SessionBudget, CommandSettings),
    "mean": (ExpectedRow,),
    "delay": (Faults,),
    "learning_rate": (Lora,),
}


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(("key", "model"), [(key, model) for key, models in KEYS.items() for model in models])
def test_a_number_is_finite(key, model, value):
    data = {"game": "g", "agent": "a", "mean": 1.0} if model is ExpectedRow else {}
    with pytest.raises(UsageError, match=rf"^here: {key}: input should be "):
        validate(model, {**data, key: value}, "here")
