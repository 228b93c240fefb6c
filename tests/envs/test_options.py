"""Options of environments: every wrong one is refused with what is allowed, and a hint."""

import datetime
import importlib.util

import pytest

from automem import env as envs
from automem.errors import UsageError

HUGE = 10**30
#: Games whose package is here.
PACKAGES = {"crafter": "crafter", "nethack": "nle", "minihack/corridor-r3": "minihack"}


def make(game, **options):
    env, _, task = game.partition("/")
    if (package := PACKAGES.get(game)) and importlib.util.find_spec(package) is None:
        pytest.skip(f"needs the package {package}: pip install 'automem[envs]'")
    return envs.make(env, task or None, **options)


@pytest.mark.parametrize(
    ("game", "option", "error", "hint"),
    [
        (
            "nethack",
            {"length": "abc"},
            "nethack: length must be a whole number, not 'abc'",
            "for example length=100000",
        ),
        ("nethack", {"length": None}, "length must be a whole number, not nothing", "for example length=100000"),
        ("nethack", {"length": -HUGE}, f"length must be at least 1, not -{HUGE}", "for example length=100000"),
        ("nethack", {"patience": False}, "patience must be a whole number, not false", "for example patience=150"),
        ("nethack", {"patience": 0}, "patience must be at least 1, not 0", "for example patience=150"),
        ("nethack", {"clock": 1}, "clock must be true or false, not 1", "for example clock=false"),
        ("nethack", {"character": None}, "character must be a text, not nothing", "for example character=@"),
        ("nethack", {"wording": "publishd"}, "words, published, steps, not 'publishd'", "did you mean 'published'?"),
        ("nethack", {"wording": "xyz"}, "words, published, steps, not 'xyz'", "known: published, steps, words"),
        ("nethack", {"wording": ""}, "words, published, steps, not ''", "known: published, steps, words"),
        ("nethack", {"seed": 3}, "'nethack' has no option 'seed'", "from --seeds"),
        ("nethack", {"task": "default"}, "'nethack' has no option 'task'", "ENV/TASK"),
        ("nethack", {"autopickup": True}, "'nethack' has no option 'autopickup'", "known: character, clock"),
        ("minihack/corridor-r3", {"levels": 5}, "levels must be a text, not 5", """it is a text: levels='"5"'"""),
        (
            "minihack/corridor-r3",
            {"levels": None},
            "must be a text, not nothing",
            "leave levels out, or give it a text",
        ),
        ("minihack/corridor-r3", {"levels": [1]}, "must be a text, not [1]", "leave levels out, or give it a text"),
        ("minihack/corridor-r3", {"patience": 9}, "has no option 'patience'", "known: autopickup, length"),
        ("minihack/corridor-r3", {"length": "9" * 99}, f"a whole number, not '{'9' * 59}…", "for example length=100"),
        ("crafter", {"length": HUGE - HUGE}, "crafter: length must be at least 1, not 0", "for example length=2000"),
        ("crafter", {"area": 100_000}, "crafter: area must be 9 to 256, not 100000", "for example area=64"),
        ("crafter", {"area": 8}, "crafter: area must be 9 to 256, not 8", "for example area=64"),
        ("crafter", {"size": HUGE}, f"crafter: size must be 9 to 4096, not {HUGE}", "for example size=288"),
        ("crafter", {"render_mode": 5}, "must be 'rgb_array' or none, not 5", "for example render_mode=rgb_array"),
        ("courier", {"move_rate": "1e300"}, "move_rate must be a number, not '1e300'", "for example move_rate=0.25"),
        ("courier", {"move_rate": float("nan")}, "move_rate and news_rate must be 0 to 1", "given: "),
        ("courier", {"orders": 10**9}, "orders must be at most 100000", "given: "),
        ("courier", {"width": HUGE}, "width and height must be 2 to 9", "given: "),
        ("desk/easy", {"slack": float("inf")}, "slack must be 1 to 1000", "given: "),
        ("desk/easy", {"slack": float("nan")}, "slack must be 1 to 1000", "given: "),
        ("desk/easy", {"slack": datetime.date(2027, 1, 2)}, "a number, not 2027-01-02", "for example slack=1.2"),
    ],
)
def test_a_wrong_option_is_answered_with_what_is_allowed(game, option, error, hint):
    with pytest.raises(UsageError) as refused:
        make(game, **option)
    assert error in refused.value.message
    assert hint in refused.value.hint


def test_the_most_that_courier_takes_is_played():
    env = make("courier", orders=100_000, horizon=HUGE)
    assert env.reset(seed=1)[1]["progress"] == 0
