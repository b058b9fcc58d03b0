"""The gated delta rule over a tree against a recurrence from node to node in float64, and against transformers."""

from typing import Any, NamedTuple

import torch
from hypothesis import given, settings
from torch import Tensor
from transformers.models.kimi_linear.modeling_kimi_linear import chunk_kimi_delta_attention
from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

from engine.model.state.gated_delta import gated_delta_tree
from engine.model.state.tree_paths import TreePaths
from engine.model.state.writes import advance, spread
from tests.engine.model.state.trees import EXAMPLES, Case, ancestor_mask, cases, grow, log_decays, path_to

GROUPS, HEADS, KEY, VALUE = 2, 4, 8, 6
CLOSE: dict[str, Any] = {"atol": 2e-4, "rtol": 2e-4}  # float32 against float64, values of a few units


class Inputs(NamedTuple):
    """What a layer has computed of nodes before they are mixed."""

    query: Tensor
    key: Tensor
    value: Tensor
    log_decay: Tensor
    beta: Tensor

    def part(self, begin: int, end: int | None = None) -> "Inputs":
        """Of the nodes from `begin` to `end`."""
        return Inputs(*(tensor[:, begin:end] for tensor in self))


def draw(
    nodes: int, decays: str, generator: torch.Generator, repeated: bool = False, channels: bool = False
) -> tuple[Inputs, Tensor]:
    """Inputs of nodes, and a state of the root; with `channels`, every channel of a key has its own decay."""
    shape = (1, nodes, HEADS, KEY) if channels else (1, nodes, HEADS)
    query, key = (torch.randn((1, nodes, GROUPS, KEY), generator=generator) for _ in range(2))
    if repeated:
        key = key[:, :1].expand_as(key)
    value = torch.randn((1, nodes, HEADS, VALUE), generator=generator)
    beta = torch.rand((1, nodes, HEADS), generator=generator)
    state = torch.randn((1, HEADS, KEY, VALUE), generator=generator)
    return Inputs(query, key, value, log_decays(decays, shape, generator), beta), state


def recurrence(inputs: Inputs, root: Tensor, parents: list[int]) -> tuple[Tensor, list[Tensor]]:
    """Outputs of every node, and the states behind them, computed one node after the other in float64."""
    query, key, value, logs, beta = (tensor.double() for tensor in inputs)
    query, key = (
        (rows / (rows.square().sum(-1, keepdim=True) + 1e-6).sqrt()).repeat_interleave(HEADS // GROUPS, 2)
        for rows in (query, key)
    )
    states: list[Tensor] = []
    outputs = []
    for node, parent in enumerate(parents):
        decay = logs[:, node].exp().view(1, HEADS, -1, 1)  # of the whole key, or of each of its channels
        state = (root.double() if parent < 0 else states[parent]) * decay
        read = torch.einsum("bhkv,bhk->bhv", state, key[:, node])
        write = beta[:, node, :, None] * (value[:, node] - read)
        states.append(state + key[:, node, ..., None] * write[..., None, :])
        outputs.append(torch.einsum("bhkv,bhk->bhv", states[-1], query[:, node]) * KEY**-0.5)
    return torch.stack(outputs, 1), states


@given(case=cases())
@settings(max_examples=EXAMPLES, deadline=None)
def test_one_pass_and_passes_in_pieces_equal_the_recurrence(case: Case) -> None:
    parents, decays, generator = case
    channels = bool(torch.randint(2, (), generator=generator))
    inputs, root = draw(len(parents), decays, generator, repeated=len(parents) % 2 == 0, channels=channels)
    expected, states = recurrence(inputs, root, parents)
    mask = ancestor_mask(parents)

    whole, writes = gated_delta_tree(*inputs, root, TreePaths(mask))
    torch.testing.assert_close(whole.double(), expected, **CLOSE)
    cut = len(parents) // 2 + 1
    _, earlier = gated_delta_tree(*inputs.part(0, cut), root, TreePaths(mask[:cut, :cut]))
    if cut < len(parents):
        later, added = gated_delta_tree(*inputs.part(cut), root, TreePaths(mask, cut), earlier)
        torch.testing.assert_close(later.double(), expected[:, cut:], **CLOSE)
        torch.testing.assert_close(added.behind(earlier).values, writes.values, **CLOSE)
    for node in {0, len(parents) // 2, len(parents) - 1}:
        torch.testing.assert_close(advance(root, writes, path_to(node, parents)).double(), states[node], **CLOSE)


def test_nodes_below_a_kept_path_stay_valid() -> None:
    parents = [-1, 0, 0, 1, 1, 3, 4]
    inputs, root = draw(len(parents), "mixed", torch.Generator().manual_seed(5))
    expected, _ = recurrence(inputs, root, parents)
    _, writes = gated_delta_tree(*inputs.part(0, 6), root, TreePaths(ancestor_mask(parents[:6])))
    state, rest = advance(root, writes, [0, 1]), writes.select([3, 4, 5])
    paths = TreePaths(ancestor_mask([-1, -1, 0, 1]), begin=3)  # nodes 3 to 6, numbered anew
    output, _ = gated_delta_tree(*inputs.part(6), state, paths, rest)
    torch.testing.assert_close(output.double(), expected[:, 6:], **CLOSE)


def test_a_chain_is_what_transformers_computes() -> None:
    inputs, root = draw(80, "mixed", torch.Generator().manual_seed(2))
    outputs, writes = gated_delta_tree(*inputs, root, TreePaths(ancestor_mask(range(-1, 79))))
    expected, final = torch_chunk_gated_delta_rule(
        *inputs, initial_state=root, output_final_state=True, use_qk_l2norm_in_kernel=True
    )
    torch.testing.assert_close(outputs, expected, **CLOSE)
    torch.testing.assert_close(advance(root, writes, range(80)), final, **CLOSE)


def test_a_chain_with_decays_of_channels_is_what_transformers_computes() -> None:
    inputs, root = draw(80, "mixed", torch.Generator().manual_seed(3), channels=True)
    inputs = inputs._replace(query=spread(inputs.query, HEADS), key=spread(inputs.key, HEADS))
    outputs, writes = gated_delta_tree(*inputs, root, TreePaths(ancestor_mask(range(-1, 79))))
    expected, final = chunk_kimi_delta_attention(
        *inputs, initial_state=root, output_final_state=True, use_qk_l2norm_in_kernel=True
    )
    torch.testing.assert_close(outputs, expected, **CLOSE)
    torch.testing.assert_close(advance(root, writes, range(80)), final, **CLOSE)


def test_memory_of_nodes_grows_linearly_and_holds_no_states() -> None:
    generator = torch.Generator().manual_seed(3)
    for nodes in (16, 64):
        inputs, root = draw(nodes, "mixed", generator)
        _, writes = gated_delta_tree(*inputs, root, TreePaths(ancestor_mask(grow(nodes, 0.5, generator))))
        stored = sum(tensor.untyped_storage().nbytes() for tensor in (writes.keys, writes.values, writes.log_decays))
        assert stored == 4 * nodes * (GROUPS * KEY + HEADS * VALUE + HEADS)
