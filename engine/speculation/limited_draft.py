"""A draft that reads no farther than it was made for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.accelerator import sent
from engine.speculation.interfaces import Scorer


@dataclass(frozen=True, slots=True)
class _Node:
    """A pending node: where it stands in the text, and its number among the draft's own, None where it is not read."""

    position: int
    number: int | None


class LimitedDraft:
    """A `Scorer` that proposes nothing behind a draft's last position, and does not ask the draft there.

    Families with a table of positions have no row beyond it: reading on is an error, which a GPU does not survive.
    Others were never trained there. The logits behind what is not read are -inf, which methods take for no proposals.
    """

    def __init__(self, draft: Scorer, positions: int, vocabulary: int, device: torch.device) -> None:
        """`positions`: the tokens that the draft reads at most; `vocabulary`, `device`: of its logits."""
        self._draft = draft
        self._positions = positions
        self._vocabulary = vocabulary
        self._device = device
        self.length = 0  # committed tokens, also those that are not read
        self._pending: list[_Node] = []

    def prefill(self, tokens: Sequence[int]) -> int:
        """Make the committed tokens equal `tokens`; returns how many were there already.

        Where nothing can be proposed behind them, nothing is read.
        """
        self.length, self._pending = len(tokens), []
        return self._draft.prefill(tokens) if len(tokens) < self._positions else 0

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """Append nodes, run one pass over those that can be read; returns logits [n or last, vocabulary]."""
        pending, count = [*self._pending], len(self._read(range(len(self._pending))))
        rows, above = list[int](), list[int]()  # of what is read: places among `tokens`, and parents
        for place, parent in enumerate(parents):
            over = pending[parent] if parent >= 0 else _Node(self.length - 1, -1)
            node = _Node(over.position + 1, None)
            if over.number is not None and node.position < self._positions:
                node = replace(node, number=count + len(rows))
                rows.append(place)
                above.append(over.number)
            pending.append(node)
        wanted = last or len(tokens)
        begin = len(tokens) - wanted
        found = [row - begin for row in rows if row >= begin]
        logits = self._draft.score([tokens[row] for row in rows], above, max(1, len(found))) if rows else None
        self._pending = pending
        if logits is not None and len(found) == wanted:
            return logits
        nothing = torch.full((wanted, self._vocabulary), -torch.inf, device=self._device)
        if logits is not None and found:
            nothing.index_copy_(0, sent(found, self._device), logits.float())
        return nothing

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit a path of pending nodes and forget the others, but for `rest`, which are numbered anew from 0."""
        self._draft.keep(*(self._read(some) for some in (nodes, rest)))
        self.length += len(nodes)
        kept = [self._pending[node] for node in rest]
        numbers = iter(range(len(kept)))
        self._pending = [_Node(node.position, None if node.number is None else next(numbers)) for node in kept]

    def _read(self, nodes: Sequence[int]) -> list[int]:
        """The draft's own numbers of those nodes that it has read."""
        return [number for node in nodes if (number := self._pending[node].number) is not None]
