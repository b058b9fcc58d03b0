"""A draft that knows nothing of pictures, beside a target that reads them."""

from collections.abc import Sequence

from torch import Tensor

from engine.picture_tokens import without_rows
from engine.speculation.interfaces import Scorer


class TextDraft:
    """A `Scorer` that has a draft read the text alone: rows of pictures are left out, as if they were not there."""

    def __init__(self, draft: Scorer) -> None:
        self._draft = draft
        self.length = 0  # committed tokens, also those that are not read

    def prefill(self, tokens: Sequence[int]) -> int:
        """Make the committed tokens equal `tokens`; returns how many of those that are read were there already."""
        self.length = len(tokens)
        return self._draft.prefill(without_rows(tokens))

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """Append nodes, run one pass; returns logits [n or last, vocabulary]."""
        return self._draft.score(tokens, parents, last)

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit a path of pending nodes and forget the others, but for `rest`, which are numbered anew from 0."""
        self._draft.keep(nodes, rest)
        self.length += len(nodes)
