"""DRY against its definition, written down plainly: every suffix is compared with every place of the text."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.protocol.options import SamplingOptions
from engine.speculation.methods.dry import UNSORTED, Breaker, RepetitionPenalty

tokens_of_few_kinds = st.lists(st.integers(0, 3), min_size=1, max_size=40)
few_breakers = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple), max_size=3)


def last_breaker(text: Sequence[int], breakers: Sequence[Breaker]) -> int:
    """How many tokens follow it; the whole text where there is none. The last one is that which begins last."""
    for begin in range(len(text) - 1, -1, -1):
        fitting = [len(each) for each in breakers if tuple(text[begin : begin + len(each)]) == each]
        if fitting:
            return len(text) - begin - max(fitting)
    return len(text)


def plainly(options: SamplingOptions, breakers: Sequence[Breaker], text: Sequence[int]) -> dict[int, float]:
    """Penalties by token, from the definition alone."""
    last_n = len(text) if options.dry_penalty_last_n < 0 else options.dry_penalty_last_n
    text = list(text)[len(text) - min(last_n, len(text)) :]
    limit, longest = last_breaker(text, breakers), dict[int, int]()
    for place in range(len(text) - 1):
        length = 0
        while length <= place and text[place - length] == text[len(text) - 1 - length]:
            length += 1
        length = min(length, limit)
        if length >= options.dry_allowed_length:
            follower = text[place + 1]
            longest[follower] = max(longest.get(follower, 0), length)
    return {
        token: options.dry_multiplier * options.dry_base ** (length - options.dry_allowed_length)
        for token, length in longest.items()
        if (token,) not in breakers
    }


def told(penalty: RepetitionPenalty, path: Sequence[int] = ()) -> dict[int, float]:
    tokens, amounts = penalty.penalties(tuple(path))
    return dict(zip(tokens.tolist(), amounts.tolist(), strict=True))


def assert_same(found: dict[int, float], expected: dict[int, float]) -> None:
    assert found == pytest.approx(expected, rel=1e-12)


@given(
    prompt=tokens_of_few_kinds,
    answer=tokens_of_few_kinds,
    paths=st.lists(tokens_of_few_kinds, max_size=4),
    breakers=few_breakers,
    allowed=st.integers(0, 4),
    last_n=st.sampled_from((-1, 0, 1, 5, 30)),
)
def test_a_text_and_every_path_behind_it_have_the_penalties_of_the_definition(
    prompt: list[int], answer: list[int], paths: list[list[int]], breakers: list[Breaker], allowed: int, last_n: int
) -> None:
    options = SamplingOptions(dry_multiplier=0.8, dry_base=1.75, dry_allowed_length=allowed, dry_penalty_last_n=last_n)
    penalty = RepetitionPenalty(options, breakers, prompt)
    assert_same(told(penalty), plainly(options, breakers, prompt))
    for part in (answer[: len(answer) // 2], answer):
        penalty.go_to(part)
        for path in ([], *paths):
            assert_same(told(penalty, path), plainly(options, breakers, [*prompt, *part, *path]))
    penalty.go_to(answer[:1])  # as where an answer begins anew
    assert_same(told(penalty), plainly(options, breakers, [*prompt, *answer[:1]]))


def test_a_long_answer_is_sorted_anew_and_stays_right() -> None:
    numbers = np.random.default_rng(3)
    options = SamplingOptions(dry_multiplier=1.0, dry_base=1.1)
    prompt, answer = numbers.integers(0, 6, 50).tolist(), numbers.integers(0, 6, 2 * UNSORTED + 99).tolist()
    penalty = RepetitionPenalty(options, ((5,),), prompt)
    for length in (1, UNSORTED - 51, UNSORTED + 70, len(answer)):
        penalty.go_to(answer[:length])
        assert_same(told(penalty, (1, 2, 1)), plainly(options, ((5,),), [*prompt, *answer[:length], 1, 2, 1]))


def test_an_endless_repetition_has_a_finite_penalty() -> None:
    options = SamplingOptions(dry_multiplier=100.0, dry_base=4.0)
    penalty = RepetitionPenalty(options, (), [7] * 5000)
    [(token, amount)] = told(penalty).items()
    assert token == 7
    assert 1e29 < amount <= 1e30
    lowered = penalty.penalised(torch.zeros(9), ())
    assert lowered.softmax(-1).tolist() == pytest.approx([1 / 8] * 7 + [0.0, 1 / 8])
    alone = torch.full((9,), -torch.inf).index_fill(0, torch.tensor([7]), 2.0)
    assert penalty.penalised(alone, ()).softmax(-1)[7] == 1


def test_what_repeats_less_than_is_allowed_is_left_as_it_is() -> None:
    penalty = RepetitionPenalty(SamplingOptions(dry_multiplier=1.0, dry_allowed_length=3), (), [1, 2, 9, 1, 2])
    logits = torch.zeros(10)
    assert penalty.penalised(logits, ()) is logits


def test_the_logits_are_lowered_by_the_formula() -> None:
    """1 2 3 4 . 1 2 3: four would be a repetition of four tokens, two of which are allowed."""
    options = SamplingOptions(dry_multiplier=0.8, dry_base=1.75)
    penalty = RepetitionPenalty(options, (), [1, 2, 3, 4, 0, 1, 2])
    expected = torch.zeros(6)
    expected[4] = -0.8 * 1.75
    torch.testing.assert_close(penalty.penalised(torch.zeros(6), [3]), expected)
