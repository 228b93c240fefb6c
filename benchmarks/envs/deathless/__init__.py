"""Crafter in which the player does not die, so that a benchmark can measure step 2,000."""

from automem import env as envs

TASKS = ("default",)
VITALS = ("health", "food", "drink", "energy")
CrafterEnv = type(envs.make("crafter"))


def revive(player):
    """Fill up what the player lives on; `player` is the crafter library's."""
    player.inventory.update(dict.fromkeys(VITALS, 9))


class Deathless(CrafterEnv):
    """`crafter`, revived before each step; lava that kills at once ends nothing either."""

    def step(self, action):
        revive(self.simulator.player)
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, False, truncated, info


def make(task, **options):
    """The env of `task`, set up like `crafter`."""
    return Deathless(envs.make("crafter", **options).options)
