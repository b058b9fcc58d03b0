"""The paths of a token tree, as one pass of a state layer needs them: who is above whom, and what lies between them."""

from dataclasses import dataclass

import torch
from torch import Tensor

# A decay of exp(-1e4) is 0 in every number type; a factor of exactly 0 would make the differences of sums undefined.
SMALLEST_LOG_DECAY = -1e4
# Nodes of one depth, and where in the generation before their parents stand, 0 for the root; int64 [w] each.
Generation = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class TreePaths:
    """n pending nodes of a tree, each behind its parent, of which those from `begin` on are new in this pass.

    `ancestors`: bool [n, n], row i tells which nodes are on the path from the root to node i, i included. `original`:
    the same on the host, where it was first, so that nobody waits for a device to tell how many nodes are of a depth.
    """

    ancestors: Tensor
    begin: int = 0
    original: Tensor | None = None

    @property
    def visible(self) -> Tensor:
        """bool [m, n]: the rows of the new nodes."""
        return self.ancestors[self.begin :]

    def to(self, device: torch.device) -> "TreePaths":
        """The same paths on another device."""
        return TreePaths(self.ancestors.to(device, non_blocking=True), self.begin, self.ancestors)

    def sums(self, values: Tensor) -> Tensor:
        """Sums along root paths, float64, of `values` [batch, n, ...], which are logarithms of decays.

        In float64, for differences of long sums are taken: in float32 a sum of -1e4 is only good to 1e-3.
        """
        logs = values.double().clamp(min=SMALLEST_LOG_DECAY)
        flat = self.ancestors.double() @ logs.flatten(2)
        return flat.view(logs.shape)

    def decays_between(self, sums: Tensor) -> Tensor:
        """float32 [batch, heads, m, n]: what is left at each new node of what each node wrote, 0 if it is no ancestor.

        `sums`: [batch, n, heads] as from `sums`. Masked before `exp`: between two branches the difference is unbounded.
        """
        last = sums.transpose(1, 2)
        differences = (last[..., self.begin :, None] - last[..., None, :]).float()
        return differences.masked_fill_(~self.visible, -torch.inf).exp_()

    def channel_decays(self, sums: Tensor, begin: int, end: int) -> Tensor:
        """As `decays_between`, for `sums` [batch, n, heads, channels] and new nodes [begin, end) alone.

        float32 [batch, heads, end - begin, nodes up to the last of these, channels].
        """
        end = min(self.begin + end, len(self.ancestors))
        last = sums[:, :end].transpose(1, 2)
        differences = (last[:, :, self.begin + begin :, None] - last[:, :, None]).float()
        hidden = ~self.ancestors[self.begin + begin : end, :end, None]
        return differences.masked_fill_(hidden, -torch.inf).exp_()

    def generations(self) -> list[Generation]:
        """All n nodes from the root downwards, those of one depth at a time."""
        ancestors = self.ancestors if self.original is None else self.original
        order = torch.arange(len(ancestors), device=ancestors.device)
        above = ancestors & (order != order[:, None])
        parents = torch.where(above, order, -1).amax(1)  # the deepest of all ancestors stands last
        place = torch.zeros_like(order)
        depths = above.sum(1)
        numbers, sizes = depths.argsort(stable=True), depths.bincount().tolist()
        for nodes in torch.split(numbers, sizes):
            place[nodes] = torch.arange(len(nodes), device=order.device)
        places = torch.where(parents < 0, 0, place[parents.clamp(min=0)])[numbers]
        both = (torch.split(found.to(self.ancestors.device, non_blocking=True), sizes) for found in (numbers, places))
        return list(zip(*both, strict=True))

    def windows(self, width: int) -> Tensor:
        """int64 [m, width]: the last `width` nodes on each new node's path, in order, itself the last.

        They index a row of `width - 1` entries of the committed text with the n nodes behind them.
        """
        visible = self.visible
        prefix = visible.new_ones((len(visible), width - 1))
        seen = torch.cat([prefix, visible], 1)
        numbers = torch.arange(seen.shape[1], device=seen.device)
        return torch.where(seen, numbers, -1).topk(width, sorted=True).values.flip(1)


def chain_generations(tokens: int, device: torch.device) -> list[Generation]:
    """As `TreePaths.generations` of a tree that is a chain."""
    first = torch.zeros(1, dtype=torch.int64, device=device)
    return [(node, first) for node in torch.split(torch.arange(tokens, device=device), 1)]
