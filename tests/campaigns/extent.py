"""How much a test proves: a quick part of it in the suite, all of it in `python -m tests.campaigns.proofs`."""

import os
from typing import TypeVar

import pytest

VARIABLE = "COPPICE_PROOFS"

Choice = TypeVar("Choice")


def is_whole() -> bool:
    """Whether this is a run of the proofs."""
    return os.environ.get(VARIABLE) == "1"


def choose(quick: Choice, whole: Choice) -> Choice:
    """What the suite takes, or what the proofs take: sizes, counts, lists of cases."""
    return whole if is_whole() else quick


for_the_proofs = pytest.mark.skipif(
    not is_whole(), reason="takes seconds of a processor: for the proofs (python -m tests.campaigns.proofs)"
)
"""Marks a test that the suite can do without: others show a part of the same, or a campaign all of it."""
