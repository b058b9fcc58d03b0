"""The pictures in the text that a network reads: what its pass is given in place of tokens that it does not know."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.one_pass.chunked_calls import LEAST_ROWS
from engine.model.passes.sight import Blocks
from engine.model.pictures.encoder import Features
from engine.picture_tokens import beside_rows, first_row, is_row, row_number


def _picture_of(token: int) -> int:
    """The id of the first row of its picture; 0 for text."""
    return first_row(token) if is_row(token) else 0


class ShownPictures:
    """Of one text. A pass over rows of pictures takes their features for embeddings, which are asked for only then."""

    def __init__(
        self,
        features: Callable[[Sequence[int]], Mapping[int, Features]],
        positions: Tensor | None = None,
        stand_in: int | None = None,
        whole: frozenset[str] = frozenset(),
    ) -> None:
        """`features`: of the pictures whose first rows have these ids; it may take long, and raise.

        `positions`: int64 [axes, tokens], where each token of the text stands for the rotary embedding; None where that
        is where it stands. What follows the text goes on one by one. `stand_in`: the token that the network is told of
        in place of a row, None for one that says nothing. `whole`: the kinds of spans in which a row of a picture sees
        all of it, as far as these reach.
        """
        self._features = features
        self._positions = positions
        self._shift = 0 if positions is None else int(positions.max()) + 1 - positions.shape[1]
        self.stand_in = stand_in
        self._whole = whole

    def blocks(self, tokens: Sequence[int], begin: int, end: int) -> Blocks | None:
        """What of the pass over tokens [begin, end) of a text also sees ahead."""
        if not self._whole:
            return None
        ranges, at = list[tuple[int, int]](), begin
        for is_picture, run in groupby(tokens[begin:end], _picture_of):
            length = len(list(run))
            if is_picture:
                ranges.append((at, at + length))
            at += length
        return Blocks(tuple(ranges), self._whole) if ranges else None

    def unparted(self, tokens: Sequence[int], length: int) -> int:
        """The longest beginning, at most `length` long, in which no picture is cut that has to be read as a whole."""
        return beside_rows(tokens, length) if self._whole else length

    def ends(self, tokens: Sequence[int], begin: int, size: int) -> list[int]:
        """Where passes, or chunks of one, over `tokens` from `begin` on end: each has at most `size` rows.

        A picture that has to be read as a whole is, even if it is larger.
        """
        found: list[int] = []
        while begin < len(tokens):
            end = self.unparted(tokens, min(begin + size, len(tokens)))
            if end - begin < min(LEAST_ROWS, len(tokens) - begin):
                end = begin + max(1, min(size, LEAST_ROWS))
                while end < len(tokens) and self.unparted(tokens, end) < end:
                    end += 1
            found.append(min(end, len(tokens)))
            begin = found[-1]
        return found

    def placed(self, positions: Tensor) -> Tensor:
        """`position_ids` of tokens at `positions`, int64 [n]: [1, n], or [axes, 1, n] where some stand in the text."""
        known = self._positions
        if known is None:
            return positions[None]
        beyond = positions + self._shift
        is_beyond = positions >= known.shape[1]
        if bool(is_beyond.all()):
            return beyond[None]
        inside = known[:, positions.clamp(max=known.shape[1] - 1)]
        return torch.where(is_beyond, beyond, inside)[:, None]

    @contextmanager
    def in_pass(self, embedding: nn.Module, tokens: Sequence[int]) -> Iterator[dict[str, Any]]:
        """While it is open, `embedding` gives the features of pictures for their rows among `tokens`.

        Yields what else the network takes in this pass.
        """
        rows = [place for place, token in enumerate(tokens) if is_row(token)]
        if not rows:
            yield {}
            return
        found = self._of([tokens[place] for place in rows])
        where = torch.tensor(rows)

        def put(_module: nn.Module, _inputs: object, embedded: Tensor) -> Tensor:
            made = embedded.clone()
            made[0, where.to(made.device)] = found.rows.to(made.device, made.dtype)
            return made

        hook = embedding.register_forward_hook(put)
        try:
            yield self._deeper(found, where, len(tokens), embedding)
        finally:
            hook.remove()

    def _of(self, tokens: Sequence[int]) -> Features:
        """The features of rows of any pictures, in their order."""
        runs = [(first, torch.tensor([*map(row_number, run)])) for first, run in groupby(tokens, first_row)]
        known = self._features([first for first, _ in runs])
        parts: list[Features] = []
        for first, numbers in runs:
            of_picture = known[first]
            deeper = tuple(each[numbers.to(each.device)] for each in of_picture.deeper)
            parts.append(Features(of_picture.rows[numbers.to(of_picture.rows.device)], deeper))
        deeper = tuple(torch.cat(layer) for layer in zip(*(part.deeper for part in parts), strict=True))
        return Features(torch.cat([part.rows for part in parts]), deeper)

    def _deeper(self, found: Features, where: Tensor, count: int, embedding: nn.Module) -> dict[str, Any]:
        """What transformers' networks call it where features are added to the outputs of their first layers."""
        if not found.deeper:
            return {}
        device = next(embedding.parameters()).device
        mask = torch.zeros(1, count, dtype=torch.bool)
        mask[0, where] = True
        return {
            "visual_pos_masks": mask.to(device),
            "deepstack_visual_embeds": [each.to(device) for each in found.deeper],
        }
