"""Passes of a small network as recorded graphs of fixed shape: a draft's levels cost what they compute, not launches.

A pass over a few rows launches a dozen kernels in every layer, each of which takes the host longer than the GPU. A CUDA
graph launches all of them at once, but for shapes and addresses that never change. So rows are padded to a power of two
and cache slots to a multiple of `SLOTS`; tokens, positions, slots and masks are written into buffers that stay where
they are. A padding row repeats the last real one: it writes the same numbers into the same slot once more.

What a graph gives at first is compared with plain passes, also of another text than it was recorded with. Where
recording fails, or numbers differ, passes stay plain for good. A draft's errors cost speed alone: its target verifies
whatever it guesses.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from engine import accelerator
from engine.model.network import Network
from engine.model.passes.sight import Sight, Span
from engine.model.passes.tree_cache import FixedSlots, TreeCache, TreeMasks

MOST_ROWS = 128  # of a pass; the rows of one fill a GPU by themselves
SLOTS = 512  # a graph attends to a multiple of so many slots, and the text grows by as many before others are recorded
SIZES = 3  # numbers of slots that graphs are kept of: chats take turns, and so do parts of a text that is replayed
WARM_UPS = 2  # plain passes of a shape before it is recorded: libraries choose kernels and take workspaces meanwhile
CHECKS = 2  # replays of a shape that are compared, the first one with what was recorded
TOLERANCE = {torch.float32: 1e-3}  # of the logits' deviation
TOLERANCE_16_BITS = 0.1  # the same for 16 bits; a wrong mask or slot moves logits by whole deviations
_log = logging.getLogger(__name__)

Run = Callable[[Tensor, Tensor, Any], Tensor]
"""(tokens int64 [1, n], positions int64 [n], mask argument) to logits [n, vocabulary]; waits for nothing."""


class GraphBackend(Protocol):
    """Records work on a device; tests put a stand-in here."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """What does once more, on the same memory, what `work` does now. Raises `RuntimeError` where that cannot be."""


class CudaGraphs:
    """Of a device that has graphs. All graphs share one pool of memory: of no two are results needed at once.

    The graph that was recorded last is kept, used or not: a pool that no graph uses is gone, and nothing can be
    recorded in it any more.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = accelerator.make_stream(device)
        self._last: Any = None

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """See `GraphBackend.record`; other threads may go on meanwhile. Not `torch.cuda.graph`, which waits for all."""
        graph = accelerator.make_graph(self._device)
        with accelerator.on_stream(self._stream):
            pool = self._last.pool() if self._last else None
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                work()
            finally:
                graph.capture_end()
        self._last = graph
        replay: Callable[[], None] = graph.replay
        return replay


def why_not(network: Network) -> str:
    """Why passes of a network cannot be recorded; empty where they can."""
    if network.rope is not None:
        return "its rotary embedding depends on the text's length"
    if any(span.keeps_state or span.is_indexed or span.is_compressed for span in network.spans):
        return "it has layers that keep a state or choose tokens"
    if any(hasattr(module, "experts") for module in network.model.modules()):
        return "what runs depends on the experts that are chosen"
    return ""


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows and cache slots of one graph, padding included."""

    rows: int
    slots: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """The graphs of one number of slots, and how often each was asked for, by their rows; `masks` they read, flat."""

    masks: dict[Span, Tensor]
    replays: dict[int, Callable[[], None]] = field(default_factory=dict)
    seen: Counter[int] = field(default_factory=Counter)


class GraphedPasses:
    """The passes of one context, as graphs where they are small and have been seen before."""

    def __init__(self, network: Network, cache: TreeCache, masks: TreeMasks, backend: GraphBackend, run: Run) -> None:
        self._network, self._cache, self._masks, self._run = network, cache, masks, run
        self._backend: GraphBackend | None = backend
        self._recorded: dict[int, Recorded] = {}  # by slots, the size that was used last at the end
        self._memory: list[Tensor] = []  # of the cache, which graphs write into
        self._inputs = torch.zeros(3, MOST_ROWS, dtype=torch.int64, device=network.device)  # tokens, positions, slots
        self._logits: Tensor | None = None
        self._type = torch.float32
        if reason := why_not(network):
            self._give_up(reason)

    @property
    def is_plain(self) -> bool:
        """Whether nothing will be recorded any more."""
        return self._backend is None

    def score(self, tokens: Sequence[int], sight: Sight, last: int, plain: Callable[[], Tensor]) -> Tensor:
        """Logits of a pass, [last or n, vocabulary]; `plain` computes them without a graph, and says their type.

        `tokens`: ids that the network knows. Raises what `plain` raises.
        """
        shape = self._shape(sight)
        if shape is None:
            return plain()
        seen = self._recorded[shape.slots].seen
        seen[shape.rows] += 1
        if seen[shape.rows] <= WARM_UPS:
            return plain()
        if seen[shape.rows] <= WARM_UPS + CHECKS:
            return self._checked(shape, tokens, sight, plain)
        self._replay(shape, tokens, sight)
        for layer in self._cache.attention:
            layer.length = sight.slots
        logits = self._result(sight.rows)
        accelerator.wait_for_current_stream(self._network.device)
        return logits[sight.rows - last if last else 0 :]

    def _shape(self, sight: Sight) -> Shape | None:
        """None for a pass that is not for a graph: too large, with rows of its own kind, or at the cache's end."""
        if self._backend is None or sight.hides_first or sight.rows > MOST_ROWS:
            return None
        memory = [layer.keys for layer in self._cache.attention if layer.is_initialized]
        if not memory or len(memory) < len(self._cache.attention):
            return None
        if [*map(id, memory)] != [*map(id, self._memory)]:
            self._begin(memory)
        slots = self._size_for(sight.slots)
        return Shape(1 << (sight.rows - 1).bit_length(), slots) if sight.slots <= slots else None

    def _begin(self, memory: list[Tensor]) -> None:
        """Record for other memory than before."""
        self._recorded.clear()
        self._memory = memory
        for layer in self._cache.attention:
            for stored in layer.stored:
                stored[:, :, layer.length :] = 0  # what is masked is multiplied by 0: it must not be NaN

    def _size_for(self, slots: int) -> int:
        """The slots of the graphs for a pass that sees so many; of more than `SIZES` sizes the oldest is forgotten."""
        # A tree's first levels need fewer than its last.
        fitting = (size for size in reversed(self._recorded) if slots <= size < slots + 2 * SLOTS)
        size = next(fitting, min(-(-slots // SLOTS) * SLOTS, self._cache.attention[0].capacity))
        known = self._recorded.pop(size) if size in self._recorded else Recorded(self._new_masks(size))
        self._recorded[size] = known
        if len(self._recorded) > SIZES:
            del self._recorded[next(iter(self._recorded))]
        return size

    def _new_masks(self, slots: int) -> dict[Span, Tensor]:
        """Of every span that attends, for the most rows."""
        spans = [span for span in self._masks.spans if span.attends]
        like = self._masks.form(torch.ones(1, 1, 1, 1, dtype=torch.bool, device=self._network.device))
        return {span: like.new_zeros(MOST_ROWS * slots) for span in spans}

    def _checked(self, shape: Shape, tokens: Sequence[int], sight: Sight, plain: Callable[[], Tensor]) -> Tensor:
        """Compare a graph, which is recorded if it is not there, with what a plain pass gives; returns the latter.

        Both write the same slots.
        """
        found: Tensor | None = None
        try:
            self._replay(shape, tokens, sight)
            found = self._result(sight.rows)
        except RuntimeError as error:  # memory that runs out among them: plain passes need less
            self._give_up(str(error).partition("\n")[0])
        expected = plain()
        self._type = expected.dtype
        if found is not None:
            self._compare(found[sight.rows - len(expected) :], expected)
        return expected

    def _replay(self, shape: Shape, tokens: Sequence[int], sight: Sight) -> None:
        """Run a pass from the buffers; the cache is not moved on."""
        self._fill(shape, tokens, sight)
        replays = self._recorded[shape.slots].replays
        if shape.rows not in replays:
            assert self._backend is not None
            if self._logits is None:
                width = self._compute(shape).shape[-1]
                self._logits = torch.empty(MOST_ROWS, width, dtype=self._network.dtype, device=self._network.device)
            self._work(shape)  # once without a graph: its kernels are others than a plain pass's, and so are workspaces
            replays[shape.rows] = self._backend.record(lambda: self._work(shape))
        replays[shape.rows]()

    def _fill(self, shape: Shape, tokens: Sequence[int], sight: Sight) -> None:
        """Write a pass into the buffers, its last row once more for every padding row."""
        padding = shape.rows - sight.rows
        positions, slots = sight.query_positions.tolist(), range(sight.slots - sight.rows, sight.slots)
        rows = [[*each, *[each[-1]] * padding] for each in (tokens, positions, slots)]
        self._inputs[:, : shape.rows].copy_(torch.tensor(rows), non_blocking=True)
        there = sight.on(self._network.device)
        for span in self._recorded[shape.slots].masks:
            mask = there.mask(0)
            if span.is_bounded:
                mask &= span.reaches(there.query_positions, there.slot_positions(0))
            padded = mask.new_zeros((shape.rows, shape.slots))
            padded[: sight.rows, : sight.slots] = mask
            padded[sight.rows :, : sight.slots] = mask[-1]
            self._mask(span, shape).copy_(self._masks.form(padded[None, None]))

    def _mask(self, span: Span, shape: Shape) -> Tensor:
        masks = self._recorded[shape.slots].masks
        return masks[span][: shape.rows * shape.slots].view(1, 1, shape.rows, shape.slots)

    def _work(self, shape: Shape) -> None:
        assert self._logits is not None
        self._logits[: shape.rows].copy_(self._compute(shape))

    def _compute(self, shape: Shape) -> Tensor:
        tokens, positions, slots = self._inputs[:, : shape.rows]
        spans = self._recorded[shape.slots].masks
        masks = self._masks.argument({span: self._mask(span, shape) for span in spans}, self._cache)
        for layer in self._cache.attention:
            layer.fixed = FixedSlots(slots, shape.slots)
        try:
            return self._run(tokens[None], positions, masks)
        finally:
            for layer in self._cache.attention:
                layer.fixed = None

    def _result(self, rows: int) -> Tensor:
        assert self._logits is not None
        return self._logits[:rows].to(self._type, copy=True)  # the next pass writes over it

    def _compare(self, found: Tensor, expected: Tensor) -> None:
        tolerance = TOLERANCE.get(self._network.dtype, TOLERANCE_16_BITS)
        difference = float((found.float() - expected.float()).abs().max())
        if not difference <= tolerance * float(expected.float().std()):
            self._give_up(f"it gives other numbers, by {difference:.3g}")

    def _give_up(self, reason: str) -> None:
        self._backend = None
        self._recorded.clear()
        self._logits = None
        _log.warning("Passes of the draft are not recorded as graphs: %s", reason)
