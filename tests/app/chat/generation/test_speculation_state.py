"""What is said of the next answer's speculation: the draft, and how well it knows the target's tokens."""

from app.chat.generation.speculation_state import speculation_state
from app.engine.state import EngineState, Phase
from app.settings.generation import GenerationSettings
from engine.protocol.messages import CommonTokens, Loaded, Statistics
from tests.app.fake_engine import model


def test_of_a_draft_with_another_vocabulary_the_common_tokens_are_told() -> None:
    target, draft = model("/models/large", "large"), model("/models/small", "small")
    same = speculation_state(
        GenerationSettings(), EngineState(Phase.READY, pair=Loaded(1, target, draft, 2048, 0.1)), None
    )
    assert same.reason == "small guesses ahead."
    pair = Loaded(1, target, draft, 2048, 0.1, common_tokens=CommonTokens(0.3, 0.914))
    other = speculation_state(GenerationSettings(), EngineState(Phase.READY, pair=pair), None)
    assert other.works
    assert other.reason == (
        "small guesses ahead. Common tokens: 91 % of an ordinary text, 30 % of the target's vocabulary."
    )


def test_an_engine_elsewhere_may_do_as_it_was_started() -> None:
    pair = Loaded(1, model("http://host", "large"), None, 2048, 0.1)
    state = EngineState(Phase.READY, pair=pair, host="host:8000", speculates_as_asked=False)
    own = speculation_state(GenerationSettings(), state, None)
    assert own.words == "The engine's own speculation"
    assert "host:8000" in own.reason


def test_without_a_model_the_choice_is_told_not_a_lack() -> None:
    assert speculation_state(GenerationSettings(), EngineState(), None).words == "Speculation on"
    assert speculation_state(GenerationSettings(speculates=False), EngineState(), None).words == "Speculation off"


def test_an_answer_that_was_interrupted_is_no_proof_of_no_speculation() -> None:
    target, draft = model("/models/large", "large"), model("/models/small", "small")
    engine = EngineState(Phase.READY, pair=Loaded(1, target, draft, 2048, 0.1))
    broken_off = Statistics("none", new_tokens=76, passes=10)
    assert speculation_state(GenerationSettings(), engine, broken_off).words == "Speculation on"
    plain = Statistics("none", new_tokens=10, passes=10)
    assert speculation_state(GenerationSettings(), engine, plain).words == "No speculation"
