"""SpecExec's drafter (Svirschevski et al., NeurIPS 2024, arXiv 2406.02532): the K best prefixes, in batched passes."""

from collections.abc import Sequence

from torch import Tensor

from engine.options import SpeculationOptions
from engine.speculation.best_first import BestFirst
from engine.speculation.drafter import Scorer
from engine.speculation.tree import Path, Tree

REACH = 4  # idle work looks for so many times the budget: likely bonus tokens, and what follows them


class SpecExec:
    """Expands up to `batch` frontier nodes per draft pass, `width` children each, for at most `depth` passes a tree.

    The draft's cache is kept from round to round: whatever the accepted path needs is there already, but for its last
    node if that was never expanded. Draft logits are not scaled by the temperature, as published.

    Beyond the published method, `extend` lets the search go on while the target's weights are awaited; if the bonus
    token is among what it found, the next tree begins with the whole subtree there (compare ShadowSpec, 2026).
    """

    def __init__(self, draft: Scorer, options: SpeculationOptions, vocabulary: int) -> None:
        """`vocabulary`: the target's; a draft with a larger, padded one must not propose what the target lacks."""
        self._draft = draft
        self._options = options
        self._vocabulary = vocabulary
        self._search: BestFirst | None = None  # the tree's, or what is left of it below the bonus token
        self._pending: dict[int, int] = {}  # expanded node of the search -> the draft's pending node
        self._appended = 0  # pending nodes of the draft
        self._unread = 0  # of these, committed tokens before the root that the draft had not read
        self._kept: list[int] = []  # node of the tree -> node of the search
        self._budget = self._depth = 0
        self._is_extended = False

    def prefill(self, tokens: Sequence[int]) -> None:
        """Read the prompt, all but its last token."""
        self._search = None
        self._draft.prefill(tokens)

    def grow(self, tokens: Sequence[int], budget: int, depth: int) -> Tree:
        """The `budget` most probable draft prefixes behind `tokens`, at most `depth` deep."""
        self._budget, self._depth, self._is_extended = budget, min(depth, self._options.depth), False
        search = self._search
        if search is None:
            search = self._search = BestFirst(tokens[-1], self._options.decay)
            self._pending, self._appended, self._unread = {}, 0, 0
        for _ in range(self._options.depth):
            frontier = search.frontier(self._options.batch, budget, self._depth)
            if not len(frontier):
                break
            self._expand(search, frontier, budget, tokens)
        kept = search.best(budget, self._depth)
        self._kept = kept.tolist()
        return search.tree(kept)

    def extend(self) -> bool:
        """One more draft pass, over the best nodes beyond the budget; False if there are none."""
        search = self._search
        if search is None or not self._pending:
            return False
        if not self._is_extended:
            search.reconsider()
            self._is_extended = True
        reach = REACH * self._budget
        frontier = search.frontier(self._options.batch, reach, self._depth)
        if not len(frontier):
            return False
        self._expand(search, frontier, reach, [])
        return True

    def keep(self, path: Path) -> None:
        """Commit the accepted nodes that the draft has read; an unexpanded last one is caught up in the next round."""
        search, nodes = self._search, [self._kept[node] for node in path.nodes]
        read = [self._pending[node] for node in nodes if node in self._pending]
        committed = [*range(self._unread), *read] if read else []
        bonus = search.child(nodes[-1], path.bonus) if search is not None else None
        if search is None or bonus is None:
            self._search = None
            self._draft.keep(committed)
            return
        stay = search.reroot(bonus).tolist()
        below = {new: self._pending[old] for new, old in enumerate(stay) if old in self._pending}
        rest = sorted(below.values())
        number = {old: new for new, old in enumerate(rest)}
        self._draft.keep(committed, rest)
        self._pending = {node: number[old] for node, old in below.items()}
        self._appended, self._unread = len(rest), 0

    def _expand(self, search: BestFirst, frontier: Tensor, budget: int, tokens: Sequence[int]) -> None:
        """One draft pass over the frontier, and its children into the search."""
        if not self._pending:  # the first frontier is the root; with it goes what the draft has not read yet
            unread = list(tokens[self._draft.length :])
            self._unread = self._appended = len(unread) - 1
            logits = self._draft.score(unread, range(-1, self._unread), last=1)
        else:
            parents = [self._pending[parent] for parent in search.parents_of(frontier)]
            logits = self._draft.score(search.tokens_of(frontier), parents)
        self._pending.update(zip(frontier.tolist(), range(self._appended, self._appended + len(frontier)), strict=True))
        self._appended += len(frontier)
        log_probs = logits.log_softmax(-1)[:, : self._vocabulary]
        best = log_probs.topk(min(self._options.width, log_probs.shape[-1]))
        search.expand(frontier, best.values.cpu(), best.indices.cpu(), budget)
