"""What the tests of the text room share."""

from pathlib import Path

import pytest

from engine.text.tokenizer import Tokenizer

EMBEDDED = Path(__file__).parents[3] / "resources" / "models" / "demo-target"


@pytest.fixture(scope="session")
def embedded() -> Tokenizer:
    """The tokenizer of the embedded pair."""
    return Tokenizer.open(EMBEDDED)
