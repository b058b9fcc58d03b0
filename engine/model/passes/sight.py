"""What the rows of one pass see of the cache, as a host knows it: compact, without the slots that all of them see."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sight:
    """The last `rows` of the slots behind the first `base` are those of the pass. All rows see the first ones.

    In the committed slots [0, base) slot == position; `positions`, int64 [n], are those of the slots behind them.
    `visible`: bool [rows, n], ancestor or self; None where every row sees all slots before it, and itself. With
    `hides_first` nothing sees slot 0 but what stands at position 0.
    """

    base: int
    rows: int
    positions: Tensor
    visible: Tensor | None = None
    hides_first: bool = False

    @classmethod
    def of_text(cls, begin: int, end: int) -> "Sight":
        """Of tokens [begin, end) of a text whose first `begin` tokens are committed."""
        return cls(begin, end - begin, torch.arange(begin, end))

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
        return not self.hides_first and (self.visible is None or bool(self.visible[-1].all()))

    def on(self, device: torch.device) -> "Sight":
        """The same on a device: at most two small copies, which wait for nothing there."""
        visible = None if self.visible is None else self.visible.to(device, non_blocking=True)
        return replace(self, positions=self.positions.to(device, non_blocking=True), visible=visible)

    def mask(self, start: int) -> Tensor:
        """bool [rows, slots - start], made where `positions` are; `start`: committed slots to leave out."""
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
