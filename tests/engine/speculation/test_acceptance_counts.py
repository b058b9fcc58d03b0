"""The measured acceptance vector against what it estimates."""

import pytest
import torch

from engine.speculation.methods.acceptance_rates import AcceptanceCounts
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.trees.tree_program import PRIOR, checked


def star(children: int) -> Tree:
    return Tree(tuple(range(children + 1)), (-1, *[0] * children), (0.0,) * (children + 1))


def round_with(children: int, accepted: int | None) -> tuple[Tree, Path]:
    """A root with so many children, of which the one of this rank, if any, is accepted."""
    if accepted is None:
        return star(children), Path((0,), bonus=99)
    return star(children), Path((0, accepted), bonus=99)


def test_each_child_is_counted_as_often_as_it_was_tried() -> None:
    counts = AcceptanceCounts(prior_tries=0.0)
    for accepted in (1, 1, 2, None, 1, 3, None, None):
        counts.observe(*round_with(3, accepted))
    assert counts.vector() == pytest.approx((3 / 8, 1 / 8, 1 / 8))


def test_nodes_with_few_children_tell_nothing_of_further_ones() -> None:
    counts = AcceptanceCounts(prior_tries=0.0)
    for children, accepted in ((1, None), (1, 1), (2, None), (2, 2)):
        counts.observe(*round_with(children, accepted))
    # The first was tried four times and taken once; the second was tried twice, and taken once.
    assert counts.vector() == pytest.approx((1 / 4, 3 / 4 * 1 / 2))


def test_every_accepted_node_of_a_path_counts_and_leaves_do_not() -> None:
    tree = Tree((9, 1, 2, 3, 4), (-1, 0, 0, 1, 1), (0.0,) * 5)
    counts = AcceptanceCounts(prior_tries=0.0)
    counts.observe(tree, Path((0, 1, 4), bonus=7))
    assert counts.vector() == pytest.approx((1 / 2, 1 / 2))


def test_an_end_token_that_the_tree_had_was_accepted() -> None:
    counts = AcceptanceCounts(prior_tries=0.0)
    counts.observe(star(2), Path((0,), bonus=1))
    assert counts.vector() == (1.0,)


def test_nothing_seen_is_the_prior_or_without_one_no_vector() -> None:
    assert AcceptanceCounts().vector() == pytest.approx(PRIOR)
    assert AcceptanceCounts(prior_tries=0.0).vector() == ()


def test_what_is_seen_outweighs_the_prior_and_nothing_is_impossible() -> None:
    counts = AcceptanceCounts()
    for _ in range(500):
        counts.observe(*round_with(3, 2))
    first, second, *rest = checked(counts.vector())
    assert first < 0.01
    assert second > 0.99
    assert len(rest) == len(PRIOR) - 2
    assert min(rest) > 0


def test_it_finds_the_vector_that_acceptance_follows() -> None:
    """20,000 nodes with one to five children each: every probability within five standard errors, at most 0.018."""
    truth = (0.5, 0.2, 0.1, 0.08, 0.02)
    generator = torch.Generator().manual_seed(1)
    drawn = torch.multinomial(torch.tensor([*truth, 1 - sum(truth)]), 20_000, True, generator=generator).tolist()
    widths = torch.randint(1, 6, (20_000,), generator=generator).tolist()
    counts = AcceptanceCounts(prior_tries=0.0)
    for rank, width in zip(drawn, widths, strict=True):
        counts.observe(*round_with(width, rank + 1 if rank < width else None))
    found = checked(counts.vector())
    for number, (estimate, probability) in enumerate(zip(found, truth, strict=True)):
        error = (probability * (1 - probability) / (20_000 * (5 - number) / 5)) ** 0.5
        assert estimate == pytest.approx(probability, abs=5 * error)
