"""The embedded pair shows trees, unless a person or another pair has something else in mind."""

import pytest

from app.chat.generation.controller import DEMO_BUDGET, with_visible_tree
from app.engine.state import EngineState, Phase
from engine.protocol.options import GenerateOptions, SpeculationOptions
from tests.app.fake_engine import loaded


def state(target: str) -> EngineState:
    return EngineState(Phase.READY, pair=loaded(1, target))


def test_the_embedded_pair_grows_trees_to_see() -> None:
    assert with_visible_tree(GenerateOptions(), state("embedded")).speculation.budget == DEMO_BUDGET


@pytest.mark.parametrize(
    ("speculation", "engine"),
    [
        (SpeculationOptions(), state("/models/big")),
        (SpeculationOptions(), EngineState(Phase.LOADING)),
        (SpeculationOptions(budget=8), state("embedded")),
        (SpeculationOptions(method="none"), state("embedded")),
        (SpeculationOptions(method="sequoia"), state("embedded")),
    ],
)
def test_everything_else_is_left_as_it_is(speculation: SpeculationOptions, engine: EngineState) -> None:
    options = GenerateOptions(speculation=speculation)
    assert with_visible_tree(options, engine) is options
