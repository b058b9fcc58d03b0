"""A tiny model that reads pictures beside transformers' own, and texts with pictures for both."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from torch import Tensor

from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.network import Network
from engine.model.pictures.reader import PictureReader, open_reader
from engine.model.streamable_network import load_layerwise
from engine.picture_tokens import WrittenPicture
from engine.protocol.pictures import Picture
from engine.text.tokenizer import Tokenizer
from tests.engine.family_models import random_model
from tests.engine.picture_models import picture, picture_config, random_image, save_picture_model

SIZES = ((56, 84), (84, 56))  # of the pictures in a text


@dataclass(frozen=True)
class Both:
    """The same model twice: transformers' own, and the network with a reader of pictures."""

    kind: str
    model: Any
    network: Network
    reader: PictureReader

    def context(self, rows: Sequence[int], pictures: Sequence[Picture], *, one_pass: bool = False) -> Context:
        """One that is to read a text with these pictures."""
        made = Context(self.network, 512, one_pass=one_pass)
        made.show(self.reader.shown(rows, pictures))
        return made

    def expected(self, tokens: Sequence[int], written: Sequence[WrittenPicture]) -> Tensor:
        """transformers' own logits [tokens, vocabulary] of a text with the random pictures of `text`."""
        given = [self.reader._processor.read(random_image(seed, *size))[1] for seed, size in enumerate(SIZES)]
        known = inspect.signature(type(self.model).forward).parameters
        taken = {name: joined([each[name] for each in given]) for name in given[0] if name in known}
        types = torch.tensor([[int(token == written[0].token) for token in tokens]])
        kinds = next((name for name in ("mm_token_type_ids", "token_type_ids") if name in known), None)
        others = {kinds: types} if kinds else {}
        with torch.no_grad():
            found: Tensor = self.model(input_ids=torch.tensor([list(tokens)]), **taken, **others).logits[0]
        return found


def joined(parts: Sequence[Tensor]) -> Tensor:
    """One behind the other; what is smaller is filled up at its ends, as processors do with several pictures."""
    sizes = [max(sides) for sides in zip(*(part.shape[1:] for part in parts), strict=True)]
    filled = []
    for part in parts:
        missing = [(0, size - own) for size, own in zip(sizes, part.shape[1:], strict=True)]
        filled.append(torch.nn.functional.pad(part, [end for both_ends in reversed(missing) for end in both_ends]))
    return torch.cat(filled)


@cache
def both(kind: str) -> Both:
    """Made once, for all tests of this process."""
    folder = Path(mkdtemp())
    save_picture_model(kind, folder)
    checkpoint, tokenizer = open_checkpoint(str(folder)), Tokenizer.open(folder)
    cpu = torch.device("cpu")
    reader = open_reader(checkpoint, tokenizer.library, torch.float32, cpu, lambda: None)
    own = tokenizer.vocabulary["<image>" if kind == "idefics3" else "<|image_pad|>"]
    return Both(kind, random_model(picture_config(kind, own)), _loaded(checkpoint), reader)


def _loaded(checkpoint: Checkpoint) -> Network:
    steps = load_layerwise(checkpoint, torch.float32, torch.device("cpu"))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Network = end.value
            return found


def text(its: Both) -> tuple[list[int], list[int], list[Picture], list[WrittenPicture]]:
    """A text with two pictures: as transformers reads it, with the rows of pictures, and these."""
    pictures = [picture(seed, *size) for seed, size in enumerate(SIZES)]
    written = [its.reader.written(each) for each in pictures]
    read, rows = list[int](), list[int]()
    for begin, each in zip((20, 30), written, strict=True):
        words = [1, *range(begin, begin + 3)]
        read += [*words, *[each.token] * len(each.rows)]
        rows += [*words, *each.rows]
    end = [40, 41, 42, 43, 44, 45, 46]
    return read + end, rows + end, pictures, written
