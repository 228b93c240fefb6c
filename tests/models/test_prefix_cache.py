"""The cache of read prompts: the longest beginning is found, the least used prompt goes first."""

from random import Random

import pytest

from automem.models.prefix_cache import PrefixCache

torch = pytest.importorskip("torch")


def read(ids):
    """One layer, one head of one number, the token itself: 16 bytes a token."""
    return torch.tensor(ids, dtype=torch.float64).reshape(1, 1, 1, -1, 1).repeat(1, 2, 1, 1, 1)


def test_the_longest_shared_beginning_is_found():
    chance, cache = Random(0), PrefixCache()
    prompts = [tuple(chance.choices(range(3), k=chance.randrange(1, 9))) for _ in range(300)]
    for number, ids in enumerate(prompts):
        best = max(
            (n for other in prompts[:number] for n in range(len(ids)) if ids[:n] == other[:n] and len(other) >= n),
            default=0,
        )
        assert cache.known(ids) == best
        found = cache.find(ids)
        assert (found is None) == (best == 0)
        assert found is None or found[0, 0, 0, :, 0].tolist() == list(ids[:best])
        cache.add(ids, read(ids))


def test_what_was_used_least_recently_goes_first():
    cache = PrefixCache(most=16 * 9)
    for ids in ([1, 1, 1], [2, 2, 2], [3, 3, 3]):
        cache.add(ids, read(ids))
    assert cache.find([1, 1, 1, 1]) is not None
    cache.add([3, 3, 3], read([3, 3, 3]))
    cache.add([4, 4, 4], read([4, 4, 4]))
    assert [cache.known([n] * 4) for n in (1, 2, 3, 4)] == [3, 0, 3, 3]
    cache.add([5] * 10, read([5] * 10))
    assert [cache.known([n] * 11) for n in (1, 3, 4, 5)] == [0, 0, 0, 0]
