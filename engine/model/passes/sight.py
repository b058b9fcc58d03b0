"""What queries see of the past: a layer's `Span`, in positions of the text, and a `Sight`, of a pass over a tree."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from engine.model.families.state_families import CONVOLUTION, LINEAR, STATE_KINDS
from engine.model.shape import CHUNKED, COMPRESSED, FULL, INDEXED_KINDS, WINDOWED_KINDS


@dataclass(frozen=True, slots=True)
class Span:
    """What queries see of the text before them: all of it, or with `tokens` a window or the chunk that they are in.

    `kind` is transformers' name, by which its networks take their masks. Layers that keep a state take none. Of indexed
    attention this is what an indexer chooses from, by keys of its own: it is handed the same mask.
    """

    kind: str = FULL
    tokens: int = 0

    def __post_init__(self) -> None:
        unbounded = {FULL, *INDEXED_KINDS, *STATE_KINDS}
        assert (self.kind in unbounded) == (self.tokens == 0), "these are unbounded, the others not"

    @property
    def keeps_state(self) -> bool:
        """Whether the layer has a state, in place of keys and values or beside them."""
        return self.kind in STATE_KINDS

    @property
    def attends(self) -> bool:
        """Whether the layer has keys and values."""
        return self.kind not in {LINEAR, CONVOLUTION}

    @property
    def is_compressed(self) -> bool:
        """Whether the layer also sees what stands for tokens before its window."""
        return self.kind == COMPRESSED

    @property
    def is_indexed(self) -> bool:
        """Whether an indexer chooses from what the layer sees."""
        return self.kind in INDEXED_KINDS

    @property
    def is_bounded(self) -> bool:
        """Whether a query may be too far behind a token to see it."""
        return self.tokens > 0

    def oldest(self, position: int) -> int:
        """The first position that a query at `position` sees."""
        if self.kind in WINDOWED_KINDS:
            return max(0, position - self.tokens + 1)
        return position - position % self.tokens if self.kind == CHUNKED else 0

    def reaches(self, queries: Tensor, keys: Tensor) -> Tensor:
        """bool [queries, keys]: whether each query position (int64) is near enough to each key position (int64)."""
        if self.kind in WINDOWED_KINDS:
            return queries[:, None] - keys[None, :] < self.tokens
        assert self.kind == CHUNKED, "full attention needs no such mask"
        return queries[:, None] // self.tokens == keys[None, :] // self.tokens


@dataclass(frozen=True, slots=True)
class Blocks:
    """Tokens of a text that also see those behind them, as each row of a picture sees all of it in some networks.

    `ranges`: of slots [begin, end), each whole in one pass. `kinds`: of spans in which they do, as far as these reach.
    """

    ranges: tuple[tuple[int, int], ...]
    kinds: frozenset[str]

    def open(self, mask: Tensor, first: int, start: int) -> None:
        """Open a mask [rows, slots], whose rows begin at slot `first` and its slots at `start`, in place."""
        for begin, end in self.ranges:
            if first <= begin and end - first <= len(mask):
                mask[begin - first : end - first, begin - start : end - start] = True


@dataclass(frozen=True)
class Sight:
    """What a host knows of it, compact: without the slots that all rows see.

    The last `rows` of the slots behind the first `base` are those of the pass. All rows see the first ones.

    In the committed slots [0, base) slot == position; `positions`, int64 [n], are those of the slots behind them.
    `visible`: bool [rows, n], ancestor or self; None where every row sees all slots before it, and itself. With
    `hides_first` nothing sees slot 0 but what stands at position 0. `blocks`: of a text, what also sees ahead.
    """

    base: int
    rows: int
    positions: Tensor
    visible: Tensor | None = None
    hides_first: bool = False
    blocks: Blocks | None = None

    @classmethod
    def of_text(cls, begin: int, end: int, blocks: Blocks | None = None) -> "Sight":
        """Of tokens [begin, end) of a text whose first `begin` tokens are committed."""
        return cls(begin, end - begin, torch.arange(begin, end), blocks=blocks)

    @property
    def slots(self) -> int:
        """All slots up to the last row's."""
        return self.base + len(self.positions)

    @property
    def query_positions(self) -> Tensor:
        """int64 [rows]."""
        return self.positions[len(self.positions) - self.rows :]

    @cached_property
    def oldest_query(self) -> int:
        """The lowest position of a row; ask on the host."""
        return int(self.query_positions.min())

    @cached_property
    def is_causal(self) -> bool:
        """Whether every row sees all slots before it, and itself, so that no mask has to say so; ask on the host.

        If the last row sees every slot, these are its ancestors: a chain, in which each sees those before it.
        """
        is_chain = self.visible is None or bool(self.visible[-1].all())
        return is_chain and not self.hides_first and self.blocks is None

    def on(self, device: torch.device) -> "Sight":
        """The same on a device: at most two small copies, which wait for nothing there."""
        if self.positions.device == device:
            return self
        visible = None if self.visible is None else self.visible.to(device, non_blocking=True)
        return replace(self, positions=self.positions.to(device, non_blocking=True), visible=visible)

    def seen(self, span: Span, start: int) -> Tensor:
        """bool [rows, slots - start]: what a layer of this span sees; `start`: committed slots to leave out."""
        mask = self.mask(start)
        if self.blocks and span.kind in self.blocks.kinds:
            self.blocks.open(mask, self.slots - self.rows, start)
        return mask & span.reaches(self.query_positions, self.slot_positions(start)) if span.is_bounded else mask

    def mask(self, start: int) -> Tensor:
        """As `seen`, as if no span were bounded, and made where `positions` are."""
        positions = self.positions
        mask = positions.new_ones((self.rows, self.slots - start), dtype=torch.bool)
        if self.visible is None:
            mask.tril_(diagonal=self.slots - start - self.rows)
        else:
            mask[:, self.base - start :] = self.visible
        if self.hides_first and start == 0:
            mask[:, 0] &= self.query_positions == 0
        return mask

    def slot_positions(self, start: int) -> Tensor:
        """int64 [slots - start], as `mask`."""
        committed = torch.arange(start, self.base, device=self.positions.device)
        return torch.cat([committed, self.positions])
