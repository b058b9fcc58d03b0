"""The engine's state in words."""

from dataclasses import replace

import pytest

from app.engine.state import EngineState, Phase, describe_pair
from engine.protocol.messages import Loaded, ModelInfo
from engine.protocol.residence import Residence

MODEL = ModelInfo("/m", "big", "llama", 10, 4, 20, "nf4", "cuda")
PAIR = Loaded(1, MODEL, None, 2048, 1.0, tiers=("device",) * 4)


@pytest.mark.parametrize(
    ("tiers", "words"),
    [
        (("device",) * 4, "big on cuda, nf4"),
        (("device", "ram", "ram", "ssd"), "big on cuda, nf4, 2 of 4 layers from RAM, 1 of 4 layers from SSD"),
    ],
)
def test_a_pair_says_where_its_layers_come_from(tiers: tuple[str, ...], words: str) -> None:
    assert describe_pair(replace(PAIR, tiers=tiers)) == words


def test_where_only_experts_come_from_elsewhere_a_pair_says_so() -> None:
    """Nine tenths of a mixture may lie on the SSD, and a pass reads little of it."""
    mixture = replace(PAIR, tiers=("device", "ssd", "ssd", "ssd"), residence=Residence(only_experts=True))
    assert describe_pair(mixture) == "big on cuda, nf4, experts of 3 of 4 layers from SSD"


def test_a_pair_says_what_of_the_target_is_not_used() -> None:
    target = replace(PAIR.target, note="Pictures and sound are not read.")
    assert describe_pair(replace(PAIR, target=target)).endswith(". Pictures and sound are not read.")


def test_progress_is_counted_where_there_is_more_than_one_step() -> None:
    assert EngineState(Phase.LOADING, "Reading big", 0, 1).words == "Reading big"
    assert EngineState(Phase.LOADING, "Loading big", 2, 8).words == "Loading big (3 of 8)"
    assert EngineState(Phase.LOADING, "Loading big", 8, 8).words == "Loading big (8 of 8)"
