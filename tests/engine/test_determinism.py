"""The same seed writes the same text, by every method, whatever was learnt or loaded in between."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli.session import Session
from engine.protocol.messages import ChatMessage
from engine.protocol.options import METHODS, GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from tests.campaigns.extent import choose

TARGETS_OWN = ("auto", "specexec", "lookup", "none")
"""Methods that take every token from the target's own draw: theirs is the text of plain decoding."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    cache: Path = tmp_path_factory.mktemp("cache")
    loaded = Session(LoadOptions(cache_dir=str(cache), context_tokens=256), quiet=True)
    yield loaded
    loaded.engine.close()


def written(session: Session, method: str, seed: int, budget: int = 0) -> list[int]:
    sampling = SamplingOptions(temperature=0.8, top_p=0.95, seed=seed)
    options = GenerateOptions(
        sampling, SpeculationOptions(method, budget), max_new_tokens=choose(12, 32), ignore_eos=True
    )
    prompt = session.engine.prompt([ChatMessage("user", "Write a short story about a lighthouse.")])
    return session.collect(prompt, options).token_ids


@pytest.mark.parametrize("method", choose(("auto",), METHODS))
def test_the_same_seed_writes_the_same_text(session: Session, method: str) -> None:
    first, other, again = (written(session, method, seed) for seed in (4, 5, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize("method", choose(TARGETS_OWN[:2], TARGETS_OWN))
def test_the_target_s_own_text_depends_on_no_method_and_no_budget(session: Session, method: str) -> None:
    plain = written(session, "none", 7)
    assert all(written(session, method, 7, budget) == plain for budget in choose((0, 24), (0, 3, 24)))
