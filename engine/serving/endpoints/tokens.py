"""`/tokenize` and `/detokenize`, in llama-server's form."""

import asyncio
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from engine.serving.bounds import Text
from engine.serving.context import ServiceOf
from engine.serving.endpoints.sampling_fields import Asked

if TYPE_CHECKING:
    from engine.text.tokenizer import Tokenizer

MOST_TO_DETOKENIZE = 1 << 20

router = APIRouter()


class TokenizeFields(Asked):
    """A text. `add_special`: with what the tokenizer puts before every one; `with_pieces`: each token's text, too."""

    content: Text
    add_special: bool = False
    with_pieces: bool = False


class TokenPiece(BaseModel):
    """A token and its text; a lone byte of a longer character is U+FFFD."""

    id: int
    piece: str


class Tokens(BaseModel):
    """The tokens of the text."""

    tokens: list[int] | list[TokenPiece]


class DetokenizeFields(Asked):
    """Tokens; what is none writes nothing."""

    tokens: list[Annotated[int, Field(ge=0, lt=1 << 31)]] = Field(max_length=MOST_TO_DETOKENIZE, fail_fast=True)


class Detokenized(BaseModel):
    """The text of the tokens, special ones by name."""

    content: str


@router.post("/tokenize")
async def tokenize(asked: TokenizeFields, service: ServiceOf) -> Tokens:
    """The tokens of a text, by the target's tokenizer."""
    return await asyncio.to_thread(_tokens, service.engine.tokenizer, asked)


@router.post("/detokenize")
async def detokenize(asked: DetokenizeFields, service: ServiceOf) -> Detokenized:
    """The text of tokens."""
    return Detokenized(content=await asyncio.to_thread(_text, service.engine.tokenizer, asked.tokens))


def _tokens(tokenizer: "Tokenizer", asked: TokenizeFields) -> Tokens:
    tokens = tokenizer.encode_raw(asked.content) if asked.add_special else tokenizer.encode(asked.content)
    if asked.with_pieces:
        return Tokens(tokens=[TokenPiece(id=token, piece=tokenizer.piece(token)) for token in tokens])
    return Tokens(tokens=tokens)


def _text(tokenizer: "Tokenizer", tokens: list[int]) -> str:
    known = set(tokenizer.vocabulary.values())
    runs = groupby((token for token in tokens if token in known), tokenizer.writes_text)
    return "".join(
        tokenizer.decode(list(run)) if is_text else "".join(map(tokenizer.piece, run)) for is_text, run in runs
    )
