"""What is said of prompts that cannot be read."""

import pytest

from engine.errors import TooLong
from engine.text.prompt import Prompt, require_readable


def test_numbers_of_a_conversation_that_is_too_long_are_grouped() -> None:
    with pytest.raises(TooLong, match="has 80,069 tokens, and the context holds 32,768"):
        require_readable(Prompt(tuple(range(80_069))), 100_000, 32_768)
