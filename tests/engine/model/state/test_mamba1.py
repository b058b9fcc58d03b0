"""Mamba over a tree against a recurrence from node to node in float64."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from engine.model.state import mamba1
from engine.model.state.mamba1 import mamba1_advance, mamba1_tree
from engine.model.state.tree_paths import TreePaths, chain_generations
from tests.engine.model.state.trees import EXAMPLES, Case, ancestor_mask, cases, path_to

CHANNELS, STATE = 6, 4
CLOSE: dict[str, Any] = {"atol": 2e-4, "rtol": 2e-4}  # float32 against float64, values of a few units
STEPS = {"near 0": 30.0, "near 1": 1e-5, "mixed": 0.5, "one zero": 0.5}


def draw(nodes: int, decays: str, generator: torch.Generator) -> tuple[list[Tensor], Tensor, Tensor]:
    """Inputs, steps, b and c of nodes; a; and a state of the root."""
    shapes = ((1, nodes, CHANNELS), (1, nodes, CHANNELS), (1, nodes, STATE), (1, nodes, STATE))
    inputs, steps, b, c = (torch.randn(shape, generator=generator) for shape in shapes)
    steps = steps.abs() * STEPS[decays]
    if decays == "one zero":
        steps[:, nodes // 2], inputs[:, nodes // 2] = 1e30, 0.0
    root = torch.randn((1, CHANNELS, STATE), generator=generator)
    a = -torch.randn((CHANNELS, STATE), generator=generator).exp()
    return [inputs / (1 + STEPS[decays]), steps, b, c], a, root


def recurrence(nodes: list[Tensor], a: Tensor, root: Tensor, parents: list[int]) -> tuple[Tensor, list[Tensor]]:
    """What every node reads, and the states behind them, computed one node after the other in float64."""
    inputs, steps, b, c = (tensor.double() for tensor in nodes)
    states: list[Tensor] = []
    read = []
    for node, parent in enumerate(parents):
        decay = (a * steps[:, node, :, None]).exp()
        written = (steps * inputs)[:, node, :, None] * b[:, node, None]
        states.append((root.double() if parent < 0 else states[parent]) * decay + written)
        read.append((states[-1] * c[:, node, None]).sum(-1))
    return torch.stack(read, 1), states


@given(case=cases())
@settings(max_examples=EXAMPLES, deadline=None)
def test_one_pass_and_passes_in_pieces_equal_the_recurrence(case: Case) -> None:
    parents, decays, generator = case
    nodes, a, root = draw(len(parents), decays, generator)
    (inputs, steps, b, c), mask = nodes, ancestor_mask(parents)
    expected, states = recurrence(nodes, a, root, parents)

    whole, writes = mamba1_tree(inputs, steps, a, b, c, root, TreePaths(mask).generations())
    torch.testing.assert_close(whole.double(), expected, **CLOSE)
    cut = len(parents) // 2 + 1
    first = TreePaths(mask[:cut, :cut]).generations()
    _, earlier = mamba1_tree(inputs[:, :cut], steps[:, :cut], a, b[:, :cut], c[:, :cut], root, first)
    if cut < len(parents):
        later = [tensor[:, cut:] for tensor in nodes]
        again = TreePaths(mask, cut).generations()
        found, _ = mamba1_tree(later[0], later[1], a, later[2], later[3], root, again, earlier)
        torch.testing.assert_close(found.double(), expected[:, cut:], **CLOSE)
    for node in {0, len(parents) // 2, len(parents) - 1}:
        behind = mamba1_advance(a, root, writes, path_to(node, parents))
        torch.testing.assert_close(behind.double(), states[node], **CLOSE)


def test_a_broad_tree_is_walked_in_slices_of_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    (inputs, steps, b, c), a, root = draw(9, "mixed", torch.Generator().manual_seed(1))
    generations = TreePaths(ancestor_mask([-1] * 5 + [0] * 4)).generations()
    assert [len(nodes) for nodes, _ in generations] == [5, 4]
    whole, writes = mamba1_tree(inputs, steps, a, b, c, root, generations)
    monkeypatch.setattr(mamba1, "STATES_AT_ONCE", 2 * 5 * STATE)
    sliced, _ = mamba1_tree(inputs, steps, a, b, c, root, generations)
    assert torch.equal(whole, sliced)
    assert writes.nbytes == 4 * 9 * (STATE + 2 * CHANNELS), "what a node keeps is what it writes, no state"


def test_a_chain_needs_no_tree() -> None:
    (inputs, steps, b, c), a, root = draw(12, "mixed", torch.Generator().manual_seed(2))
    tree = TreePaths(ancestor_mask(range(-1, 11))).generations()
    chain = chain_generations(12, torch.device("cpu"))
    found = [mamba1_tree(inputs, steps, a, b, c, root, generations)[0] for generations in (tree, chain)]
    assert torch.equal(*found)
