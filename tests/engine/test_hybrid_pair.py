"""The trained hybrid pair: trees change nothing in its text, and one pass gives several tokens."""

from pathlib import Path

import pytest

from engine.cli.session import CollectedAnswer, Session
from engine.protocol.messages import ChatMessage
from engine.protocol.options import OWN_HEADS, GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from tests.hybrid_pair.folders import assemble

QUESTION = [ChatMessage("user", "Tell me a story about a dragon.")]
NEW_TOKENS = 32


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {name: str(path) for name, path in assemble(tmp_path_factory.mktemp("hybrid")).items()}


def answers(options: LoadOptions, sampling: SamplingOptions, *trees: SpeculationOptions) -> list[CollectedAnswer]:
    """To the question: without a tree, then with each of `trees`."""
    session = Session(options, quiet=True)
    prompt = session.engine.prompt(QUESTION)
    choices = (SpeculationOptions("none"), *trees)
    found = [session.collect(prompt, GenerateOptions(sampling, choice, NEW_TOKENS)) for choice in choices]
    session.engine.close()
    return found


@pytest.mark.parametrize(("draft", "least"), [("draft", 6.0), (OWN_HEADS, 2.5)])
def test_trees_write_the_same_text_in_far_fewer_passes(
    folders: dict[str, str], tmp_path: Path, draft: str, least: float
) -> None:
    source = folders.get(draft, draft)
    options = LoadOptions(folders["target"], source, weights="float32", cache_dir=str(tmp_path))
    plain, trees = answers(options, SamplingOptions(), SpeculationOptions("specexec", 16, lookup=False))
    assert trees.token_ids == plain.token_ids
    assert trees.statistics.new_tokens / trees.statistics.passes > least
