"""DRY: what would go on as it did before becomes the less likely, the more of it has been repeated already.

By p-e-w (text-generation-webui, pull request 5677), as llama.cpp's sampler of this name has it. The penalty of a token
is a function of the tokens before it alone, so a node of a tree has that of its own path. Of a path one only looks
where its last token stands in the text: what was repeated up to there follows from its parent's, in a few steps of
numpy.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.accelerator import sent
from engine.protocol.options import SamplingOptions
from engine.speculation.trees.arrays import Integers, Numbers

UNSORTED = 1024  # tokens that are searched one by one, before all are sorted anew
MOST_PENALTY = 1e30  # a finite one: where nothing else may follow, even such a token does
LARGEST_EXPONENT = 88.7228391  # the logarithm of float32's largest number

Breaker = tuple[int, ...]
"""Tokens that write a text across which nothing repeats."""


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """What of the end of a text stands earlier in it.

    `places`: int64 [n], ascending, where its last token stands, itself left out; `lengths`: int64 [n], how many tokens
    up to there are those at the end. `breaker`: where the last sequence breaker begins and ends, -1 for none.
    """

    places: Integers
    lengths: Integers
    breaker: tuple[int, int]


class Breakers:
    """Finds sequence breakers at the end of a text. As llama.cpp has it, the last is the one that begins last."""

    def __init__(self, breakers: Sequence[Breaker]) -> None:
        self.single = frozenset(each[0] for each in breakers if len(each) == 1)
        self._by_end: dict[int, list[Breaker]] = defaultdict(list)
        self._by_begin: dict[int, list[Breaker]] = defaultdict(list)
        for each in breakers:
            self._by_end[each[-1]].append(each)
            self._by_begin[each[0]].append(each)

    def last(self, text: Integers) -> tuple[int, int]:
        """Where the last one begins and ends, of a whole text."""
        tokens = text.tolist()
        for begin in range(len(tokens) - 1, -1, -1):
            lengths = [
                len(each)
                for each in self._by_begin.get(tokens[begin], ())
                if tuple(tokens[begin : begin + len(each)]) == each
            ]
            if lengths:
                return begin, begin + max(lengths) - 1
        return -1, -1

    def after(self, before: tuple[int, int], text: Integers) -> tuple[int, int]:
        """The same from that of the text without its last token."""
        end = len(text) - 1
        token = int(text[end])
        if token in self.single:
            return end, end
        found = before
        for each in self._by_end.get(token, ()):
            begin = end - len(each) + 1
            if begin >= max(found[0], 0) and tuple(text[begin:].tolist()) == each:
                found = begin, end
        return found


class RepetitionPenalty:
    """The penalties of tokens behind a text and behind paths that go on from it."""

    def __init__(self, options: SamplingOptions, breakers: Sequence[Breaker], text: Sequence[int]) -> None:
        """`text`: the prompt, without what stands for pictures."""
        self._options = options
        self._breakers = Breakers(breakers)
        base = options.dry_base
        self._most = int(LARGEST_EXPONENT / math.log(base)) if base > 1.000001 else 1 << 30
        self._longest = options.dry_allowed_length + self._most
        self._prompt = np.array(text, dtype=np.int64)
        self._begin()

    def _begin(self) -> None:
        """Behind the prompt."""
        self._answer: list[int] = []
        self._text = self._prompt.copy()  # with room behind it, where paths are written
        self._length = len(self._prompt)
        self._sort()
        self._known: dict[tuple[int, ...], Repeated] = {(): self._at_first()}

    def go_to(self, answer: Sequence[int]) -> None:
        """Stand behind the prompt and this answer; cheap where it goes on from the one before."""
        known = len(self._answer)
        if list(answer[:known]) != self._answer:
            self._begin()
            known = 0
        path = tuple(answer[known:])
        if path:
            repeated = self._behind(path)
            self._answer += path
            self._length += len(path)
            self._known = {(): repeated}
            if self._length - len(self._order) > UNSORTED:
                self._sort()

    def penalised(self, logits: Tensor, path: Sequence[int]) -> Tensor:
        """Of the token behind text and path: float32 [vocabulary], as a new tensor where there is a penalty."""
        tokens, amounts = self.penalties(tuple(path))
        if not len(tokens):
            return logits
        return logits.index_add(0, sent(tokens.tolist(), logits.device), _lowering(amounts, logits.device))

    def penalties(self, path: tuple[int, ...]) -> tuple[Integers, Numbers]:
        """The tokens that would go on with a repetition behind this path, int64 [n], and float64 [n] of each."""
        options, repeated = self._options, self._behind(path)
        text = self._text[: self._length + len(path)]
        allowed, last = options.dry_allowed_length, options.dry_penalty_last_n
        begin = max(0, len(text) - last) if last >= 0 else 0
        places, lengths = repeated.places, repeated.lengths
        if not allowed:  # whatever was said is at least no repetition
            every = np.arange(len(text) - 1)
            lengths = np.zeros_like(every)
            lengths[places] = repeated.lengths
            places = every
        lengths = np.minimum(lengths, places - begin + 1)
        if repeated.breaker[0] >= begin:
            lengths = np.minimum(lengths, len(text) - 1 - repeated.breaker[1])
        chosen = (places >= begin) & (lengths >= allowed)
        tokens, exponents = _largest(text[places[chosen] + 1], lengths[chosen] - allowed)
        is_meant = np.array([token not in self._breakers.single for token in tokens.tolist()], dtype=np.bool_)
        tokens, exponents = tokens[is_meant], np.minimum(exponents[is_meant], self._most)
        amounts = options.dry_multiplier * options.dry_base ** exponents.astype(np.float64)
        return tokens, np.minimum(amounts, MOST_PENALTY)

    def _behind(self, path: tuple[int, ...]) -> Repeated:
        """What is repeated at the end of text and path, which is written behind the text."""
        end = self._length + len(path)
        if end > len(self._text):
            self._text = np.concatenate([self._text[: self._length], np.zeros(end, dtype=np.int64)])
        self._text[self._length : end] = path
        known = len(path)
        while path[:known] not in self._known:
            known -= 1
        repeated = self._known[path[:known]]
        for size in range(known + 1, len(path) + 1):
            repeated = self._known[path[:size]] = self._after(repeated, self._length + size)
        return repeated

    def _after(self, before: Repeated, length: int) -> Repeated:
        """Of the first `length` tokens, from that of one less."""
        text = self._text[:length]
        places = self._places(int(text[-1]), length - 1)
        lengths = np.ones_like(places)
        if len(before.places):
            at = np.searchsorted(before.places, places - 1).clip(max=len(before.places) - 1)
            lengths += np.where(before.places[at] == places - 1, before.lengths[at], 0)
        return Repeated(places, lengths.clip(max=self._longest), self._breakers.after(before.breaker, text))

    def _at_first(self) -> Repeated:
        """The same of the prompt, by going back from every place."""
        text = self._text[: self._length]
        if not len(text):
            return Repeated(text, text, (-1, -1))
        last = len(text) - 1
        places = self._places(int(text[last]), last)[:-1]
        lengths = np.ones_like(places)
        alive, back = np.arange(len(places)), 1
        while back < self._longest:
            alive = alive[places[alive] >= back]
            alive = alive[text[places[alive] - back] == text[last - back]]
            if not len(alive):
                break
            lengths[alive] += 1
            back += 1
        return Repeated(places, lengths.clip(max=self._longest), self._breakers.last(text))

    def _sort(self) -> None:
        """Sort the places of the text by their tokens."""
        self._order = np.argsort(self._text[: self._length], kind="stable")
        self._sorted = self._text[self._order]

    def _places(self, token: int, end: int) -> Integers:
        """Where a token stands, ascending: as far as the text was sorted, and behind that before `end`."""
        first, behind = np.searchsorted(self._sorted, [token, token + 1])
        begin = len(self._order)
        return np.concatenate([self._order[first:behind], begin + np.flatnonzero(self._text[begin:end] == token)])


def _largest(tokens: Integers, numbers: Integers) -> tuple[Integers, Integers]:
    """Every token once, with the largest of its numbers."""
    order = np.lexsort((numbers, tokens))
    tokens, numbers = tokens[order], numbers[order]
    is_last = np.append(tokens[1:] != tokens[:-1], True)[: len(tokens)]
    return tokens[is_last], numbers[is_last]


def _lowering(amounts: Numbers, device: torch.device) -> Tensor:
    return sent((-amounts).tolist(), device, torch.float32)
