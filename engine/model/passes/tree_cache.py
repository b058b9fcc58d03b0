"""What a pass over a token tree reads: keys and values, the ancestry of the pending nodes, and attention masks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from engine.accelerator import is_accelerator
from engine.model.families.state_families import HYBRID, LINEAR
from engine.model.heads.hidden_states import HiddenStates
from engine.model.passes import tree_attention
from engine.model.passes.sight import Sight, Span
from engine.model.passes.slot_forms import AS_COMPUTED, SlotForm
from engine.model.shape import FULL
from engine.model.state.state_cache import SNAPSHOTS, StateCache
from engine.model.state.state_layer import StateLayer

SLOT_DIMENSION = {
    "keys": 2, "values": 2, "key_scales": 2, "value_scales": 2, "indexer_keys": 1, "indexer_position_ids": 2,
}  # fmt: skip
"""Where slots are counted in what `slots` of a layer gives, by name."""


@dataclass(frozen=True, slots=True)
class FixedSlots:
    """For a pass that is recorded: `slots`, int64 [n], where its rows are written, and the `length` that all attend to.

    Slots that no row may see are for the mask to hide; there are numbers in them.
    """

    slots: Tensor
    length: int


class TreeLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers is untyped
    """One decoder layer's keys and values, preallocated: [1, heads, capacity, head_dim], in the parts of its `form`.

    Slots [0, length) are in use. `start` is the oldest slot that any query of the running pass can still see; a
    layer of bounded span hands out only [start, length), which keeps its cost at the span's size. With `fixed` slots a
    pass is written there, and `length` stays for whoever set them.
    """

    is_sliding = False  # the masks are ours; transformers must never trim this layer
    is_croppable = True

    def __init__(self, capacity: int, span: Span, form: SlotForm = AS_COMPUTED) -> None:
        super().__init__()
        self.capacity = capacity
        self.span = span
        self.form = form
        self.length = 0
        self.start = 0
        self.fixed: FixedSlots | None = None

    @property
    def stored(self) -> tuple[Tensor, ...]:
        """What it keeps of all slots, [1, heads, capacity, any], in the order of its form's parts."""
        return tuple(getattr(self, name) for name in self.form.parts) if self.is_initialized else ()

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate for the shapes, type and device of the first keys and values [1, heads, n, head_dim]."""
        self._allocate(self.form.pack(key_states[:, :, :0], value_states[:, :, :0]))

    def _allocate(self, like: Sequence[Tensor]) -> None:
        self.dtype, self.device = like[0].dtype, like[0].device
        for name, part in zip(self.form.parts, like, strict=True):
            setattr(self, name, part.new_empty((*part.shape[:2], self.capacity, part.shape[-1])))
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append n keys and values; returns everything the running pass may attend to, see `SlotForm.unpack`."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        new = self.form.pack(key_states, value_states)
        if self.fixed is not None:
            for stored, rows in zip(self.stored, new, strict=True):
                stored.index_copy_(2, self.fixed.slots, rows.to(stored.dtype))
            return self._handed_out(0, self.fixed.length, key_states.dtype)
        end = self.length + key_states.shape[-2]
        if end > self.capacity:
            self._grow(end)
        for stored, rows in zip(self.stored, new, strict=True):
            stored[:, :, self.length : end].copy_(rows)
        self.length = end
        return self._handed_out(self.start, end, key_states.dtype)

    @property
    def may_be_claimed(self) -> bool:
        """Whether `claim` gives any slots."""
        return self.is_initialized and self.form is AS_COMPUTED and self.fixed is None

    def claim(self, rows: int) -> tuple[Tensor, Tensor, int] | None:
        """Take slots for `rows` more keys and values, which whoever asks for them writes there without being asked.

        Returns what is kept of all slots, [1, heads, capacity, head_dim] twice, and the first of these slots. None, and
        nothing is taken, where they are not kept as they are computed, or none were written before.
        """
        if not self.may_be_claimed:
            return None
        begin = self.length
        if begin + rows > self.capacity:
            self._grow(begin + rows)
        self.length = begin + rows
        return self.keys, self.values, begin

    def _handed_out(self, begin: int, end: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return self.form.unpack([part[:, :, begin:end] for part in self.stored], dtype)

    def _grow(self, needed: int) -> None:
        # Only a draft gets here: how many nodes its search expands is not known beforehand, nor into how many tokens
        # of its own it reads a text.
        self.capacity = max(needed, self.capacity + self.capacity // 2)
        old = self.stored
        self._allocate(old)
        for new, part in zip(self.stored, old, strict=True):
            new[:, :, : self.length].copy_(part[:, :, : self.length])

    def keep(self, base: int, slots: Tensor) -> None:
        """Keep slots [0, base) and `slots` (int64 [n], each >= base, ascending), compacted to [base, base + n)."""
        end = base + slots.numel()
        for stored in self.stored:
            stored[:, :, base:end] = stored.index_select(2, slots)
        self.length = end

    def crop(self, max_length: int) -> None:
        """Forget every slot from `max_length` on."""
        self.length = min(self.length, max_length)

    def slots(self, length: int) -> dict[str, Tensor]:
        """Views of slots [0, length), by name; none where nothing was ever written."""
        if not self.is_initialized:
            return {}
        return {name: part[:, :, :length] for name, part in zip(self.form.parts, self.stored, strict=True)}

    def restore(self, slots: Mapping[str, Tensor], length: int, device: torch.device) -> None:
        """Have slots [0, length) of these, and no others; the memory is on `device`.

        Raises `ValueError` for those of another form: codes must not be read as numbers.
        """
        self.length = 0
        if slots.keys() not in (set(), set(self.form.parts)):
            raise ValueError(f"slots are kept in another form: {', '.join(slots)}")
        if slots:
            parts = [slots[name] for name in self.form.parts]
            if not self.is_initialized:
                self._allocate([part[:, :, :0].to(device) for part in parts])
            if length > self.capacity:
                self._grow(length)
            for stored, part in zip(self.stored, parts, strict=True):
                stored[:, :, :length].copy_(part[:, :, :length])
        self.length = length

    def get_seq_length(self) -> int:
        """Slots in use."""
        return self.length

    def get_max_length(self) -> int:
        """Slots allocated."""
        return self.capacity

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Width and offset of a mask for `query_length` new tokens, in transformers' convention."""
        return self.length + query_length - self.start, self.start

    def reset(self) -> None:
        """Forget everything; the memory stays."""
        self.length = self.start = 0


class IndexedTreeLayer(TreeLayer):
    """A layer of indexed attention: beside keys and values the keys of its indexer, [1, capacity, index dim].

    The indexer chooses among the slots that the mask of the pass shows each query (DeepSeek-V3.2, arXiv 2512.02556):
    of a tree, its ancestors and the text before them. Slots are counted apart from those of keys and values, as either
    may be written first, and layers may share the ones or the others with an earlier layer.

    `indexer_position_ids`, int64 [dimensions, 1, slots]: kept by networks (Qwen4-Exp) in the first such layer, by
    themselves, as they turn the keys of all indexers when these are read.
    """

    def __init__(self, capacity: int, span: Span, form: SlotForm = AS_COMPUTED) -> None:
        super().__init__(capacity, span, form)
        self.indexer_keys: Tensor | None = None
        self.indexer_position_ids: Tensor | None = None
        self._indexed = 0

    def update_indexer(self, indexer_key_states: Tensor) -> Tensor:
        """Append n keys, [1, n, index dim]; returns a view of all of them."""
        end = self._indexed + indexer_key_states.shape[1]
        if self.indexer_keys is None or end > self.indexer_keys.shape[1]:
            self._make_room(indexer_key_states, end)
        assert self.indexer_keys is not None
        self.indexer_keys[:, self._indexed : end].copy_(indexer_key_states)
        self._indexed = end
        return self.indexer_keys[:, :end]

    def _make_room(self, like: Tensor, needed: int) -> None:
        old, self.indexer_keys = self.indexer_keys, like.new_empty((1, max(needed, self.capacity), like.shape[-1]))
        if old is not None:
            self.indexer_keys[:, : self._indexed].copy_(old[:, : self._indexed])

    def keep(self, base: int, slots: Tensor) -> None:
        """As of keys and values."""
        super().keep(base, slots)
        if self.indexer_keys is not None:
            self.indexer_keys[:, base : self.length] = self.indexer_keys.index_select(1, slots)
            self._indexed = self.length
        if (positions := self.indexer_position_ids) is not None:
            self.indexer_position_ids = torch.cat([positions[..., :base], positions.index_select(-1, slots)], -1)

    def crop(self, max_length: int) -> None:
        """As of keys and values."""
        super().crop(max_length)
        self._indexed = min(self._indexed, max_length)
        if self.indexer_position_ids is not None:
            self.indexer_position_ids = self.indexer_position_ids[..., :max_length]

    def slots(self, length: int) -> dict[str, Tensor]:
        """As of keys and values, with the indexer's."""
        found = super().slots(length)
        if self.indexer_keys is not None:
            found["indexer_keys"] = self.indexer_keys[:, :length]
        if self.indexer_position_ids is not None:
            found["indexer_position_ids"] = self.indexer_position_ids[..., :length]
        return found

    def restore(self, slots: Mapping[str, Tensor], length: int, device: torch.device) -> None:
        """As of keys and values, with the indexer's."""
        own = ("indexer_keys", "indexer_position_ids")
        super().restore({name: part for name, part in slots.items() if name not in own}, length, device)
        self._indexed, positions = 0, slots.get("indexer_position_ids")
        if "indexer_keys" in slots:
            self.update_indexer(slots["indexer_keys"][:, :length].to(device))
        self.indexer_position_ids = None if positions is None else positions[..., :length].to(device)

    def reset(self) -> None:
        """Forget everything; the memory stays."""
        super().reset()
        self._indexed, self.indexer_position_ids = 0, None


class CompressedTreeLayer(IndexedTreeLayer):
    """A layer whose keys are its values, and which attends to entries that stand for many tokens of a text.

    What every token gives to them is kept as of an indexer; `entries` are those of committed tokens, [entries, width]
    in the order of the text, with how many tokens each stands for, by whoever made them.
    """

    def __init__(self, capacity: int, span: Span, form: SlotForm = AS_COMPUTED) -> None:
        super().__init__(capacity, span, form)
        self.entries: dict[int, tuple[int, Tensor]] = {}

    def update(self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append n keys; what is returned for values has no numbers."""
        return super().update(key_states, value_states[..., :0])

    def crop(self, max_length: int) -> None:
        """As of keys, and of entries that stand for some of them."""
        super().crop(max_length)
        for maker, (size, entries) in self.entries.items():
            self.entries[maker] = size, entries[: max_length // size]

    def restore(self, slots: Mapping[str, Tensor], length: int, device: torch.device) -> None:
        """As of keys."""
        self.entries = {}
        super().restore(slots, length, device)

    def reset(self) -> None:
        """Forget everything; the memory stays."""
        self.entries = {}
        super().reset()


def _layer_of(capacity: int, span: Span, form: SlotForm) -> TreeLayer:
    if span.is_compressed:
        return CompressedTreeLayer(capacity, span, form)
    return IndexedTreeLayer(capacity, span, form) if span.is_indexed else TreeLayer(capacity, span, form)


class TreeCache(Cache):  # type: ignore[misc]
    """One `TreeLayer` per decoder layer, or one `StateLayer`; `spans`: what each of them sees of the past.

    Layers that read the keys and values of an earlier one (gemma3n) leave theirs empty. `states`: of the layers that
    keep one; moved by itself, as a state cannot be cut. `hidden`: what is recorded of every slot for a head, if any.
    `form`: how all keys and values are kept.
    """

    def __init__(
        self, spans: tuple[Span, ...], capacity: int, snapshots: int = SNAPSHOTS, form: SlotForm = AS_COMPUTED
    ) -> None:
        attention = [_layer_of(capacity, span, form) if span.attends else None for span in spans]
        pairs = list(zip(spans, attention, strict=True))
        super().__init__(layers=[StateLayer(layer) if span.keeps_state else layer for span, layer in pairs])
        self.attention = [layer for layer in attention if layer is not None]
        states = [layer for layer in self.layers if isinstance(layer, StateLayer)]
        self.states = StateCache(states, capacity, snapshots)
        self.hidden: HiddenStates | None = None
        self.sight = Sight.of_text(0, 0)  # of the running pass

    @torch.inference_mode()
    def keep(self, base: int, slots: Tensor) -> None:
        """Keep slots [0, base) and `slots` in every layer with keys and values; see `TreeLayer.keep`."""
        for layer in self.attention:
            layer.keep(base, slots)
        if self.hidden is not None:
            self.hidden.keep(base, slots)

    def whole(self, length: int) -> int:
        """How many of the first `length` slots are written in every layer; a pass that failed may have left fewer."""
        lengths = [layer.length for layer in self.attention if layer.is_initialized]
        return min([length, *lengths, *([] if self.hidden is None else [self.hidden.length])])

    def slots(self, length: int) -> tuple[dict[str, Tensor], ...]:
        """Views of slots [0, length) of every layer that attends."""
        return tuple(layer.slots(length) for layer in self.attention)

    def crop_to(self, length: int) -> None:
        """Forget every slot from `length` on, in every layer; of the states, the pending nodes that stand there."""
        for layer in self.attention:
            layer.crop(length)
        if self.hidden is not None:
            self.hidden.crop(length)
        self.states.truncate(length)


class PendingTree:
    """Ancestry of the slots behind the committed ones, numbered from 0 in the order they were appended."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._depths: list[int] = []
        self._visible = np.zeros((0, 0), dtype=np.bool_)  # [capacity, capacity]: row may see column

    def __len__(self) -> int:
        return len(self.tokens)

    def clear(self) -> None:
        """Forget all nodes."""
        self.truncate(0)

    def truncate(self, count: int) -> None:
        """Forget every node from `count` on."""
        del self.tokens[count:], self._depths[count:]

    def append(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor:
        """Add nodes whose parents stand before them (-1: the last committed token); returns bool [n, len(self)].

        Row i tells which pending slots the i-th new node may see: its ancestors and itself.
        """
        begin, end = len(self.tokens), len(self.tokens) + len(tokens)
        self._reserve(end)
        self._visible[begin:end] = False
        generations: list[list[int]] = [[]]  # of the new nodes: those below old ones, then their children, and so on
        generation_of: dict[int, int] = {}
        for node, parent in enumerate(parents, start=begin):
            assert parent < node, "a parent must be appended before its children"
            self._depths.append(0 if parent < 0 else self._depths[parent] + 1)
            generation = generation_of[node] = generation_of.get(parent, -1) + 1
            if generation == len(generations):
                generations.append([])
            generations[generation].append(node)
        self.tokens.extend(tokens)
        for nodes in generations:  # one at a time: every parent's row is complete before it is copied
            below = [node for node in nodes if parents[node - begin] >= 0]
            self._visible[below] = self._visible[[parents[node - begin] for node in below]]
            self._visible[nodes, nodes] = True
        return torch.from_numpy(self._visible[begin:end, :end])

    def visible(self) -> Tensor:
        """bool [len(self), len(self)]: which of all nodes each may see."""
        return torch.from_numpy(self._visible[: len(self), : len(self)])

    def retain(self, nodes: Sequence[int], above: int) -> None:
        """Keep only these nodes, ascending, with their ancestors but for the `above` levels that are committed now."""
        if not nodes:
            self.clear()
            return
        index = np.array(nodes, dtype=np.int64)
        self._visible[: len(nodes), : len(nodes)] = self._visible[index][:, index]
        self.tokens = [self.tokens[node] for node in nodes]
        self._depths = [self._depths[node] - above for node in nodes]

    def positions(self, base: int) -> Tensor:
        """int64 [len(self)]: the position of every pending node, `base` being the first one behind the prefix."""
        return torch.tensor([base + depth for depth in self._depths], dtype=torch.int64)

    def is_path(self, nodes: Sequence[int]) -> bool:
        """Whether `nodes` go down the tree, each the parent of the next, from a child of the last committed token."""
        for depth, node in enumerate(nodes):
            if self._depths[node] != depth or (depth and not self._visible[node, nodes[depth - 1]]):
                return False
        return True

    def _reserve(self, count: int) -> None:
        capacity = len(self._visible)
        if count <= capacity:
            return
        grown = np.zeros(2 * (max(count, 2 * capacity, 256),), dtype=np.bool_)
        grown[:capacity, :capacity] = self._visible
        self._visible = grown


class TreeMasks:
    """Turns what the rows of a pass see into what a transformers model takes as `attention_mask`.

    Spans are counted in positions (a node's depth), not in cache slots: siblings share a position.
    """

    def __init__(self, spans: tuple[Span, ...], attention: str, dtype: torch.dtype, device: torch.device) -> None:
        self.spans = tuple(dict.fromkeys(spans))
        self._attention = attention
        self._dtype = dtype
        self._device = device

    def build(self, sight: Sight, cache: TreeCache) -> Tensor | dict[str, Tensor | None] | None:
        """The mask argument of one pass; also tells cache layers of bounded span which slots they may leave out.

        Made on the device. None where the attention sees by itself what is seen.
        """
        cache.sight = sight
        if not cache.attention:
            return None
        there: Sight | None = None
        masks: dict[Span, Tensor | None] = {}
        for span in self.spans:
            if not span.attends:
                continue
            start = min(sight.base, span.oldest(sight.oldest_query)) if span.is_bounded else 0
            if span.is_bounded:
                for layer in cache.attention:
                    if layer.span == span:
                        layer.start = start
            if self._is_seen(span, sight):
                masks[span] = None
                continue
            there = there or sight.on(self._device)
            masks[span] = self.form(there.seen(span, start)[None, None])
        return self.argument(masks, cache)

    def argument(
        self, masks: Mapping[Span, Tensor | None], cache: TreeCache
    ) -> Tensor | dict[str, Tensor | None] | None:
        """What a network takes that has these masks: one for every span that attends, [1, 1, queries, slots]."""
        if not cache.attention:
            return None
        by_kind: dict[str, Tensor | None] = {}
        for span in self.spans:
            if span.keeps_state:
                by_kind[LINEAR if span.kind == HYBRID else span.kind] = None
            if span.attends:
                by_kind[FULL if span.kind == HYBRID else span.kind] = masks[span]
        return next(iter(by_kind.values())) if len(by_kind) == 1 and not cache.states.layers else by_kind

    def form(self, mask: Tensor) -> Tensor:
        """A mask as the network's attention takes it, from bool [1, 1, queries, slots]: true where one sees a slot."""
        is_added = self._attention == "eager"
        if not is_added and not (self._attention == tree_attention.NAME and is_accelerator(self._device)):
            return mask
        # Eager attention adds the mask to the scores; a bool mask there is silently wrong. CUDA's kernels add it too:
        # they would make such a one of a bool mask, and one with aligned rows of this, in every layer.
        slots = mask.shape[-1]
        aligned = slots if is_added else -(-slots // tree_attention.ALIGNMENT) * tree_attention.ALIGNMENT
        additive = torch.zeros((*mask.shape[:-1], aligned), dtype=self._dtype, device=self._device)[..., :slots]
        return additive.masked_fill_(~mask, torch.finfo(self._dtype).min)

    def _is_seen(self, span: Span, sight: Sight) -> bool:
        """Whether the attention needs no mask: one row sees all that is left to it, and others what stands before them.

        On a CPU several rows behind committed ones do: its kernel has no such thing, and each layer would make its own.
        """
        if self._attention != tree_attention.NAME or not sight.is_causal or span.is_indexed:
            return False
        if sight.rows == 1 and len(self.spans) > 1:  # by kinds; else transformers makes the mask of a window itself
            return not span.is_bounded or span.oldest(sight.oldest_query) <= sight.base  # or pending ones lie before it
        return not span.is_bounded and (sight.rows in {1, sight.slots} or is_accelerator(self._device))
