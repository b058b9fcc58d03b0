"""Blocks that the tests write hold what they were made of, as nearly as their bits allow."""

import numpy as np
import pytest

from tests.engine.gguf_blocks import ENCODERS
from tests.engine.gguf_files import decode, encode

NEAR = {"Q2_K": 0.4, "Q3_K": 0.2, "Q4_K": 0.1, "Q5_K": 0.05, "Q6_K": 0.025, "IQ4_NL": 0.1, "IQ4_XS": 0.1}
"""The largest mean error, as a part of the numbers' own size."""


@pytest.mark.parametrize("kind", ENCODERS)
def test_blocks_are_near_to_what_they_are_made_of(kind: str) -> None:
    numbers = np.random.default_rng(0).standard_normal((8, 512)).astype(np.float32)
    numbers[3, :256] = 0
    found = decode(encode(numbers, kind), kind)
    assert np.sqrt(np.square(found - numbers).mean()) < NEAR[kind]
    assert not found[3, :256].any()
