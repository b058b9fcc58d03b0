"""SpecExec's drafter (Svirschevski et al., NeurIPS 2024, arXiv 2406.02532): the K best prefixes, in batched passes."""

from collections.abc import Sequence

from torch import Tensor

from engine.options import SpeculationOptions
from engine.speculation.best_first import BestFirst
from engine.speculation.drafter import Scorer
from engine.speculation.tree import Tree


class SpecExec:
    """Expands up to `batch` frontier nodes per draft pass, `width` children each, for at most `depth` passes.

    The draft's cache is kept from round to round: whatever the accepted path needs is there already, but for its last
    node if that was never expanded. Draft logits are not scaled by the temperature, as published.
    """

    def __init__(self, draft: Scorer, options: SpeculationOptions, vocabulary: int) -> None:
        """`vocabulary`: the target's; a draft with a larger, padded one must not propose what the target lacks."""
        self._draft = draft
        self._options = options
        self._vocabulary = vocabulary
        self._pending_of: list[int] = []  # tree node -> the draft's pending node; -1: never expanded
        self._catching_up = 0  # pending nodes before the root: committed tokens the draft had not read yet

    def prefill(self, tokens: Sequence[int]) -> None:
        """Read the prompt, all but its last token."""
        self._draft.prefill(tokens)

    def grow(self, tokens: Sequence[int], budget: int, depth: int) -> Tree:
        """The `budget` most probable draft prefixes behind `tokens`, at most `depth` deep."""
        search = BestFirst(tokens[-1], budget, min(depth, self._options.depth), self._options.decay)
        pending: dict[int, int] = {-1: -1}
        appended = 0
        for _ in range(self._options.depth):
            frontier = search.frontier(self._options.batch)
            if not len(frontier):
                break
            logits, first = self._score(search, frontier, tokens, pending, appended)
            appended = first + len(frontier)
            pending.update(zip(frontier.tolist(), range(first, appended), strict=True))
            search.expand(frontier, *self._best_children(logits))
        kept = search.best()
        self._pending_of = [pending.get(node, -1) for node in kept.tolist()]
        return search.tree(kept)

    def keep(self, nodes: Sequence[int]) -> None:
        """Commit the accepted nodes that the draft has read; an unexpanded last one is caught up in the next round."""
        read = [self._pending_of[node] for node in nodes if self._pending_of[node] >= 0]
        if read:
            self._draft.keep([*range(self._catching_up), *read])

    def _score(
        self, search: BestFirst, frontier: Tensor, tokens: Sequence[int], pending: dict[int, int], appended: int
    ) -> tuple[Tensor, int]:
        """One draft pass over the frontier; returns its logits and the pending number of its first node."""
        if appended == 0:  # the first frontier is the root; with it goes what the draft has not read yet
            unread = list(tokens[self._draft.length :])
            self._catching_up = len(unread) - 1
            return self._draft.score(unread, range(-1, self._catching_up), last=1), self._catching_up
        parents = [pending[parent] for parent in search.parents_of(frontier)]
        return self._draft.score(search.tokens_of(frontier), parents), appended

    def _best_children(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = logits.log_softmax(-1)[:, : self._vocabulary]
        best = log_probs.topk(min(self._options.width, log_probs.shape[-1]))
        return best.values.cpu(), best.indices.cpu()
