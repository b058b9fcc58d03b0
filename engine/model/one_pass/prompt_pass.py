"""One pass of a network over a prompt of any length: every layer runs over all chunks of it, one after the other.

Weights that stream are brought once for each layer, as the hooks of a layer run once: before its first chunk and behind
its last one. What a pass over a chunk alone would find is found by each layer in turn: its own keys and values and its
own state of all that stands before the chunk, and a mask for the rows of the chunk.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from engine.model.network import Network
from engine.model.one_pass.chunk_masks import ChunkMasks
from engine.model.one_pass.chunked_calls import Around, Chunk, ChunkedCalls
from engine.model.passes.sight import Blocks
from engine.model.passes.tree_cache import TreeCache, TreeMasks
from engine.model.state.state_cache import Snapshot
from engine.model.state.state_layer import LayerState, StateLayer, TreePass
from engine.model.state.tree_paths import TreePaths


class PromptPass:
    """Over the tokens behind the first `begin`, which is where `cache` ends, in chunks that end `ends` behind that.

    Besides weights and cache it holds the hidden states of all rows twice, as the first layer is given them and as the
    layers hand them on to each other, and what a pass over one chunk holds.
    """

    def __init__(
        self,
        network: Network,
        cache: TreeCache,
        masks: TreeMasks,
        begin: int,
        ends: Sequence[int],
        between_chunks: Callable[[], None] = lambda: None,
        blocks: Blocks | None = None,
    ) -> None:
        """`between_chunks` runs before every further chunk of a layer, and may raise; `blocks` also see ahead."""
        self._network, self._cache = network, cache
        self._begin, self._between_chunks = begin, between_chunks
        self._masks = ChunkMasks(masks, cache, begin, ends[-1], network.device, blocks)
        self._calls = ChunkedCalls(ends, self._masks.of)
        self._roots = [(layer, layer.root) for layer in cache.states.layers]
        due = cache.states.due([begin + end for end in ends])
        self._remembered: dict[int, list[LayerState]] = {end: [] for end in due}
        single = TreePaths(torch.ones(1, 1, dtype=torch.bool)).to(network.device)
        self._single = TreePass(single, behind_prompt=True)

    @property
    def attention_mask(self) -> Any:
        """What the network is to be handed for its masks."""
        return self._masks.argument

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within it the network may be called, once, on all rows; commits what that leaves in layers with a state."""
        with ExitStack() as replaced:
            for layer in self._network.layers:
                replaced.enter_context(_replaced(layer, partial(self._run, self._around(layer))))
            for norm in _norms(self._network):
                replaced.enter_context(_replaced(norm, partial(self._run, _alone)))
            try:
                yield
            except BaseException:
                for layer, root in self._roots:
                    layer.move(root)
                raise
        kept = [Snapshot(length, tuple(states)) for length, states in self._remembered.items()]
        self._cache.states.moved(self._begin + self._calls.chunks[-1].end, kept)

    def _run(self, around: Around, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self._calls.call(forward, around, args, kwargs)

    def _around(self, layer: nn.Module) -> Around:
        states = _states_of(layer, self._cache)

        @contextmanager
        def around(chunk: Chunk) -> Iterator[None]:
            if chunk.number:
                self._between_chunks()  # before the first one, the layer's own hooks have run
            self._masks.enter(chunk)
            for state in states:
                state.begin(self._single if len(chunk) == 1 else None)
            yield
            for state in states:
                state.move(state.committed())
                if (seen := self._remembered.get(self._begin + chunk.end)) is not None:
                    seen.append(state.root.copied_to(torch.device("cpu")))

        return around


@contextmanager
def _alone(_chunk: Chunk) -> Iterator[None]:
    yield


@contextmanager
def _replaced(module: nn.Module, run: Callable[..., Any]) -> Iterator[None]:
    """While it is open, `run` stands for the module's `forward`, which it is handed first; hooks run around it."""
    own = module.__dict__.get("forward")
    module.forward = partial(run, module.forward)
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


def _norms(network: Network) -> Iterable[nn.Module]:
    """What stands behind the last layer, or before the first, and would compute with all rows in float32 at once."""
    decoder = network.model.get_decoder()
    return [module for module in decoder.children() if type(module).__name__.endswith("Norm")]


def _states_of(layer: nn.Module, cache: TreeCache) -> list[StateLayer]:
    """What the modules inside of a decoder layer keep their states in."""
    numbers = sorted(
        {number for module in layer.modules() if isinstance(number := getattr(module, "layer_idx", None), int)}
    )
    return [state for number in numbers if isinstance(state := cache.layers[number], StateLayer)]
