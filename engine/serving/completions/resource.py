"""A completion as an object: what comes back whole. A stream's chunks are made of the same parts."""

from typing import Literal

from pydantic import BaseModel

from engine.serving.figures import Timings, Usage


class TextLogprobs(BaseModel):
    """The tokens of a text one by one; `text_offset`: at which character each begins.

    `top_logprobs`: the likeliest tokens in its place, None if they were not asked for.
    """

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


class TextChoice(BaseModel):
    """One of the texts. Those of one prompt stand together."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length"]


class TextCompletion(BaseModel):
    """The answer to a request that does not stream. `timings` are those of the last choice."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage
    timings: Timings
