"""The rising sequence closest to given values: isotonic regression by pooling adjacent violators."""

from collections.abc import Sequence


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence with the least weighted squared distance from `values`; every weight above 0."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for value, weight in zip(values, weights, strict=True):
        mean, mass, members = value, weight, 1
        while pools and pools[-1][0] > mean:
            before, mass_before, members_before = pools.pop()
            mean = (before * mass_before + mean * mass) / (mass_before + mass)
            mass, members = mass_before + mass, members_before + members
        pools.append((mean, mass, members))
    return [mean for mean, _, members in pools for _ in range(members)]
