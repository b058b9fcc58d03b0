"""What a target computed of the tokens it has read: the hidden states from which a head drafts."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine.accelerator import sent
from engine.model.network import Network

SLICING = "_maybe_slice_kv_shared_inputs"  # of Gemma 4's decoder


class HiddenStates:
    """A row for every slot of a context's cache: [capacity, width], on the device that computes.

    A row is what the decoder gives to the output matrix (behind its last norm) or, with `layers`, the outputs of these
    layers side by side, in their order. Rows come by forward hooks and stand in slots like keys and values: committed
    tokens in [0, tokens), pending nodes behind them. `engine.model.passes.tree_cache.TreeCache` moves and drops them.
    """

    def __init__(self, network: Network, capacity: int, layers: Sequence[int] = ()) -> None:
        """Passes of `network` are recorded from now on. `layers`: numbers of decoder layers, ascending."""
        self.length = 0
        self.layers = tuple(layers)
        self._network = network
        self._capacity = capacity
        self._rows: Tensor | None = None
        _have_all_rows_computed(network.model.get_decoder())
        if not layers:
            network.model.get_decoder().register_forward_hook(
                lambda _module, _inputs, output: self.append(output.last_hidden_state[0])
            )
        for index in layers:
            network.layers[index].register_forward_hook(
                lambda _module, _inputs, output, index=index: self._take(index, layers, output)
            )

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, used or not; 0 before the first pass."""
        return self._rows.nbytes if self._rows is not None else 0

    def append(self, rows: Tensor) -> None:
        """Take the rows of a pass, [n, width]."""
        self._room_for(rows, rows.shape[1])[:] = rows
        self.length += len(rows)

    def _room_for(self, like: Tensor, width: int) -> Tensor:
        """Where the rows of a pass go, [n, width], as many as those of `like` and of its type."""
        end = self.length + len(like)
        if self._rows is None:
            self._rows = like.new_empty((max(end, self._capacity), width))
        elif end > len(self._rows):
            grown = like.new_empty((max(end, len(self._rows) * 3 // 2), width))
            grown[: self.length] = self._rows[: self.length]
            self._rows = grown
        return self._rows[self.length : end]

    def keep(self, base: int, slots: Tensor) -> None:
        """Keep slots [0, base) and `slots` (int64 [n], each >= base, ascending), compacted to [base, base + n)."""
        end = base + slots.numel()
        if self._rows is not None:
            self._rows[base:end] = self._rows.index_select(0, slots)
        self.length = end

    def crop(self, length: int) -> None:
        """Forget every row from slot `length` on."""
        self.length = min(self.length, length)

    def first(self, length: int) -> Tensor | None:
        """The rows of slots [0, length), as they lie there; None before the first pass."""
        return None if self._rows is None else self._rows[:length]

    def restore(self, rows: Tensor) -> None:
        """Have these rows, [n, width], alone."""
        self.length = 0
        self.append(rows)

    def rows(self, slots: Sequence[int]) -> Tensor:
        """The rows of these slots, [n, width]; zeros for slot -1, which stands before the text."""
        assert max(slots) < self.length, "nothing is read before the target has read it"
        if self._rows is None:
            return self._before_the_text(len(slots))
        index = sent(slots, self._rows.device)
        found = self._rows.index_select(0, index.clamp(min=0))
        return found.masked_fill((index < 0)[:, None], 0.0)

    def _before_the_text(self, count: int) -> Tensor:
        """What `rows` gives before the first pass, as for a prompt of one token, which is not read before its tree."""
        network = self._network
        width = network.model.config.get_text_config(decoder=True).hidden_size * max(1, len(self.layers))
        return torch.zeros((count, width), dtype=network.dtype, device=network.device)

    def _take(self, index: int, layers: Sequence[int], output: Any) -> None:
        """Copy them at once: the next layer of a pass over a long prompt writes over what it is given."""
        rows = (output[0] if isinstance(output, tuple) else output)[0]
        width = rows.shape[1]
        begin = layers.index(index) * width
        self._room_for(rows, len(layers) * width)[:, begin : begin + width] = rows
        if index == layers[-1]:
            self.length += len(rows)


def _have_all_rows_computed(decoder: Any) -> None:
    """Keep a decoder from leaving out of its last layers what no later token reads: rows without logits.

    Gemma 4 does so in layers that have no keys of their own; heads read what these put out.
    """
    if hasattr(decoder, SLICING):
        setattr(decoder, SLICING, _unsliced)


def _unsliced(hidden: Tensor, inputs: Any, positions: Any, masks: Any, *_others: Any, **_named: Any) -> tuple[Any, ...]:
    return hidden, inputs, positions, masks
