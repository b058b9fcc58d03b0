"""Two drafts as one: a draft model and the target's own heads, whose distributions are averaged."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.speculation.interfaces import Scorer


class MergedDraft:
    """A `Scorer` whose distribution behind every node is the mean of two drafts' distributions.

    Verification takes it for what the proposals were drawn from, so the answer stays the target's whatever the drafts
    say. `second` may forget what it is told to keep (see `engine.model.heads.head_context.HeadContext`): then so does
    the whole, and `length` says what stayed.
    """

    def __init__(self, first: Scorer, second: Scorer, vocabulary: int) -> None:
        """`vocabulary`: the target's; either draft may lack some of its tokens, or have further ones."""
        self._first = first
        self._second = second
        self._vocabulary = vocabulary

    @property
    def length(self) -> int:
        """Committed tokens, of both."""
        return self._second.length

    def prefill(self, tokens: Sequence[int]) -> int:
        """Make the committed tokens of both equal `tokens`; returns how many both had already."""
        return min(self._first.prefill(tokens), self._second.prefill(tokens))

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """A pass of each; returns the logarithms of the mean of both distributions, [n or last, vocabulary]."""
        one, other = (self._log_probs(draft.score(tokens, parents, last)) for draft in (self._first, self._second))
        return torch.logaddexp(one, other.to(one.device)) - math.log(2)

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit as much of the path as the second keeps; both forget all other nodes."""
        before = self._second.length
        self._second.keep(nodes, rest)
        self._first.keep(nodes[: self._second.length - before])

    def _log_probs(self, logits: Tensor) -> Tensor:
        """float32 [n, vocabulary]; -inf where this draft computes no numbers, so that the other one proposes alone."""
        known = logits[:, : self._vocabulary].log_softmax(-1, dtype=torch.float32)
        known.nan_to_num_(nan=-torch.inf, neginf=-torch.inf)
        missing = self._vocabulary - known.shape[-1]
        return torch.nn.functional.pad(known, (0, missing), value=-torch.inf) if missing else known
