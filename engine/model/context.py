"""A model with what it has read: prefill a prompt, score a tree in one pass, keep the accepted path, rewind."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile

import torch
from torch import Tensor

from engine.model.masks import TreeMasks
from engine.model.network import Network
from engine.model.pending import PendingTree
from engine.model.tree_cache import TreeCache

PREFILL_ROWS = 1024  # bounds the mask and the attention scores of one prefill pass


class Context:
    """A transformers model and its tree cache. Target and draft are both a `Context`; only their layers differ.

    Committed tokens stand in slots [0, length), where slot == position. Behind them may stand pending nodes, a tree
    that `keep` prunes to one path or `score` adds to. A pass that raises leaves the context as it was before.
    """

    def __init__(self, network: Network, capacity: int, between_layers: Callable[[], None] = lambda: None) -> None:
        """`capacity`: slots for prompt, answer and tree; `between_layers` runs before every layer and may raise."""
        self.network = network
        self.tokens: list[int] = []
        self.prefill_rows = PREFILL_ROWS
        self._cache = TreeCache(network.windows, capacity)
        self._masks = TreeMasks(network.windows, network.attention, network.dtype, network.device)
        self._pending = PendingTree()
        for layer in network.layers:
            layer.register_forward_pre_hook(lambda _layer, _args: between_layers())

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self.tokens)

    def prefill(self, tokens: Sequence[int]) -> int:
        """Make the committed tokens equal `tokens`; returns how many of them were in the cache already.

        Only what follows the common prefix is computed, so a second turn of a chat pays for what is new.
        """
        common = self.common(tokens)
        self.rewind(common)
        for begin in range(common, len(tokens), self.prefill_rows):
            self._prefill_rows(list(tokens[begin : begin + self.prefill_rows]))
        return common

    def common(self, tokens: Sequence[int]) -> int:
        """How many tokens at the beginning of `tokens` are committed already."""
        same = (old == new for old, new in zip(self.tokens, tokens, strict=False))
        return sum(takewhile(bool, same))

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """Append nodes to the pending tree and run ONE pass over them; returns logits, float32 [n, vocabulary].

        `parents` are numbers of pending nodes, in the order of their appending, -1 for the last committed token; a
        parent stands before its children. Row i is the distribution after node i; `last` > 0 limits the rows.
        """
        before = len(self._pending)
        self._cache.crop_to(self.length + before)  # a guest's guesses may stand there, see `SharedContext`
        with self._undone_on_error(before):
            visible = self._pending.append(tokens, parents)
            slots = torch.cat([torch.arange(self.length), self._pending.positions(self.length)])
            prefix = torch.ones(len(tokens), self.length, dtype=torch.bool)
            return self._forward(tokens, torch.cat([prefix, visible], 1), slots[-len(tokens) :], slots, last)

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit the path of pending nodes, first to last; forget every other pending node but those of `rest`.

        `rest`, ascending, are descendants of the path's last node, each with its ancestors up to there. They stay
        pending and are numbered anew from 0, in their order.
        """
        assert self._pending.is_path(nodes), "only a path can be kept"
        kept = [*nodes, *rest]
        if kept == list(range(len(kept))):  # as after every pass without a tree: they stand where they belong
            self._cache.crop_to(self.length + len(kept))
        else:
            slots = torch.tensor(kept, dtype=torch.int64) + self.length
            self._cache.keep(self.length, slots.to(self.network.device))
        self.tokens.extend(self._pending.tokens[node] for node in nodes)
        self._pending.retain(rest, above=len(nodes))

    def rewind(self, length: int) -> None:
        """Forget all pending nodes and every committed token from `length` on."""
        del self.tokens[length:]
        self._pending.clear()
        self._cache.crop_to(self.length)

    def _prefill_rows(self, tokens: list[int]) -> None:
        end = self.length + len(tokens)
        with self._undone_on_error(0):
            positions = torch.arange(end)
            visible = positions[None, :] <= positions[self.length :, None]
            self._forward(tokens, visible, positions[self.length :], positions, last=1)
        self.tokens.extend(tokens)

    @torch.inference_mode()
    def _forward(self, tokens: Sequence[int], visible: Tensor, positions: Tensor, slots: Tensor, last: int) -> Tensor:
        device = self.network.device
        output = self.network.model(
            input_ids=torch.tensor([list(tokens)], device=device),
            position_ids=positions[None].to(device, non_blocking=True),
            attention_mask=self._masks.build(visible, positions, slots, self.length, self._cache),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=last,
        )
        logits: Tensor = output.logits[0].float()
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # what follows reads the logits anyway, and the clocks stay honest
        return logits

    @contextmanager
    def _undone_on_error(self, pending: int) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Layers before the failure have grown, those behind it have not.
            self._pending.truncate(pending)
            self._cache.crop_to(self.length + pending)
            raise
