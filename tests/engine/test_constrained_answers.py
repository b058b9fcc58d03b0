"""Constrained answers of the embedded pair: always valid, whatever drafts, and where memory or the length run out."""

import json
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from engine.engine import Engine, load
from engine.errors import Cancellation, InputError
from engine.loading.pair import open_pair
from engine.protocol.messages import ChatMessage, Finished, Round
from engine.protocol.options import (
    UNMEASURED,
    Constraint,
    GenerateOptions,
    LoadOptions,
    SamplingOptions,
    SpeculationOptions,
)
from tests.campaigns.extent import choose
from tests.engine.random_schemas import random_schema

SEEDS = choose((0, 2), range(500))
LENGTH = 800
METHODS = ("specexec", "sequoia", "specinfer", "auto", "chain", "lookup")
ASKED = (ChatMessage("user", "Tell me about a dragon, as JSON."),)


@pytest.fixture(scope="module")
def engine() -> Engine:
    cancellation = Cancellation()
    cancellation.begin(1)
    steps = load(1, open_pair(LoadOptions(weights="float32")), cancellation)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            loaded: Engine = end.value
            return loaded


def options_of(method: str, constraint: Constraint, seed: int = 0, **more: Any) -> GenerateOptions:
    """Small trees: the draft's passes are what takes the time here."""
    speculation = SpeculationOptions(
        method=method, budget=6, depth=2, acceptance=UNMEASURED if method == "sequoia" else ""
    )
    sampling = SamplingOptions(temperature=1.0, seed=seed)
    return replace(GenerateOptions(sampling, speculation, LENGTH, constraint=constraint), **more)


def answer(engine: Engine, options: GenerateOptions) -> tuple[str, Finished]:
    events = list(engine.generate(1, engine.prompt(ASKED), options))
    assert isinstance(events[-1], Finished)
    return "".join(event.text for event in events if isinstance(event, Round | Finished)), events[-1]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_is_valid_by_its_schema(engine: Engine, seed: int) -> None:
    schema, method = random_schema(seed), METHODS[seed % len(METHODS)]
    constraint = Constraint("json_schema", json.dumps(schema))
    text, finished = answer(engine, options_of(method, constraint, seed))
    assert finished.reason == "stop", f"{json.dumps(schema)}\n{text}"
    document = json.loads(text)
    jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(document)


def test_the_constraint_holds_as_far_as_the_answer_goes(engine: Engine) -> None:
    """A stop string ends it before, and so does its length; past its end token nothing is asked of it any more."""
    letters = Constraint("regex", "[a-z]{9}[0-9]{9}")
    whole, _ = answer(engine, options_of("specexec", letters))
    cut, finished = answer(engine, options_of("specexec", letters, max_new_tokens=3))
    assert whole.startswith(cut)
    assert finished.reason == "length"
    stopped, _ = answer(engine, options_of("specexec", letters, stop=(whole[10],)))
    assert stopped == whole[:10]
    on, _ = answer(engine, options_of("none", letters, max_new_tokens=40, ignore_eos=True))
    assert on[:18].isalnum()
    assert len(on) > 18


def test_what_cannot_be_compiled_is_refused_before_anything_is_read(engine: Engine) -> None:
    with pytest.raises(InputError, match="cannot be used"):
        engine.generate(1, engine.prompt(ASKED), options_of("none", Constraint("regex", "(")))
