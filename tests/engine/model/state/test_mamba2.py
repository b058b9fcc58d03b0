"""Mamba-2 over a tree against a recurrence from node to node in float64, and against transformers."""

from typing import Any, NamedTuple

import torch
from hypothesis import given, settings
from torch import Tensor
from transformers.models.bamba.modeling_bamba import mamba2_chunk_scan

from engine.model.state.mamba2 import Mamba2Weights, mamba2_advance, mamba2_tree
from engine.model.state.tree_paths import TreePaths, ancestor_mask
from tests.engine.model.state.trees import EXAMPLES, Case, cases, path_to

GROUPS, HEADS, STATE, DIM = 2, 4, 8, 6
CLOSE: dict[str, Any] = {"atol": 2e-4, "rtol": 2e-4}  # float32 against float64, values of a few units
STEPS = {"near 0": 40.0, "near 1": -12.0, "mixed": 0.0, "one zero": 0.0}  # added to time steps before softplus


class Inputs(NamedTuple):
    """What a layer has computed of nodes before they are mixed."""

    inputs: Tensor
    dt: Tensor
    b: Tensor
    c: Tensor

    def part(self, begin: int, end: int | None = None) -> "Inputs":
        """Of the nodes from `begin` to `end`."""
        return Inputs(*(tensor[:, begin:end] for tensor in self))


def draw(nodes: int, decays: str, generator: torch.Generator) -> tuple[Inputs, Mamba2Weights, Tensor]:
    """Inputs of nodes, a layer's weights, and a state of the root."""
    shapes = ((1, nodes, HEADS, DIM), (1, nodes, HEADS), (1, nodes, GROUPS, STATE), (1, nodes, GROUPS, STATE))
    inputs, dt, b, c = (torch.randn(shape, generator=generator) for shape in shapes)
    if decays == "one zero":
        dt[:, nodes // 2] = 1e30  # the decay is exp(-infinity); what is written is bounded by `dt_limit` below
    a, d, bias = (torch.randn(HEADS, generator=generator) for _ in range(3))
    weights = Mamba2Weights(-a.exp(), d, bias + STEPS[decays], (0.0, 50.0))
    return (
        Inputs(inputs / (1 + max(0.0, STEPS[decays])), dt, b, c),
        weights,
        torch.randn((1, HEADS, DIM, STATE), generator=generator),
    )


def recurrence(nodes: Inputs, weights: Mamba2Weights, root: Tensor, parents: list[int]) -> tuple[Tensor, list[Tensor]]:
    """Outputs of every node, and the states behind them, computed one node after the other in float64."""
    inputs, dt, b, c = (tensor.double() for tensor in nodes)
    b, c = (rows.repeat_interleave(HEADS // GROUPS, 2) for rows in (b, c))
    steps = torch.nn.functional.softplus(dt + weights.dt_bias).clamp(*weights.dt_limit)
    states: list[Tensor] = []
    outputs = []
    for node, parent in enumerate(parents):
        decay = (weights.a * steps[:, node]).exp()[..., None, None]
        written = (steps[:, node, :, None] * inputs[:, node])[..., None] * b[:, node, :, None]
        states.append((root.double() if parent < 0 else states[parent]) * decay + written)
        read = torch.einsum("bhpn,bhn->bhp", states[-1], c[:, node])
        outputs.append(read + weights.d[:, None] * inputs[:, node])
    return torch.stack(outputs, 1), states


@given(case=cases())
@settings(max_examples=EXAMPLES, deadline=None)
def test_one_pass_and_passes_in_pieces_equal_the_recurrence(case: Case) -> None:
    parents, decays, generator = case
    inputs, weights, root = draw(len(parents), decays, generator)
    expected, states = recurrence(inputs, weights, root, parents)
    mask = ancestor_mask(parents)

    whole, writes = mamba2_tree(*inputs, weights, root, TreePaths(mask))
    close = {**CLOSE, "atol": 2e-5 * float(expected.abs().max() + 10)}  # near decays of 1 the sums grow
    torch.testing.assert_close(whole.double(), expected, **close)
    cut = len(parents) // 2 + 1
    _, earlier = mamba2_tree(*inputs.part(0, cut), weights, root, TreePaths(mask[:cut, :cut]))
    if cut < len(parents):
        later, added = mamba2_tree(*inputs.part(cut), weights, root, TreePaths(mask, cut), earlier)
        torch.testing.assert_close(later.double(), expected[:, cut:], **close)
        torch.testing.assert_close(added.behind(earlier).values, writes.values, **close)
    for node in {0, len(parents) // 2, len(parents) - 1}:
        behind = mamba2_advance(root, writes, path_to(node, parents))
        torch.testing.assert_close(behind.double(), states[node], **close)


def test_a_chain_is_what_transformers_computes() -> None:
    inputs, weights, root = draw(80, "mixed", torch.Generator().manual_seed(2))
    outputs, writes = mamba2_tree(*inputs, weights, root, TreePaths(ancestor_mask(range(-1, 79))))
    expected, final = mamba2_chunk_scan(
        inputs.inputs, inputs.dt, weights.a, inputs.b, inputs.c, 64,
        D=weights.d, dt_bias=weights.dt_bias, dt_softplus=True, dt_limit=weights.dt_limit,
        initial_states=root, return_final_states=True,
    )  # fmt: skip
    torch.testing.assert_close(outputs, expected, **CLOSE)
    torch.testing.assert_close(mamba2_advance(root, writes, range(80)), final, **CLOSE)
    stored = sum(tensor.untyped_storage().nbytes() for tensor in (writes.keys, writes.values, writes.log_decays))
    assert stored == 4 * 80 * (GROUPS * STATE + HEADS * DIM + HEADS), "what a node keeps is what it writes, no state"
