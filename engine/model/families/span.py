"""How much of the past a decoder layer sees, in positions of the text."""

from dataclasses import dataclass

from torch import Tensor

from engine.model.families.state_families import CONVOLUTION, LINEAR, STATE_KINDS
from engine.model.shape import CHUNKED, FULL, INDEXED, SLIDING


@dataclass(frozen=True, slots=True)
class Span:
    """What queries see of the text before them: all of it, or with `tokens` a window or the chunk that they are in.

    `kind` is transformers' name, by which its networks take their masks. Layers that keep a state take none. Of indexed
    attention this is what an indexer chooses from, by keys of its own: it is handed the same mask.
    """

    kind: str = FULL
    tokens: int = 0

    def __post_init__(self) -> None:
        assert (self.kind in {FULL, INDEXED, *STATE_KINDS}) == (self.tokens == 0), "these are unbounded, the others not"

    @property
    def keeps_state(self) -> bool:
        """Whether the layer has a state, in place of keys and values or beside them."""
        return self.kind in STATE_KINDS

    @property
    def attends(self) -> bool:
        """Whether the layer has keys and values."""
        return self.kind not in {LINEAR, CONVOLUTION}

    @property
    def is_bounded(self) -> bool:
        """Whether a query may be too far behind a token to see it."""
        return self.tokens > 0

    def oldest(self, position: int) -> int:
        """The first position that a query at `position` sees."""
        if self.kind == SLIDING:
            return max(0, position - self.tokens + 1)
        return position - position % self.tokens if self.kind == CHUNKED else 0

    def reaches(self, queries: Tensor, keys: Tensor) -> Tensor:
        """bool [queries, keys]: whether each query position (int64) is near enough to each key position (int64)."""
        if self.kind == SLIDING:
            return queries[:, None] - keys[None, :] < self.tokens
        assert self.kind == CHUNKED, "full attention needs no such mask"
        return queries[:, None] // self.tokens == keys[None, :] // self.tokens
