"""Requests for what stands in the gap of a text, whichever API they came by."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import ReferenceType

from engine.protocol.options import GenerateOptions
from engine.serving.context import Service
from engine.text.infill import Gap, require_marks, write_infill

if TYPE_CHECKING:
    from engine.engine import Engine

RESERVED = 4  # the part of a context that is kept for what is written, at most: one of so many


async def read_gap(
    service: Service, made_for: "ReferenceType[Engine]", gap: Gap, most_tokens: int | None = None
) -> tuple[int, ...]:
    """The tokens to read before what stands in the gap, beside the server's other work.

    `most_tokens`: see `write_infill`. Raises `InputError` for a model that was not made for it, and `NoModel`.
    """
    tokenizer = service.desk.engine_for(made_for).tokenizer
    return tuple(await service.read(partial(write_infill, tokenizer, gap, most_tokens)))


def ending_there(engine: "Engine", options: GenerateOptions) -> GenerateOptions:
    """The options of an answer that ends where the gap does. Raises `InputError` as `read_gap` does."""
    return replace(options, end_tokens=options.end_tokens | require_marks(engine.tokenizer).ends)


def room_for(engine: "Engine", options: GenerateOptions) -> int:
    """As many tokens may be read before an answer: its own are kept free, or a part of the context."""
    context = engine.context_tokens
    return context - min(options.max_new_tokens, context // RESERVED)
