"""Foretells which experts a token will touch, from its id, from the text before it and from what is usual."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from engine.speculation.experts.routed_sets import RoutedSets, Shares

MOST_BYTES = 8 << 20  # of the table of tokens
MOST_TOKENS = 4096  # in that table, however small a mixture is
MOST_ROWS = 64  # of a pass that are learnt from; such passes touch nearly all experts
NEWEST = 0.2  # how much a token's newest choice counts, once it was seen so often that its mean would count it less
MEMORY = 500.0  # rows after which a frequency is forgotten to a third
SETTLING = 100.0  # the same for the weights of sources, of which there are few to learn
UNIFORM, USUAL, TEXT, TOKEN = range(4)  # the sources
BEGINNING = (0.25, 0.25, 0.25, 0.25)


class RoutingPredictor:
    """Four sources say how likely a router is to choose each expert, and a mixture of them is the prediction.

    All experts alike; how often each was chosen lately; those that the last accepted token touched; and those that
    the same token id touched before, which early layers choose by. Each layer has weights of its own, which follow
    what every source gave to the experts that were chosen (online EM), once for tokens that the table knows and once
    for others. So a source that tells nothing has no say, and where none does the prediction is the uniform one.
    """

    def __init__(self, layers: int, count: int, chosen: int) -> None:
        """For so many layers that are looked at, each with `count` experts, of which a token takes `chosen`."""
        self.shape = layers, count, chosen
        self._capacity = max(1, min(MOST_TOKENS, MOST_BYTES // (4 * layers * count)))
        self._places: OrderedDict[int, int] = OrderedDict()  # token -> place in the table, the latest used last
        self._table: Shares = np.zeros((0, layers, count), dtype=np.float32)
        self._seen = np.zeros(self._capacity)
        self._usual: Shares = np.full((layers, count), chosen / count, dtype=np.float32)
        self._text: Shares = self._usual
        self._weights: Shares = np.empty((2, layers, len(BEGINNING)), dtype=np.float32)
        self._weights[:] = BEGINNING
        self._weights[0] = self._without_token(self._weights[0])

    @property
    def nbytes(self) -> int:
        """What the table of tokens takes."""
        return self._table.nbytes

    def __len__(self) -> int:
        return len(self._places)

    def expected(self, tokens: Sequence[int]) -> Shares:
        """float32 [len(tokens), layers, count]: how likely each token of the next pass is to touch each expert."""
        return self._mixed(tokens)[0].clip(0.0, 1.0)

    def learn(self, tokens: Sequence[int], routed: RoutedSets, last: int) -> None:
        """A pass over these tokens chose so; `last`: the row of the last one that was accepted."""
        sets = routed.sets(MOST_ROWS)
        tokens = tokens[: len(sets)]
        self._weigh(tokens, sets)
        rate = np.float32(1.0 - np.exp(-len(sets) / MEMORY))
        self._usual = self._usual + rate * (sets.mean(0) - self._usual)
        for token, chosen in zip(tokens, sets, strict=True):
            self._remember(token, chosen)
        if last < len(sets):
            self._text = sets[last].copy()

    def _mixed(self, tokens: Sequence[int]) -> tuple[Shares, Shares, list[int]]:
        """The prediction, what each source says ([n, layers, sources, count]), and which of the weights are used."""
        layers, count, chosen = self.shape
        places = [self._places.get(token) for token in tokens]
        known = [int(place is not None) for place in places]
        sources: Shares = np.empty((len(tokens), layers, len(BEGINNING), count), dtype=np.float32)
        sources[:, :, UNIFORM], sources[:, :, USUAL], sources[:, :, TEXT] = chosen / count, self._usual, self._text
        for row, place in enumerate(places):
            sources[row, :, TOKEN] = self._usual if place is None else self._table[place]
        mixed: Shares = np.matmul(self._weights[known][:, :, None, :], sources)[:, :, 0]
        return mixed, sources, known

    def _weigh(self, tokens: Sequence[int], sets: Shares) -> None:
        """Each source's part in what was chosen becomes its weight, a little at a time."""
        mixed, sources, known = self._mixed(tokens)
        parts = np.matmul(sources, (sets / mixed.clip(1e-6))[..., None])[..., 0] * self._weights[known]
        parts /= parts.sum(-1, keepdims=True).clip(1e-6)
        for group in set(known):
            mine = parts[np.array(known) == group]
            rate = np.float32(1.0 - np.exp(-len(mine) / SETTLING))
            self._weights[group] += rate * (mine.mean(0) - self._weights[group])
        self._weights[0] = self._without_token(self._weights[0])

    def _without_token(self, weights: Shares) -> Shares:
        """Of tokens that the table does not know: what the table would say has no weight."""
        left = weights.copy()
        left[:, TOKEN] = 0.0
        left /= left.sum(-1, keepdims=True)
        return left

    def _remember(self, token: int, chosen: Shares) -> None:
        place = self._places.pop(token, None)
        if place is None:
            place = len(self._places) if len(self._places) < self._capacity else self._places.popitem(last=False)[1]
            self._make_room(place)
            self._table[place], self._seen[place] = self._usual, 1.0
        self._places[token] = place
        self._seen[place] += 1.0
        self._table[place] += np.float32(max(1.0 / self._seen[place], NEWEST)) * (chosen - self._table[place])

    def _make_room(self, place: int) -> None:
        """The table grows by doubling, up to its bound."""
        if place >= len(self._table):
            larger = min(self._capacity, max(64, 2 * len(self._table)))
            grown: Shares = np.zeros((larger, *self._table.shape[1:]), dtype=np.float32)
            grown[: len(self._table)] = self._table
            self._table = grown
