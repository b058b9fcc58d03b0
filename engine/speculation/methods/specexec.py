"""SpecExec (Svirschevski et al., NeurIPS 2024, arXiv 2406.02532): the K best prefixes, in batched passes."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engine.own_thread import threads_for
from engine.protocol.options import SpeculationOptions
from engine.speculation.interfaces import NullObserver, Observer, Sampling, Scorer, TreeBounds
from engine.speculation.methods.acceptance_rates import AcceptanceCounts, Calibration
from engine.speculation.methods.verification import accept
from engine.speculation.trees.arrays import Integers, Numbers
from engine.speculation.trees.best_first import BestFirst
from engine.speculation.trees.tree import Path, Tree

REACH = 4  # times the budget: nodes that idle drafting searches for, as the bonus token may be among them

ROWS = 32  # of a pass that become log-probabilities at a time: bounds what float32 takes at large vocabularies


@dataclass(frozen=True, slots=True)
class Read:
    """A node of the search that the draft has read: its pending number there, and a row of a draft pass.

    `log_probs`, `tokens`: [rows, width], the most probable tokens behind every node of the pass.
    """

    number: int
    row: int
    log_probs: Numbers
    tokens: Integers

    @property
    def proposes(self) -> bool:
        """Whether anything may follow, as far as the draft can tell."""
        return bool(self.log_probs[self.row, 0] > -np.inf)


Likeliest = Callable[[Tensor, int, int], tuple[Numbers, Integers] | None]
"""(logits [rows, any], vocabulary, width): logarithms and tokens [rows, width]; None where that is left to torch."""


class SpecExec:
    """Expands up to `batch` frontier nodes per draft pass, `width` children each, for at most `depth` passes a tree.

    The draft's cache is kept from round to round: whatever the accepted path needs is there already, but for its last
    node if that was never expanded. Draft logits are not scaled by the temperature, as published.

    Beyond the published method, a `Calibration` may rank the nodes: it learns from every round how often a token of
    such a probability is accepted. And `keep_drafting` continues the search while the target's weights are awaited; if
    it found the bonus token, the next tree begins with the whole subtree there (compare ShadowSpec, 2026).
    """

    name = "specexec"

    def __init__(
        self,
        draft: Scorer,
        sampling: Sampling,
        options: SpeculationOptions,
        vocabulary: int,
        calibration: Calibration | None = None,
        observer: Observer | None = None,
        ranks: AcceptanceCounts | None = None,
        likeliest: Likeliest = lambda *_: None,
        end_tokens: Set[int] = frozenset(),
    ) -> None:
        """`vocabulary`: the target's; a draft with a larger, padded one must not propose what the target lacks.

        Without `calibration` the draft's own probability ranks the nodes, as published. `observer` sees them come.
        `ranks` counts which of the draft's likeliest tokens the target said, for other methods. `likeliest` finds these
        faster than torch does, where it can. `end_tokens` end the answer: nothing is guessed behind them.
        """
        self._end_tokens = end_tokens
        self._likeliest = likeliest
        self._ranks = ranks
        self._draft = draft
        self._sampling = sampling
        self._options = options
        self._vocabulary = vocabulary
        self._calibration = calibration
        self._observer = observer or NullObserver()
        self._search: BestFirst | None = None  # the tree's, or what is left of it below the bonus token
        self._pending: dict[int, Read] = {}  # expanded nodes of the search
        self._appended = 0  # pending nodes of the draft
        self._unread = 0  # of these, committed tokens before the root that the draft had not read
        self._kept: list[int] = []  # node of the tree -> node of the search
        self._reach = self._depth = 0
        self._is_extended = False

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`; whatever was searched before is forgotten."""
        self._search = None
        self._draft.prefill(tokens)

    def grow(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        """The most probable draft prefixes behind `tokens`, as many as the bounds allow and find worth a row."""
        depth = self._depth = min(bounds.depth, self._options.depth)  # a draft pass per level
        self._is_extended = False
        self._reach = REACH * max(bounds.budget, 1)
        search = self._search_from(tokens)
        probabilities = partial(search.probabilities, depth)
        size = bounds.size_so_far(probabilities)
        for _ in range(self._options.depth):
            frontier = search.frontier(self._options.batch, max(size, 1), depth)
            is_first = len(search) == 1  # a tree was chosen, so the first level is drafted
            if not len(frontier):
                break
            if not is_first and not bounds.is_worth_reading(partial(search.probabilities_of, frontier)):
                break
            self._expand(search, frontier, bounds.budget, tokens)
            size = bounds.size_so_far(probabilities)
            self._tell(search, size)
        kept = _worthwhile(search, bounds, depth)
        self._kept = kept.tolist()
        tree = search.tree(kept)
        return replace(tree, left_out=search.left_out(kept, depth)) if bounds.price else tree

    def keep_drafting(self) -> bool:
        """One more draft pass, over the best nodes beyond the budget; False if there are none."""
        search = self._search
        if search is None or not self._pending:
            return False
        if not self._is_extended:
            search.reconsider()
            self._is_extended = True
        frontier = search.frontier(self._options.batch, self._reach, self._depth)
        if not len(frontier):
            return False
        self._expand(search, frontier, self._reach, [])
        self._tell(search, self._reach)
        return True

    def accept(self, tree: Tree, logits: Tensor, answer: Sequence[int]) -> Path:
        """Follow what the target draws for itself, as far as the tree has it."""
        return accept(tree, logits, self._sampling, answer)

    def keep(self, path: Path) -> None:
        """Commit the accepted nodes that the draft has read; an unexpanded last one is caught up in the next round."""
        self._go_on([self._kept[node] for node in path.nodes], path.bonus)

    def _search_from(self, tokens: Sequence[int]) -> BestFirst:
        """The search whose root is the last token: what is left of the one before, or a new one."""
        while self._search is not None and (root := self._draft.length + self._unread) < len(tokens) - 1:
            self._go_on([0], tokens[root + 1])  # the text went farther than the tree of this method
        if self._search is None:
            self._search = BestFirst(tokens[-1], self._options.decay, self._end_tokens)
            self._pending, self._appended, self._unread = {}, 0, 0
        return self._search

    def _go_on(self, nodes: Sequence[int], token: int) -> None:
        """Commit these nodes of the search, root first, as far as they are read; what is below `token` stays known."""
        search = self._search
        read = [self._pending[node].number for node in nodes if node in self._pending]
        if search is not None:
            self._learn(nodes, [*search.tokens_of(nodes[1:]), token])
        committed = [*range(self._unread), *read] if read else []
        bonus = search.child(nodes[-1], token) if search is not None else None
        if search is None or bonus is None:
            self._search = None
            self._draft.keep(committed)
            return
        stay = search.reroot(bonus).tolist()
        below = {new: self._pending[old] for new, old in enumerate(stay) if old in self._pending}
        rest = sorted(read.number for read in below.values())
        number = {old: new for new, old in enumerate(rest)}
        self._draft.keep(committed, rest)
        self._pending = {node: replace(read, number=number[read.number]) for node, read in below.items()}
        self._appended, self._unread = len(rest), 0

    def _expand(self, search: BestFirst, frontier: Integers, budget: int, tokens: Sequence[int]) -> None:
        """One draft pass over the frontier, and its children into the search."""
        if not self._pending:  # the first frontier is the root; with it goes what the draft has not read yet
            unread = list(tokens[self._draft.length :])
            self._unread = self._appended = len(unread) - 1
            logits = self._draft.score(unread, range(-1, self._unread), last=1)
        else:
            parents = [self._pending[parent].number for parent in search.parents_of(frontier)]
            logits = self._draft.score(search.tokens_of(frontier), parents)
        log_probs, candidates = self._probable(logits)
        for row, node in enumerate(frontier.tolist()):
            self._pending[node] = Read(self._appended + row, row, log_probs, candidates)
        self._appended += len(frontier)
        scores = self._calibration.log_acceptance(log_probs) if self._calibration else None
        search.expand(frontier, log_probs, candidates, budget, scores)

    def _probable(self, logits: Tensor) -> tuple[Numbers, Integers]:
        """The most probable tokens behind every node and their log-probabilities, [rows, width]; read at once.

        -inf throughout behind a node where the draft computes no numbers, as where its logits overflow.
        """
        width = min(self._options.width, self._vocabulary, logits.shape[-1])
        if (quickly := self._likeliest(logits, self._vocabulary, width)) is not None:
            return quickly[0].astype(np.float64), quickly[1]
        with threads_for(logits.numel()):
            tops = [
                rows.log_softmax(-1, dtype=torch.float32)[:, : self._vocabulary].topk(width)
                for rows in torch.split(logits, ROWS)
            ]
        values, indices = (torch.cat([top[part] for top in tops]).double() for part in (0, 1))
        # Double precision holds tokens, too.
        log_probs, candidates = torch.stack([values, indices]).cpu().numpy()
        log_probs[np.isnan(log_probs)] = -np.inf
        return log_probs, candidates.astype(np.int64)

    def _tell(self, search: BestFirst, size: int) -> None:
        self._observer.grown(lambda: search.tree(search.best(size, self._depth)))

    def _learn(self, nodes: Sequence[int], followers: Sequence[int]) -> None:
        """Of what the draft proposed behind every accepted node: which did the target say?"""
        reads = [
            (read, token)
            for node, token in zip(nodes, followers, strict=True)
            if (read := self._pending.get(node)) and read.proposes
        ]
        if not reads or not (self._calibration or self._ranks):
            return
        listed = np.stack([read.tokens[read.row] for read, _ in reads])
        found = (listed == np.array([[token] for _, token in reads])).nonzero()
        taken = dict(zip(*(numbers.tolist() for numbers in found), strict=True))
        ranks = [taken.get(row) for row in range(len(reads))]
        if self._ranks:
            self._ranks.observe_ranks(ranks, listed.shape[1])
        if self._calibration:
            self._calibration.observe(np.stack([read.log_probs[read.row] for read, _ in reads]), ranks)


def _worthwhile(search: BestFirst, bounds: TreeBounds, depth: int) -> Integers:
    """The nodes of the finished tree: those worth their own prices, else the most probable ones."""
    chosen = bounds.worthwhile(lambda: search.tree(search.best(bounds.budget, depth)))
    if chosen is None:
        return search.best(bounds.size(partial(search.probabilities, depth)), depth)
    return search.best(bounds.budget, depth)[[0, *chosen]]


class BorrowingSpecExec(SpecExec):
    """The draft reads what the target computed, so every tree begins at its root: what it guessed before is forgotten.

    Either it shares the target's keys and values (compare SubSpec, 2025), or it is a head that reads hidden states, and
    does so again for what was accepted. Meanwhile the target's pass is under way, and there is nothing to read yet.
    """

    def keep_drafting(self) -> bool:
        """What would be found now could not be gone on with."""
        return False

    def keep(self, path: Path) -> None:
        """Learn from the path; its nodes, and what was known below them, are forgotten."""
        super().keep(path)
        self._search = None
