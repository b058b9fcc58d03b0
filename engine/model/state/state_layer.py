"""The cache of one layer that keeps a state: the state at the root, and what pending nodes wrote."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import CacheLayerMixin, LinearAttentionCacheLayerMixin

from engine import accelerator
from engine.model.state.short_convolution import short_convolution_advance, short_convolution_tree
from engine.model.state.tree_paths import Generation, TreePaths
from engine.model.state.writes import Writes, advance

FURTHER = 3  # numbers from 0 that modules give to what they keep of their inputs; 0 is the short convolution's

Along = Callable[[Tensor, Writes, Sequence[int]], Tensor]  # the state behind a path of writes, see `advance`


class TreePass:
    """One pass over new nodes of a tree; what every layer asks of it is computed once.

    `behind_prompt`: the nodes below the root still belong to the prompt, which plain decoding reads in one pass.
    """

    def __init__(self, paths: TreePaths, behind_prompt: bool = False) -> None:
        self.paths = paths
        self._behind_prompt = behind_prompt
        self._windows: dict[int, Tensor] = {}
        self._generations: list[Generation] | None = None

    def windows(self, width: int) -> Tensor:
        """As `TreePaths.windows`."""
        if width not in self._windows:
            self._windows[width] = self.paths.windows(width)
        return self._windows[width]

    def generations(self) -> list[Generation]:
        """As `TreePaths.generations`."""
        if self._generations is None:
            self._generations = self.paths.generations()
        return self._generations

    def of_prompt(self) -> Tensor:
        """bool [new nodes]: which of them belong to the prompt."""
        return (self.paths.visible.sum(1) == 1) & self._behind_prompt


@dataclass(frozen=True, slots=True)
class LayerState:
    """What one layer knows of the text up to a token; None where nothing was read, or where it has no such part.

    `state`: float32, in the shape of the library's own; `tail`: [1, width - 1, channels], the last inputs of the short
    convolution; `further`: the last inputs of other modules, by their numbers, [1, ..., kept] as the library has them.
    """

    state: Tensor | None = None
    tail: Tensor | None = None
    further: Mapping[int, Tensor] = field(default_factory=dict)

    def copied_to(self, device: torch.device) -> "LayerState":
        """A copy, also where it is on `device` already."""
        state, tail = (None if part is None else part.to(device, copy=True) for part in (self.state, self.tail))
        further = {number: part.to(device, copy=True) for number, part in self.further.items()}
        return LayerState(state, tail, further)

    @property
    def nbytes(self) -> int:
        """What all of it takes in memory."""
        return sum(part.nbytes for part in (self.state, self.tail, *self.further.values()) if part is not None)


class StateLayer(LinearAttentionCacheLayerMixin):  # type: ignore[misc]  # transformers is untyped
    """One layer's state behind the last committed token, and what its pending nodes write into it.

    In a chain transformers' modules find what they expect of a cache. In a tree they find no state: they then call,
    for any number of rows, the functions that `TreeMixer` replaces.
    """

    is_sliding = False

    def __init__(self, attention: CacheLayerMixin | None = None) -> None:
        """`attention`: keys and values, of a layer that has both; nothing here touches them."""
        super().__init__(number_of_states=FURTHER)
        self.attention = attention
        self.record_past = True  # else a module overwrites the tail in place where it reads a single token
        self.root = LayerState()
        self.tree: TreePass | None = None  # of the running pass; None in a chain
        self.inputs: Tensor | None = None  # of the convolution, [1, pending, channels]
        self.further: dict[int, Tensor] = {}  # inputs of other modules, by their numbers, [1, ..., pending]
        self.writes: Writes | None = None
        self._along: Along = advance

    @property
    def pending_nbytes(self) -> int:
        """What the pending nodes left."""
        return sum(part.nbytes for part in (self.inputs, self.writes, *self.further.values()) if part is not None)

    def lazy_initialization(self, *_args: Any, **_kwargs: Any) -> None:
        """Nothing is allocated before it is known."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append keys and values, as of a layer with attention alone."""
        assert self.attention is not None, "only layers that attend have keys and values"
        found: tuple[Tensor, Tensor] = self.attention.update(key_states, value_states, *args, **kwargs)
        return found

    def begin(self, tree: TreePass | None) -> None:
        """Get ready for a pass; without a `tree` it is over several tokens behind the last committed one."""
        self.tree = tree
        state, tail = (self.root.state, self.root.tail) if tree is None else (None, None)
        self.recurrent_states[0], self.conv_states[0] = state, tail
        self.has_previous_state[0] = state is not None or tail is not None
        for number in range(1, FURTHER):
            self.conv_states[number] = self.root.further.get(number) if tree is None else None
            self.has_previous_state[number] = self.conv_states[number] is not None

    def update_conv_state(
        self, conv_states: Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **_kwargs: Any
    ) -> Tensor:
        """Take the inputs [1, channels, n] of this pass; returns what the module has to convolve.

        In a chain the tail with them behind it; in a tree only them, as `convolve` knows the rest. Of other modules,
        which `state_idx` numbers, in chains alone: [1, ..., n], of which the last `conv_kernel_size` are kept.
        """
        if state_idx:
            return self._update_further(conv_states, state_idx, conv_kernel_size)
        assert conv_kernel_size is not None, "a tail is as long as the convolution reaches"
        rows, known = conv_states.mT, conv_kernel_size - 1
        nothing = rows.new_zeros((rows.shape[0], known, rows.shape[2]))
        if self.tree is not None:
            if self.root.tail is None:
                self.root = replace(self.root, tail=nothing)
            self.inputs = torch.cat([rows[:, :0] if self.inputs is None else self.inputs, rows], 1)
            return conv_states
        tail = nothing if self.conv_states[0] is None else self.conv_states[0]
        self.conv_states[0] = torch.cat([tail, rows], 1)[:, rows.shape[1] :].clone()
        return torch.cat([tail.mT, conv_states], -1)

    def _update_further(self, new: Tensor, number: int, kept: int | None) -> Tensor:
        assert kept is not None, "what is kept is told"
        assert self.tree is None, "trees are read by `past`"
        before = self.conv_states[number]
        seen = torch.cat([new.new_zeros((*new.shape[:-1], kept)) if before is None else before, new], -1)
        self.conv_states[number] = seen[..., -kept:].clone()
        return seen

    def past(self, number: int, new: Tensor, kept: int, nothing: int = 0) -> Tensor:
        """Take inputs [1, ..., m] of the new nodes of a tree; returns for each the `kept` before it, [m, ..., kept].

        `number`: the library's for what the module keeps; `nothing`: what stands before the beginning of the text.
        """
        assert self.tree is not None, "chains are read by the module itself"
        if number not in self.root.further:
            further = {**self.root.further, number: new.new_full((*new.shape[:-1], kept), nothing)}
            self.root = replace(self.root, further=further)
        self.further[number] = torch.cat([self.further.get(number, new[..., :0]), new], -1)
        seen = torch.cat([self.root.further[number], self.further[number]], -1)
        return seen[0][..., self.tree.windows(kept + 1)[:, :-1]].movedim(-2, 0)

    def update_recurrent_state(self, recurrent_states: Tensor | None, state_idx: int = 0, **_kwargs: Any) -> Any:
        """Take the state behind a chain; behind a tree there is none."""
        assert state_idx == 0, "no other modules are let in"
        if self.tree is None:
            self.recurrent_states[0] = recurrent_states
        return recurrent_states

    def convolve(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The short convolution at the new nodes of a tree, [1, channels, n]; weight: [channels, width]."""
        assert self.tree is not None, "only trees are convolved here"
        assert self.inputs is not None, "inputs come first"
        assert self.root.tail is not None, "the inputs made one"
        windows = self.tree.windows(weight.shape[-1])
        return short_convolution_tree(self.inputs, self.root.tail, windows, weight, bias).mT

    def state(self, *shape: int, device: torch.device) -> Tensor:
        """The state at the root of a tree, float32; zeros of this shape where nothing was read."""
        if self.root.state is None:
            self.root = replace(self.root, state=torch.zeros(shape, device=device))
        assert self.root.state is not None
        return self.root.state

    def add(self, writes: Writes, along: Along = advance) -> None:
        """Take what the new nodes of a tree write; `along`: how a state goes along a path of them."""
        self.writes, self._along = writes.behind(self.writes), along

    def committed(self) -> LayerState:
        """What the last chain left."""
        if self.tree is not None:  # of one node
            return self.behind([0])
        further = {number: tail for number, tail in self.conv_states.items() if number and tail is not None}
        return LayerState(self.recurrent_states[0], self.conv_states[0], further)

    def behind(self, path: Sequence[int]) -> LayerState:
        """What the layer knows behind a path of pending nodes."""
        state, tail = self.root.state, self.root.tail
        if state is not None and self.writes is not None:
            state = self._along(state, self.writes, path)
        if tail is not None and self.inputs is not None:
            tail = short_convolution_advance(tail, self.inputs, path)
        further = {number: self._further_behind(number, path) for number in self.root.further}
        return LayerState(state, tail, further)

    def _further_behind(self, number: int, path: Sequence[int]) -> Tensor:
        tail, inputs = self.root.further[number], self.further.get(number)
        if inputs is None:
            return tail
        index = accelerator.sent(path, inputs.device)
        return torch.cat([tail, inputs.index_select(-1, index)], -1)[..., -tail.shape[-1] :]

    def move(self, root: LayerState, rest: Sequence[int] = ()) -> None:
        """Go on from another root; of the pending nodes only `rest`, which are behind it, stay."""
        self.root = root
        self.tree = None
        self._forget_chain()
        self.retain(rest)

    def _forget_chain(self) -> None:
        self.recurrent_states[0] = None
        for number in range(FURTHER):
            self.conv_states[number] = None

    def retain(self, nodes: Sequence[int]) -> None:
        """Forget all pending nodes but these, and number them anew."""
        if not nodes:
            self.inputs = self.writes = None
            self.further = {}
        for number, inputs in self.further.items():
            index = accelerator.sent(nodes, inputs.device)
            self.further[number] = inputs.index_select(-1, index)
        if self.inputs is not None:
            index = accelerator.sent(nodes, self.inputs.device)
            self.inputs = self.inputs.index_select(1, index)
        if self.writes is not None:
            self.writes = self.writes.select(nodes)

    def truncate(self, count: int) -> None:
        """Forget every pending node from `count` on, also where only a part of a pass knew of them."""
        self._forget_chain()
        pending = [inputs.shape[-1] for inputs in self.further.values()]
        if max(self.inputs.shape[1] if self.inputs is not None else 0, len(self.writes or ()), *pending) > count:
            self.retain(range(count))
