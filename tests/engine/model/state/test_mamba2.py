"""Mamba-2 over a tree against a recurrence from node to node in float64, and against transformers."""

from typing import Any, NamedTuple

import torch
from hypothesis import given, settings
from torch import Tensor
from transformers.models.bamba.modeling_bamba import mamba2_chunk_scan

from engine.model.state.mamba2 import mamba2_advance, mamba2_tree, time_steps
from engine.model.state.tree_paths import TreePaths
from engine.model.state.writes import Writes
from tests.engine.model.state.trees import EXAMPLES, Case, ancestor_mask, cases, path_to

GROUPS, HEADS, STATE, DIM = 2, 4, 8, 6
CLOSE: dict[str, Any] = {"atol": 2e-4, "rtol": 2e-4}  # float32 against float64, values of a few units
STEPS = {"near 0": 40.0, "near 1": -12.0, "mixed": 0.0, "one zero": 0.0}  # added to time steps before softplus


class Inputs(NamedTuple):
    """What a layer has computed of nodes before they are mixed."""

    inputs: Tensor
    steps: Tensor
    b: Tensor
    c: Tensor

    def part(self, begin: int, end: int | None = None) -> "Inputs":
        """Of the nodes from `begin` to `end`."""
        return Inputs(*(tensor[:, begin:end] for tensor in self))


class Layer(NamedTuple):
    """What stays the same for all nodes; `root`: the state above them."""

    a: Tensor
    d: Tensor
    root: Tensor

    def tree(self, nodes: Inputs, mask: Tensor, earlier: Writes | None = None) -> tuple[Tensor, Writes]:
        """One pass over nodes behind the `earlier` ones."""
        paths = TreePaths(mask, 0 if earlier is None else len(earlier))
        return mamba2_tree(nodes.inputs, nodes.steps, self.a, nodes.b, nodes.c, self.d, self.root, paths, earlier)


def draw(nodes: int, decays: str, generator: torch.Generator) -> tuple[Inputs, Layer]:
    """Inputs of nodes, and a layer with a state."""
    shapes = ((1, nodes, HEADS, DIM), (1, nodes, HEADS), (1, nodes, GROUPS, STATE), (1, nodes, GROUPS, STATE))
    inputs, dt, b, c = (torch.randn(shape, generator=generator) for shape in shapes)
    steps = torch.nn.functional.softplus(dt + STEPS[decays])
    if decays == "one zero":
        steps[:, nodes // 2], inputs[:, nodes // 2] = 1e30, 0.0
    a, d = (torch.randn(HEADS, generator=generator) for _ in range(2))
    root = torch.randn((1, HEADS, DIM, STATE), generator=generator)
    return Inputs(inputs / (1 + max(0.0, STEPS[decays])), steps, b, c), Layer(-a.exp(), d, root)


def recurrence(nodes: Inputs, layer: Layer, parents: list[int]) -> tuple[Tensor, list[Tensor]]:
    """Outputs of every node, and the states behind them, computed one node after the other in float64."""
    inputs, steps, b, c = (tensor.double() for tensor in nodes)
    b, c = (rows.repeat_interleave(HEADS // GROUPS, 2) for rows in (b, c))
    states: list[Tensor] = []
    outputs = []
    for node, parent in enumerate(parents):
        decay = (layer.a * steps[:, node]).exp()[..., None, None]
        written = (steps[:, node, :, None] * inputs[:, node])[..., None] * b[:, node, :, None]
        states.append((layer.root.double() if parent < 0 else states[parent]) * decay + written)
        read = torch.einsum("bhpn,bhn->bhp", states[-1], c[:, node])
        outputs.append(read + layer.d[:, None] * inputs[:, node])
    return torch.stack(outputs, 1), states


@given(case=cases())
@settings(max_examples=EXAMPLES, deadline=None)
def test_one_pass_and_passes_in_pieces_equal_the_recurrence(case: Case) -> None:
    parents, decays, generator = case
    nodes, layer = draw(len(parents), decays, generator)
    expected, states = recurrence(nodes, layer, parents)
    mask = ancestor_mask(parents)

    whole, writes = layer.tree(nodes, mask)
    close = {**CLOSE, "atol": 2e-5 * float(expected.abs().max() + 10)}  # near decays of 1 the sums grow
    torch.testing.assert_close(whole.double(), expected, **close)
    cut = len(parents) // 2 + 1
    _, earlier = layer.tree(nodes.part(0, cut), mask[:cut, :cut])
    if cut < len(parents):
        later, added = layer.tree(nodes.part(cut), mask, earlier)
        torch.testing.assert_close(later.double(), expected[:, cut:], **close)
        torch.testing.assert_close(added.behind(earlier).values, writes.values, **close)
    for node in {0, len(parents) // 2, len(parents) - 1}:
        behind = mamba2_advance(layer.root, writes, path_to(node, parents))
        torch.testing.assert_close(behind.double(), states[node], **close)


def test_a_chain_is_what_transformers_computes() -> None:
    nodes, layer = draw(80, "mixed", torch.Generator().manual_seed(2))
    dt, bias, limit = torch.randn(1, 80, HEADS), torch.randn(HEADS), (0.3, 2.0)
    nodes = nodes._replace(steps=time_steps(dt, bias, limit, torch.ones(80, dtype=torch.bool)))
    outputs, writes = layer.tree(nodes, ancestor_mask(range(-1, 79)))
    expected, final = mamba2_chunk_scan(
        nodes.inputs, dt, layer.a, nodes.b, nodes.c, 64, D=layer.d, dt_bias=bias, dt_softplus=True, dt_limit=limit,
        initial_states=layer.root, return_final_states=True,
    )  # fmt: skip
    torch.testing.assert_close(outputs, expected, **CLOSE)
    torch.testing.assert_close(mamba2_advance(layer.root, writes, range(80)), final, **CLOSE)
    stored = sum(tensor.untyped_storage().nbytes() for tensor in (writes.keys, writes.values, writes.log_decays))
    assert stored == 4 * 80 * (GROUPS * STATE + HEADS * DIM + HEADS), "what a node keeps is what it writes, no state"
