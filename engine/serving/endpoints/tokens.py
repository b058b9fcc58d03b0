"""`/tokenize` and `/detokenize`, in llama-server's form.

A text may have millions of tokens: what tells them is written in a thread, and no object is made for each.
"""

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import BaseModel, Field

from engine.serving.bounds import Text
from engine.serving.context import ServiceOf
from engine.serving.endpoints.sampling_fields import Asked
from engine.serving.guard.routes import Router

if TYPE_CHECKING:
    from engine.text.tokenizer import Tokenizer

MOST_TO_DETOKENIZE = 1 << 20

router = Router()


class TokenizeFields(Asked):
    """A text. `add_special`: with what the tokenizer puts before every one; `with_pieces`: each token's text, too.

    `parse_special`: the name of a special token becomes that token.
    """

    content: Text
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class TokenPiece(BaseModel):
    """A token and its text, or the bytes of one that breaks a character."""

    id: int
    piece: str | list[int]


class Tokens(BaseModel):
    """The tokens of the text."""

    tokens: list[int] | list[TokenPiece]


class DetokenizeFields(Asked):
    """Tokens; what is none writes nothing."""

    tokens: list[Annotated[int, Field(ge=0, lt=1 << 31)]] = Field(max_length=MOST_TO_DETOKENIZE, fail_fast=True)


class Detokenized(BaseModel):
    """The text of the tokens, special ones by name."""

    content: str


@router.post("/tokenize", response_model=Tokens)
async def tokenize(asked: TokenizeFields, service: ServiceOf) -> Response:
    """The tokens of a text, by the target's tokenizer."""
    written = await service.read(partial(_written, service.engine.tokenizer, asked))
    return Response(written, media_type="application/json")


@router.post("/detokenize", response_model=Detokenized)
async def detokenize(asked: DetokenizeFields, service: ServiceOf) -> Response:
    """The text of tokens."""
    written = await service.read(partial(_written_text, service.engine.tokenizer, asked.tokens))
    return Response(written, media_type="application/json")


def _written(tokenizer: "Tokenizer", asked: TokenizeFields) -> bytes:
    """A `Tokens` as JSON."""
    tokens = tokenizer.encode(asked.content) if asked.parse_special else tokenizer.encode_typed(asked.content)
    tokens = [*tokenizer.opening(), *tokens] if asked.add_special else tokens
    each = {token: str(token) for token in set(tokens)}
    if asked.with_pieces:
        each = {token: _piece(tokenizer, token).model_dump_json() for token in each}
    return f'{{"tokens":[{",".join(map(each.__getitem__, tokens))}]}}'.encode()


def _piece(tokenizer: "Tokenizer", token: int) -> TokenPiece:
    return TokenPiece(id=token, piece=[*tokenizer.torn_bytes(token)] or tokenizer.piece(token))


def _written_text(tokenizer: "Tokenizer", tokens: list[int]) -> bytes:
    """A `Detokenized` as JSON."""
    return json.dumps({"content": tokenizer.text_of(tokens)}, ensure_ascii=False).encode()
