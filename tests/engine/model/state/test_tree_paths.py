"""Ancestors, sums and windows along root paths, against walks from parent to parent."""

import torch
from hypothesis import given, settings

from engine.model.state.short_convolution import short_convolution_advance, short_convolution_tree
from engine.model.state.tree_paths import TreePaths
from tests.engine.model.state.trees import EXAMPLES, Case, ancestor_mask, cases, path_to


@given(case=cases())
@settings(max_examples=EXAMPLES, deadline=None)
def test_sums_and_windows_follow_each_path(case: Case) -> None:
    parents, _, generator = case
    paths = TreePaths(ancestor_mask(parents), begin=len(parents) // 2)
    values = -torch.rand((1, len(parents), 3), generator=generator)
    sums = paths.sums(values)
    windows = paths.windows(4)
    assert windows.shape == (len(parents) - len(parents) // 2, 4)
    for node in range(len(parents)):
        path = path_to(node, parents)
        torch.testing.assert_close(sums[:, node], values[:, path].double().sum(1))
        if node >= paths.begin:
            seen = [-3, -2, -1, *path][-4:]  # as the walk numbers them: the text before the tree is below 0
            assert windows[node - paths.begin].tolist() == [number + 3 for number in seen]


@given(case=cases())
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_convolution_over_a_tree_is_that_of_each_path(case: Case) -> None:
    parents, _, generator = case
    inputs = torch.randn((1, len(parents), 6), generator=generator)
    tail, weight, bias = (torch.randn(shape, generator=generator) for shape in ((1, 4, 6), (6, 4), (6,)))
    for begin in {0, len(parents) // 3}:
        windows = TreePaths(ancestor_mask(parents), begin).windows(4)
        together = short_convolution_tree(inputs, tail, windows, weight, bias)
        for node in range(begin, len(parents), 7):
            last = torch.cat([tail, inputs[:, path_to(node, parents)]], 1)[:, -4:]
            alone = (last.double() * weight.T).sum(1) + bias
            torch.testing.assert_close(together[:, node - begin].double(), alone, atol=1e-5, rtol=1e-5)


def test_the_tail_behind_a_path_is_its_last_inputs() -> None:
    tail, inputs = torch.arange(3.0).view(1, 3, 1), torch.arange(10.0, 15.0).view(1, 5, 1)
    assert short_convolution_advance(tail, inputs, []).tolist() == tail.tolist()
    assert short_convolution_advance(tail, inputs, [1, 4]).flatten().tolist() == [2.0, 11.0, 14.0]
    assert short_convolution_advance(tail, inputs, [0, 1, 2, 4]).flatten().tolist() == [11.0, 12.0, 14.0]
