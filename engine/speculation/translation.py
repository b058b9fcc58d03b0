"""A draft with another vocabulary than its target: it reads and proposes the target's tokens by way of common ones."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from engine.accelerator import sent
from engine.speculation.interfaces import Scorer


@dataclass(frozen=True, slots=True, eq=False)
class Translation:
    """The target's tokens in the draft's.

    `spell`: a token of the target as one or more of the draft's; `opening`: the draft's tokens before every text.
    `sources`: int64 [target vocabulary], the draft's id of a common token; `absent`: bool, of those that are none.
    """

    spell: Callable[[int], Sequence[int]]
    opening: tuple[int, ...]
    sources: Tensor
    absent: Tensor

    def logits(self, draft: Tensor) -> Tensor:
        """The draft's, [n, its vocabulary], as [n, target vocabulary]; -inf for what it cannot say.

        Normalised they are the draft's distribution over common tokens, as verification expects it: the target's own
        distribution comes out whatever the proposals are drawn from.
        """
        return draft.index_select(-1, self.sources).masked_fill_(self.absent, -torch.inf)


def translation_of(
    common: Mapping[int, int],
    spell: Callable[[int], Sequence[int]],
    opening: Sequence[int],
    target_vocabulary: int,
    draft_vocabulary: int,
    device: torch.device,
) -> Translation:
    """The `Translation` for `common`, the target's ids with the draft's.

    Tokens that have no row in a model's head are left out. `device`: where the draft's logits are.
    """
    known = {token: own for token, own in common.items() if token < target_vocabulary and own < draft_vocabulary}
    sources = torch.zeros(target_vocabulary, dtype=torch.int64)
    absent = torch.ones(target_vocabulary, dtype=torch.bool)
    ids = torch.tensor(list(known), dtype=torch.int64)
    sources[ids], absent[ids] = torch.tensor(list(known.values()), dtype=torch.int64), False
    return Translation(spell, tuple(opening), sources.to(device), absent.to(device))


class TranslatedDraft:
    """A `Scorer` of the target's tokens, over one of the draft's.

    Every token of the target is one or more of the draft's, each below the one before, and the last of them stands for
    it: so a tree stays a tree, and what is kept of it stays read.
    """

    def __init__(self, draft: Scorer, translation: Translation) -> None:
        """`draft`: scores its own tokens; nothing else may use it between `prefill` and the last `keep`."""
        self._draft = draft
        self._translation = translation
        self.length = 0  # committed tokens, the target's
        self._pending: list[range] = []  # of every pending node the draft's pending nodes

    def prefill(self, tokens: Sequence[int]) -> int:
        """Make the committed tokens equal `tokens`; returns how many were there already."""
        spelled = [tuple(self._translation.spell(token)) for token in tokens]
        opening = self._translation.opening
        if spelled and spelled[0][: len(opening)] != opening:
            spelled[0] = (*opening, *spelled[0])
        known = self._draft.prefill([own for each in spelled for own in each])
        self.length, self._pending = len(tokens), []
        return bisect_right(list(accumulate(map(len, spelled))), known)

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """Append nodes, run one pass of the draft; returns logits [n or last, target vocabulary]."""
        spelled = [self._translation.spell(token) for token in tokens]
        nodes = [*self._pending, *_ranges(map(len, spelled), self._pending[-1].stop if self._pending else 0)]
        above: list[int] = []
        for node, parent in zip(nodes[len(self._pending) :], parents, strict=True):
            above += [nodes[parent][-1] if parent >= 0 else -1, *node[:-1]]
        ends = [node[-1] for node in nodes[-(last or len(tokens)) :]]
        logits = self._draft.score([own for each in spelled for own in each], above, nodes[-1].stop - ends[0])
        self._pending = nodes
        if len(ends) < len(logits):
            logits = logits.index_select(0, sent([end - ends[0] for end in ends], logits.device))
        return self._translation.logits(logits)

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit a path of pending nodes and forget the others, but for `rest`, which are numbered anew from 0."""
        pending = self._pending
        self._draft.keep(*([own for node in some for own in pending[node]] for some in (nodes, rest)))
        self.length += len(nodes)
        self._pending = _ranges((len(pending[node]) for node in rest), 0)


def _ranges(sizes: Iterable[int], begin: int) -> list[range]:
    """Ranges of these sizes, one behind the other."""
    ranges: list[range] = []
    for size in sizes:
        ranges.append(range(begin, begin + size))
        begin += size
    return ranges
