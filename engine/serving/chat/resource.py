"""A chat completion as an object: what comes back whole. A stream's chunks are made of the same parts."""

from typing import Literal

from pydantic import BaseModel

from engine.serving.figures import Timings, Usage

ChatFinishReason = Literal["stop", "length", "tool_calls"]


class LikelyToken(BaseModel):
    """A token and the logarithm of its probability. `bytes`: None where the token breaks a character."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(LikelyToken):
    """A token of the answer, and the likeliest ones in its place."""

    top_logprobs: list[LikelyToken]


class Logprobs(BaseModel):
    """The tokens of the answer, its reasoning and its marks included."""

    content: list[TokenLogprob]


class FunctionCall(BaseModel):
    """What is to be called, and with what: JSON as the model wrote it."""

    name: str
    arguments: str


class ToolCallSaid(BaseModel):
    """A call that the client is asked for."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class MessageSaid(BaseModel):
    """The answer. `content` is None where it only calls tools; `reasoning_content` is there if the model reasoned."""

    role: Literal["assistant"]
    content: str | None
    reasoning_content: str = ""
    tool_calls: list[ToolCallSaid] = []


class Choice(BaseModel):
    """One of the answers."""

    index: int
    message: MessageSaid
    logprobs: Logprobs | None
    finish_reason: ChatFinishReason


class ChatCompletion(BaseModel):
    """The answer to a request that does not stream. `timings` are those of the last choice."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[Choice]
    usage: Usage
    timings: Timings
