"""Constrained answers: logits of what may not follow are masked, along every path of the tree."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.accelerator import sent
from engine.speculation.interfaces import PathState, Scorer

ROWS = 32  # masked at a time: bounds what a byte per logit takes at large vocabularies


def constrained(
    target: Scorer, draft: Scorer | None, first: PathState, begin: int, forgets: bool
) -> tuple[Scorer, Scorer | None]:
    """Both held to a constraint, from the state `first` before token number `begin`; `forgets`: the draft."""
    host = ConstrainedScorer(target, first, begin)
    return host, ConstrainedScorer(draft, first, begin, host, forgets=forgets) if draft else None


class ConstrainedScorer:
    """A `Scorer` whose logits are -inf for tokens that may not follow a node.

    So what is drawn has the target's distribution over the tokens that may follow, renormalised at every node of the
    path; that is also what verification, log-probabilities and verdicts are told of. A draft is masked likewise, and
    so proposes only what the target could say. A node that may not be where it is, as a lookup may propose one, has
    the row of its pass as it was: its own probability is 0.

    Masks are looked up behind the pass: a GPU is at work meanwhile. What the draft asked for is known by then.
    """

    def __init__(
        self,
        scorer: Scorer,
        first: PathState,
        begin: int,
        host: "ConstrainedScorer | None" = None,
        *,
        forgets: bool = False,
    ) -> None:
        """`first`: the state before the answer's first token, which is number `begin` of the text.

        `host`: that of the target, where this is the draft's: the target knows what has been committed, which a draft
        may read later, or not at all. `forgets`: `scorer` keeps no `rest`.
        """
        self._scorer = scorer
        self._first = first
        self._begin = begin
        self._host = host or self
        self._forgets = forgets
        self._said = [first]  # the target's: the states before the answer, and behind each token of it
        self._pending: list[tuple[int, PathState | None]] = []  # by node: tokens of its path; None inside the prompt

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._scorer.length

    def prefill(self, tokens: Sequence[int]) -> int:
        """Make the committed tokens equal `tokens`; returns how many were there already."""
        known = self._scorer.prefill(tokens)
        self._pending = []
        if self._host is self:
            self._said = [self._first]
            for token in tokens[self._begin :]:
                self._said.append(self._said[-1].follow(token))
        return known

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """Append nodes to the pending tree, run one pass, return logits [n or last, vocabulary], masked in place."""
        committed = self._scorer.length
        pending = [*self._pending]
        for token, parent in zip(tokens, parents, strict=True):
            read, above = pending[parent] if parent >= 0 else (committed, self._host.state_behind(committed))
            read += 1
            pending.append((read, self._first if read == self._begin else above.follow(token) if above else None))
        logits = self._scorer.score(tokens, parents, last)
        self._pending = pending
        self._mask(logits, [state for _, state in pending[-(last or len(tokens)) :]])
        return logits

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit a path of pending nodes and forget the others, but for `rest`, which are numbered anew from 0."""
        self._scorer.keep(nodes, rest)
        path = [self._pending[node] for node in nodes]
        self._pending = [] if self._forgets else [self._pending[node] for node in rest]
        if self._host is not self:
            return
        for read, state in path:
            if state is not None:
                self._said[read - self._begin :] = [state]
                state.settle()

    def state_behind(self, length: int) -> PathState | None:
        """That of the first so many tokens of the text; None inside the prompt."""
        return self._said[length - self._begin] if length >= self._begin else None

    @torch.inference_mode()
    def _mask(self, logits: Tensor, states: Sequence[PathState | None]) -> None:
        masks = {row: mask for row, state in enumerate(states) if state and (mask := state.allowed()) is not None}
        rows = list(masks)
        for begin in range(0, len(rows), ROWS):
            some = rows[begin : begin + ROWS]
            forbidden = forbidden_of([masks[row] for row in some], logits.shape[-1], logits.device)
            if some[-1] - some[0] == len(some) - 1:
                _mask_rows(logits[some[0] : some[-1] + 1], forbidden)
            else:
                at = sent(some, logits.device)
                logits.index_copy_(0, at, _mask_rows(logits.index_select(0, at), forbidden))


def _mask_rows(rows: Tensor, forbidden: Tensor) -> Tensor:
    """Mask logits [n, vocabulary] in place.

    A draft may know none of the allowed tokens, as one with another vocabulary: its row becomes uniform over them, or
    over all where they are beyond its vocabulary. Whatever a draft proposes, the target decides.
    """
    rows.masked_fill_(forbidden, -torch.inf)
    knows_none = rows.amax(-1, keepdim=True) == -torch.inf
    return rows.masked_fill_(knows_none & (~forbidden | forbidden.all(-1, keepdim=True)), 0.0)


def forbidden_of(masks: Sequence[bytes], vocabulary: int, device: torch.device) -> Tensor:
    """bool [n, vocabulary]: what these masks do not allow; padding of the vocabulary has no bits."""
    longest = max(map(len, masks))  # llguidance's have a word more than the vocabulary where that fills its last one
    padded = bytearray(b"".join(mask.ljust(longest, b"\0") for mask in masks))
    packed = torch.frombuffer(padded, dtype=torch.uint8).to(device, non_blocking=True)
    bit = torch.tensor([1 << place for place in range(8)], dtype=torch.uint8).to(device, non_blocking=True)
    forbidden = (packed.view(len(masks), -1, 1) & bit).eq_(0).view(len(masks), -1).bool()
    missing = vocabulary - forbidden.shape[-1]
    if missing > 0:
        return torch.nn.functional.pad(forbidden, (0, missing), value=True)
    return forbidden[:, :vocabulary]
