"""What is said of the next answer's speculation: the draft, and how well it knows the target's tokens."""

from app.chat.generation.speculation_state import speculation_state
from app.settings.generation import GenerationSettings
from engine.protocol.messages import CommonTokens, Loaded
from tests.app.fake_engine import model


def test_of_a_draft_with_another_vocabulary_the_common_tokens_are_told() -> None:
    target, draft = model("/models/large", "large"), model("/models/small", "small")
    same = speculation_state(GenerationSettings(), Loaded(1, target, draft, 2048, 0.1), None)
    assert same.reason == "small guesses ahead."
    pair = Loaded(1, target, draft, 2048, 0.1, common_tokens=CommonTokens(0.3, 0.914))
    other = speculation_state(GenerationSettings(), pair, None)
    assert other.works
    assert other.reason == (
        "small guesses ahead. Common tokens: 91 % of an ordinary text, 30 % of the target's vocabulary."
    )


def test_without_a_model_the_choice_is_told_not_a_lack() -> None:
    assert speculation_state(GenerationSettings(), None, None).words == "Speculation on"
    assert speculation_state(GenerationSettings(speculates=False), None, None).words == "Speculation off"
