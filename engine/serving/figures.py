"""The figures of completions: tokens as OpenAI counts them, and times under llama-server's names."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from engine.protocol.messages import Prefilled, Reading, Seconds, Statistics
from engine.serving.answers import Ended, Progress, Step
from engine.text.pieces import Content, Piece, Thought


class PromptDetails(BaseModel):
    """Of the prompt's tokens: those that were in the context already."""

    cached_tokens: int


class CompletionDetails(BaseModel):
    """Of the tokens that were written: those of the reasoning."""

    reasoning_tokens: int


class Usage(BaseModel):
    """The tokens of all choices together; the prompt counts once. Of texts nothing tells what is reasoning."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails | None = None


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
    """Of the choices of each prompt; how much of them is reasoning is told by who knows."""
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


class RunningFigures:
    """The figures of an answer while it is written, and in the end the engine's own."""

    def __init__(self) -> None:
        self.statistics = Statistics()
        self.accepted_nodes = 0

    @property
    def timings(self) -> dict[str, Any]:
        """As llama-server has them."""
        return timings_of(self.statistics, self.accepted_nodes).model_dump()

    def take(self, step: Step) -> None:
        """Count the next step."""
        its = self.statistics
        match step:
            case Prefilled(prompt_tokens=tokens, cached_tokens=cached, seconds=seconds):
                self.statistics = Statistics(
                    prompt_tokens=tokens, cached_tokens=cached, seconds=Seconds(prefill=seconds)
                )
            case Progress(round=of):
                self.accepted_nodes += len(of.accepted) - 1
                self.statistics = replace(
                    its,
                    new_tokens=its.new_tokens + of.new_tokens,
                    passes=its.passes + 1,
                    drafted_nodes=its.drafted_nodes + len(of.tree.pieces) - 1,
                    seconds=replace(its.seconds, decode=its.seconds.decode + of.seconds.decode),
                )
            case Ended(finished=finished):
                self.statistics = finished.statistics or its


def progress_of(step: Reading | Prefilled) -> dict[str, Any]:
    """How much of a prompt was read, as llama-server tells it: `processed` with what was in the context already."""
    total, cached, seconds = step.prompt_tokens, step.cached_tokens, step.seconds
    part = min(1.0, step.part) if isinstance(step, Reading) else 1.0
    read = cached + int(part * (total - cached))
    told = {"total": total, "cache": cached, "processed": read, "time_ms": int(1000 * seconds)}
    return {"prompt_progress": told}


def sizes_in_words(parameters: int) -> str:
    """As model cards have it: 7.6B, 135.0M."""
    billions = parameters / 1e9
    return f"{billions:.1f}B" if billions >= 1 else f"{parameters / 1e6:.1f}M"


def _ratio(above: float, below: float) -> float:
    return above / below if below else 0.0


class ReasoningTokens:
    """How many of an answer's tokens are reasoning, counted as the rounds come.

    Where a round ends the reasoning, its tokens are divided by their characters.
    """

    def __init__(self) -> None:
        self._count = 0.0
        self._is_reasoning = False

    def __int__(self) -> int:
        return round(self._count)

    def take(self, step: Progress) -> None:
        """Count the next round. What holds no text yet belongs to what came before it."""
        thought = sum(len(piece.text) for piece in step.pieces if isinstance(piece, Thought))
        everything = thought + sum(map(_characters_of_answer, step.pieces))
        share = thought / everything if everything else float(self._is_reasoning)
        self._count += step.round.new_tokens * share
        if everything:
            self._is_reasoning = thought == everything


def _characters_of_answer(piece: Piece) -> int:
    match piece:
        case Thought():
            return 0
        case Content(text):
            return len(text)
        case _:
            return 1  # of a call: that it is one says enough
