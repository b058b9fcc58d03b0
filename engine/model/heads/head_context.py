"""The tree of a head: what it guesses behind the text, from the hidden states that the target recorded."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.accelerator import sent
from engine.model.context import Context
from engine.model.heads.hidden_states import HiddenStates
from engine.model.network import Network
from engine.model.passes.sight import Sight
from engine.model.pictures.shown import ShownPictures


class Head(Protocol):
    """A network that guesses the token behind t_i from t_i and a hidden state of the token before it."""

    @property
    def network(self) -> Network:
        """Its layers, and what a context needs to know of them; `model` has the embeddings."""

    @property
    def nbytes(self) -> int:
        """Bytes of what it does not share with its target."""

    def enter(self, recorded: Tensor) -> Tensor:
        """What the head takes of recorded rows [n, recorded width]: [n, width], like its own outputs."""

    def run(self, tokens: Tensor, hidden: Tensor, last: int, **arguments: Any) -> tuple[Tensor, Tensor]:
        """One pass over `tokens`, int64 [1, n], with the hidden states of the tokens before, [n, width].

        Returns logits [last or n, vocabulary] and the outputs [n, width], which stand for the hidden states of these
        tokens. `arguments`: positions, mask and cache, as transformers' decoders take them.
        """


class HeadContext(Context):
    """The context of a head beside that of its target (the host), with a cache of its own.

    Slot i holds t_i and the hidden state of t_{i-1}: the host's where the host has read that token, else the head's own
    output for the parent. What was read with guesses is never committed: the next round reads it again, with what the
    host knows by then, which takes a pass over one layer. So `keep` forgets most of what it is given, `rest` included,
    and `length` says what stayed.
    """

    def __init__(self, head: Head, host: Context, hidden: HiddenStates, capacity: int, **options: Any) -> None:
        """`hidden`: what `host` records; `options`: those of `Context`."""
        super().__init__(head.network, capacity, **options)
        self._head = head
        self._host = host
        self._hidden = hidden
        self._positions: list[int] = []  # of every pending node
        self._known: list[bool] = []  # whether it was read with what the host recorded
        self._outputs: Tensor | None = None  # [pending, width]
        self._of_parents: Sequence[int] = ()  # of the running pass over nodes: pending parents

    @property
    def nbytes(self) -> int:
        """Bytes of the head's own weights."""
        return self._head.nbytes

    @property
    def pictures(self) -> ShownPictures | None:
        """The host's: a head reads the features of a picture in place of embeddings, too."""
        return self._host.pictures

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """As `Context.score`; a pass for every run of nodes whose parents were read before it."""
        before = len(self._pending)
        del self._positions[before:], self._known[before:]
        for parent in parents:
            self._positions.append(self.length if parent < 0 else self._positions[parent] + 1)
        self._known += [position <= self._host.length for position in self._positions[before:]]
        if self._hidden.length < min(self._host.length, max(self._positions)):
            self._host.settle()  # it went back to an earlier state, and has not read on since
        logits = []
        try:
            for begin, end in self._runs(parents, before):
                limit = last if end - begin == len(tokens) else 0
                logits.append(self._score_run(tokens[begin:end], parents[begin:end], limit))
        except BaseException:
            self._pending.truncate(before)
            self._cache.crop_to(self.length + before)
            raise
        return logits[0] if len(logits) == 1 else torch.cat(logits)[-(last or len(tokens)) :]

    def settle(self) -> None:
        """Nothing to do: a guess may stay as it is where the text's length asks for other frequencies."""

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit of the path what was read with the host's hidden states; forget every other pending node."""
        del rest
        super().keep(list(takewhile(lambda node: self._known[node], nodes)))

    def _runs(self, parents: Sequence[int], before: int) -> Iterator[tuple[int, int]]:
        """Ranges of nodes that can be read at once: none needs the output of another."""
        begin = 0
        for node, parent in enumerate(parents):
            if parent >= before + begin and not self._known[before + node]:
                yield begin, node
                begin = node
        yield begin, len(parents)

    def _score_run(self, tokens: Sequence[int], parents: Sequence[int], last: int) -> Tensor:
        self._of_parents = parents
        try:
            return super().score(tokens, parents, last)
        finally:
            self._of_parents = ()

    def _forward(self, tokens: Sequence[int], sight: Sight, last: int) -> Tensor:
        """The first token has no hidden state before it: heads are trained without it, and nothing else may see it."""
        return super()._forward(tokens, replace(sight, hides_first=True), last)

    def _run(self, tokens: Tensor, positions: Tensor, last: int, **arguments: Any) -> Tensor:
        hidden = self._before(positions.tolist())
        logits, outputs = self._head.run(tokens, hidden, last, **arguments)
        if self._of_parents:
            first = len(self._pending) - len(self._of_parents)
            known = outputs[:0] if self._outputs is None else self._outputs[:first]
            self._outputs = torch.cat([known, outputs])
        return logits

    def _before(self, positions: list[int]) -> Tensor:
        """The hidden state before every token of a pass, [n, width]."""
        known = [position <= self._host.length for position in positions]
        if all(known):
            return self._head.enter(self._hidden.rows([position - 1 for position in positions]))
        assert self._outputs is not None, "whatever is guessed stands behind something that was read"
        guessed = [0 if its else parent for its, parent in zip(known, self._of_parents, strict=True)]
        hidden = self._outputs.index_select(0, sent(guessed, self._outputs.device))
        if any(known):
            rows = [row for row, its in enumerate(known) if its]
            entered = self._head.enter(self._hidden.rows([positions[row] - 1 for row in rows]))
            hidden.index_copy_(0, sent(rows, hidden.device), entered)
        return hidden
