"""All layers of a network that keep a state: moved along together, with snapshots of the past to go back to."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from engine.model.state.state_layer import LayerState, StateLayer, TreePass
from engine.model.state.tree_paths import TreePaths

SNAPSHOTS = 16  # where no plan says how many
NEAREST = 256  # tokens between snapshots at least: less is read again in the time of a single pass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What every layer knew of the first `length` tokens, in host memory."""

    length: int
    layers: tuple[LayerState, ...]


@dataclass(frozen=True, slots=True)
class KeptStates:
    """A `StateCache` of a text that was set aside, in host memory: its root, and the snapshots on the way there."""

    root: Snapshot
    snapshots: tuple[Snapshot, ...]
    behind_prompt: bool

    @property
    def nbytes(self) -> int:
        """What all of it takes in memory."""
        return sum(layer.nbytes for each in (self.root, *self.snapshots) for layer in each.layers)

    def nearest(self, length: int) -> int:
        """As `StateCache.nearest`."""
        return max((each.length for each in (self.root, *self.snapshots) if each.length <= length), default=0)


class StateCache:
    """The state layers of one cache; `length` tokens are behind their roots, and pending nodes behind these.

    Without such layers every method does nothing, and any length can be gone back to. Snapshots are taken at the ends
    of turns, where `Context` asks for them, and as often on the way as `snapshots` are enough for a text of `capacity`
    tokens; then those go that have the nearest neighbours.
    """

    def __init__(self, layers: Sequence[StateLayer], capacity: int, snapshots: int = SNAPSHOTS) -> None:
        self.layers = list(layers)
        self.length = 0
        self._behind_prompt = True  # the last of a prompt's tokens is read as the first node of a tree
        self.every = max(NEAREST, capacity // snapshots) if snapshots else 0
        self.most = snapshots
        self._snapshots: list[Snapshot] = []  # by length

    @property
    def nbytes(self) -> int:
        """What all layers know of the text; as much again while a pass goes on."""
        return sum(layer.root.nbytes for layer in self.layers)

    @property
    def pending_nbytes(self) -> int:
        """What the pending nodes left."""
        return sum(layer.pending_nbytes for layer in self.layers)

    def begin(self, paths: TreePaths | None = None, in_prompt: bool = False) -> None:
        """Get ready for a pass over new nodes of a tree, or without `paths` over a chain of several tokens.

        A chain of one token is to be a tree of one node: for a single token behind a state, transformers' modules take
        ways of their own, which write into the state. `in_prompt`: the pass is over a text, not over what is drafted.
        """
        tree = None if paths is None else TreePass(paths, in_prompt or self._behind_prompt)
        for layer in self.layers:
            layer.begin(tree)

    @torch.inference_mode()
    def commit(self, rows: int) -> None:
        """After a chain of `rows` tokens: they are committed."""
        for layer in self.layers:
            layer.move(layer.committed())
        self._behind_prompt = True
        self._moved(rows)

    @torch.inference_mode()
    def keep(self, path: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit a path of pending nodes; of the others only `rest`, which are behind it, stay."""
        roots = [layer.behind(path) for layer in self.layers]  # if memory runs out here, nothing has changed
        for layer, root in zip(self.layers, roots, strict=True):
            layer.move(root, rest)
        self._behind_prompt = self._behind_prompt and not path
        self._moved(len(path))

    def truncate(self, length: int) -> None:
        """Forget the pending nodes that stand in cache slots from `length` on."""
        for layer in self.layers:
            layer.truncate(max(0, length - self.length))

    def nearest(self, length: int) -> int:
        """The most tokens, at most `length`, to which `rewind` can go back."""
        if not self.layers:
            return length
        return max((known for known in self._known() if known <= length), default=0)

    def rewind(self, length: int) -> int:
        """Forget all pending nodes, and all that came behind `nearest(length)` tokens; returns that."""
        found = self.nearest(length)
        if not self.layers:
            return found
        snapshot = next((snapshot for snapshot in self._snapshots if snapshot.length == found), None)
        for number, layer in enumerate(self.layers):
            if found == self.length:
                layer.move(layer.root)
            elif snapshot is None:
                layer.move(LayerState())
            else:
                state = layer.root.state if layer.root.state is not None else layer.root.tail
                assert state is not None, "there is something to go back from"
                layer.move(snapshot.layers[number].copied_to(state.device))
        self._behind_prompt = self._behind_prompt or found != self.length
        self.length = found
        self._snapshots = [snapshot for snapshot in self._snapshots if snapshot.length <= length]
        return found

    @property
    def text_nbytes(self) -> int:
        """What `copied` takes in memory."""
        return self.nbytes + sum(layer.nbytes for each in self._snapshots for layer in each.layers)

    def copied(self) -> KeptStates | None:
        """All that is known of the text, in host memory; None without such layers."""
        if not self.layers:
            return None
        return KeptStates(self._copied_root(), tuple(self._snapshots), self._behind_prompt)

    def restore(self, kept: KeptStates, length: int, device: torch.device) -> None:
        """Go on from the first `length` tokens of another text, which must be one of the lengths that were kept."""
        assert kept.nearest(length) == length, "states are known at some lengths alone"
        known = {each.length: each for each in (*kept.snapshots, kept.root)}
        for number, layer in enumerate(self.layers):
            layer.move(known[length].layers[number].copied_to(device) if length else LayerState())
        self._snapshots = [each for each in kept.snapshots if each.length <= length]
        self._behind_prompt = kept.behind_prompt or length != kept.root.length
        self.length = length

    def remember(self) -> None:
        """Take a snapshot here, unless there is one; the one between the nearest neighbours goes if they are many."""
        if not self.layers or not self.length or any(known.length == self.length for known in self._snapshots):
            return
        self._keep(self._copied_root())

    def due(self, lengths: Sequence[int]) -> list[int]:
        """At which of these lengths, ascending, a chain that is read through all of them leaves snapshots."""
        if not self.layers:
            return []
        last, found = self._snapshots[-1].length if self._snapshots else 0, []
        for length in lengths:
            if length - last >= self.every:
                found.append(length)
                last = length
        return found

    def moved(self, length: int, snapshots: Sequence[Snapshot]) -> None:
        """A chain was read up to here, every layer's root moved along; the snapshots are those that were due."""
        self._behind_prompt = True
        for snapshot in snapshots:
            self.length = snapshot.length
            self._keep(snapshot)
        self.length = length if self.layers else 0

    def _copied_root(self) -> Snapshot:
        host = torch.device("cpu")
        return Snapshot(self.length, tuple(layer.root.copied_to(host) for layer in self.layers))

    def _keep(self, snapshot: Snapshot) -> None:
        if len(self._snapshots) >= self.most:
            self._thin()
        self._snapshots.append(snapshot)

    def _known(self) -> list[int]:
        return [*(snapshot.length for snapshot in self._snapshots), self.length]

    def _moved(self, tokens: int) -> None:
        if not self.layers:
            return
        self.length += tokens
        if self.length - (self._snapshots[-1].length if self._snapshots else 0) >= self.every:
            self.remember()

    def _thin(self) -> None:
        lengths = [0, *self._known()]
        gaps = [after - before for before, after in zip(lengths, islice(lengths, 2, None), strict=False)]
        del self._snapshots[gaps.index(min(gaps))]
