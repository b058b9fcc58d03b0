"""The figures of completions: tokens as OpenAI counts them, and times under llama-server's names."""

from collections.abc import Sequence

from pydantic import BaseModel

from engine.protocol.messages import Statistics


class PromptDetails(BaseModel):
    """Of the prompt's tokens: those that were in the context already."""

    cached_tokens: int


class Usage(BaseModel):
    """The tokens of all choices together; the prompt counts once."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class Timings(BaseModel):
    """llama-server's, of one choice. `prompt_n`: tokens that were read, of which `cache_n` others need not be.

    `draft_n`: nodes of all trees; `draft_n_accepted` of them became text. `passes` of the target wrote it all.
    """

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float
    draft_n: int
    draft_n_accepted: int
    passes: int


def usage_of(prompts: Sequence[Sequence[Statistics]]) -> Usage:
    """Of the choices of each prompt."""
    read = sum(choices[0].prompt_tokens for choices in prompts if choices)
    cached = sum(choices[0].cached_tokens for choices in prompts if choices)
    written = sum(choice.new_tokens for choices in prompts for choice in choices)
    return Usage(
        prompt_tokens=read,
        completion_tokens=written,
        total_tokens=read + written,
        prompt_tokens_details=PromptDetails(cached_tokens=cached),
    )


def timings_of(statistics: Statistics, accepted_nodes: int) -> Timings:
    """Of one choice; `accepted_nodes`: roots not counted."""
    read, written = statistics.prompt_tokens - statistics.cached_tokens, statistics.new_tokens
    prefill, decode = 1000 * statistics.seconds.prefill, 1000 * statistics.seconds.decode
    return Timings(
        cache_n=statistics.cached_tokens,
        prompt_n=read,
        prompt_ms=prefill,
        prompt_per_token_ms=_ratio(prefill, read),
        prompt_per_second=_ratio(1000 * read, prefill),
        predicted_n=written,
        predicted_ms=decode,
        predicted_per_token_ms=_ratio(decode, written),
        predicted_per_second=_ratio(1000 * written, decode),
        draft_n=statistics.drafted_nodes,
        draft_n_accepted=accepted_nodes,
        passes=statistics.passes,
    )


def _ratio(above: float, below: float) -> float:
    return above / below if below else 0.0
