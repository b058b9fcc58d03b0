"""The trained hybrid pair: trees change nothing in its text, and one pass gives several tokens."""

from pathlib import Path
from typing import Any

from engine.cli.session import CollectedAnswer, Session
from engine.protocol.messages import ChatMessage
from engine.protocol.options import OWN_HEADS, GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from tests.hybrid_pair.folders import assemble

QUESTION = [ChatMessage("user", "Tell me a story about a dragon.")]
NEW_TOKENS = 24
PLAIN = SpeculationOptions("none")
TREES = SpeculationOptions("specexec", 16, lookup=False)


def answers(options: LoadOptions, *choices: SpeculationOptions) -> list[CollectedAnswer]:
    """Greedy ones to the question, one for every choice."""
    session = Session(options, quiet=True)
    prompt = session.engine.prompt(QUESTION)
    found = [session.collect(prompt, GenerateOptions(SamplingOptions(), choice, NEW_TOKENS)) for choice in choices]
    session.engine.close()
    return found


def tokens_per_pass(answer: CollectedAnswer) -> float:
    return answer.statistics.new_tokens / answer.statistics.passes


def test_trees_of_the_draft_and_of_the_heads_write_the_same_text_in_far_fewer_passes(tmp_path: Path) -> None:
    folders = assemble(tmp_path)
    options: dict[str, Any] = {"target": str(folders["target"]), "weights": "float32", "cache_dir": str(tmp_path)}
    plain, drafted = answers(LoadOptions(draft=str(folders["draft"]), **options), PLAIN, TREES)
    (guessed,) = answers(LoadOptions(draft=OWN_HEADS, **options), TREES)
    assert drafted.token_ids == guessed.token_ids == plain.token_ids
    assert tokens_per_pass(drafted) > 4.0
    assert tokens_per_pass(guessed) > 2.5
