"""A draft that is asked for nothing behind its last position, and of what is before that for all as ever."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.model.context import Context
from engine.speculation.limited_draft import LimitedDraft
from tests.engine.speculation.pairs import random_prompt
from tests.engine.tiny_models import VOCABULARY, tiny_network

POSITIONS = 12
CPU = torch.device("cpu")


class Table(Context):
    """Has no row for a position behind its last one."""

    def prefill(self, tokens: Sequence[int]) -> int:
        assert len(tokens) <= POSITIONS
        return super().prefill(tokens)

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        logits = super().score(tokens, parents, last)
        assert max(self._pending.positions(self.length)) < POSITIONS
        return logits


def both() -> tuple[LimitedDraft, Context]:
    """A limited draft, and the same without a limit."""
    network = tiny_network("llama")
    return LimitedDraft(Table(network, 64), POSITIONS, VOCABULARY, CPU), Context(network, 64)


def assert_alike(found: Tensor, expected: Tensor, read: Sequence[bool]) -> None:
    assert len(found) == len(read)
    for row, other, is_read in zip(found, expected, read, strict=True):
        if is_read:
            torch.testing.assert_close(row, other)
        else:
            assert torch.all(row == -torch.inf)


def test_nodes_behind_the_last_position_are_not_read_and_propose_nothing() -> None:
    limited, free = both()
    for draft in (limited, free):
        draft.prefill(random_prompt(POSITIONS - 3, 1))
    tree = [5, 6, 7, 8, 9, 10], [-1, 0, 1, 2, 0, 4]  # the chain 5 6 7 8, and 9 10 below 5
    assert_alike(limited.score(*tree), free.score(*tree), [True, True, True, False, True, True])
    more = [11, 12, 13], [4, 5, 3]
    assert_alike(limited.score(*more), free.score(*more), [True, False, False])
    for draft in (limited, free):
        draft.keep([0, 4], [5, 6, 7])  # 10, and 11 beside it, and 12 below 10
        assert draft.length == POSITIONS - 1
    again = [14, 15], [-1, 1]
    assert_alike(limited.score(*again), free.score(*again), [True, False])
    for draft in (limited, free):
        draft.keep([1])
    assert_alike(limited.score([16], [-1]), free.score([16], [-1]), [False])


def test_only_the_last_rows_are_returned_where_these_are_wanted() -> None:
    limited, free = both()
    chain = list(range(5, 11)), list(range(-1, 5))
    for length, read in ((2, [True, True]), (POSITIONS - 5, [True, False]), (POSITIONS - 2, [False, False])):
        for draft in (limited, free):
            draft.prefill(random_prompt(length, 1))
        assert_alike(limited.score(*chain, 2), free.score(*chain, 2), read)


def test_a_text_that_is_too_long_is_not_read_and_a_shorter_one_again() -> None:
    limited, free = both()
    assert limited.prefill(random_prompt(POSITIONS + 3, 1)) == 0
    assert limited.length == POSITIONS + 3
    assert_alike(limited.score([5, 6], [-1, 0]), free.score([5, 6], [-1, 0]), [False, False])
    limited.keep([0, 1])
    assert limited.length == POSITIONS + 5
    for draft in (limited, free):
        draft.prefill(random_prompt(4, 1))
    free.rewind(4)
    assert_alike(limited.score([5, 6], [-1, 0]), free.score([5, 6], [-1, 0]), [True, True])
