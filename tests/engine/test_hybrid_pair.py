"""The trained hybrid pair: trees change nothing in its text, and one pass gives several tokens."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli.session import Session
from engine.protocol.messages import ChatMessage
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from tests.hybrid_pair.folders import assemble

QUESTION = [ChatMessage("user", "Tell me a story about a dragon.")]
NEW_TOKENS = 40


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return assemble(tmp_path_factory.mktemp("hybrid"))


@pytest.fixture(scope="module")
def session(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    cache = str(tmp_path_factory.mktemp("cache"))
    options = LoadOptions(str(folders["target"]), str(folders["draft"]), weights="float32", cache_dir=cache)
    session = Session(options, quiet=True)
    yield session
    session.engine.close()


@pytest.mark.parametrize(("temperature", "least"), [(0.0, 5.0), (0.6, 4.0)])
def test_trees_write_the_same_text_in_far_fewer_passes(session: Session, temperature: float, least: float) -> None:
    sampling = SamplingOptions(temperature=temperature, seed=3)
    prompt = session.engine.prompt(QUESTION)
    plain, trees = (
        session.collect(prompt, GenerateOptions(sampling, speculation, NEW_TOKENS))
        for speculation in (SpeculationOptions("none"), SpeculationOptions("specexec", 64, lookup=False))
    )
    assert trees.token_ids == plain.token_ids
    assert trees.statistics.new_tokens / trees.statistics.passes > least
