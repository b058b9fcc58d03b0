"""Layers of mixtures in one call: the router, the choice and the experts of few rows are steps, with the same bits."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.models.glm4_moe.configuration_glm4_moe import Glm4MoeConfig
from transformers.models.glm4_moe.modeling_glm4_moe import Glm4MoeTopkRouter

from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.passes.light import chains, sparse
from engine.model.passes.light.experts import Stack
from engine.model.passes.light.sparse import STAYING, Mixed
from engine.model.products import product
from engine.model.products.bfloat_loops import PAIRS, bfloat_loop
from engine.model.products.compiling import has_compiler
from engine.model.products.grouped import Member
from engine.model.products.loops.routing import choose as chosen_by_loop
from engine.model.products.loops.routing import choose_scored
from engine.model.products.product import plain
from engine.model.products.programs import Steps
from engine.model.streamable_network import StreamableNetwork, build_streamable
from engine.weights.codecs.rounding import Rounding
from engine.weights.planning.arrangement import Tier
from engine.weights.streaming.experts.routing import RoutingRecord
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from tests.campaigns.extent import choose
from tests.engine.gguf_files import write_gguf
from tests.engine.tiny_models import tiny_model
from tests.engine.weights.test_expert_stream import PLENTY
from tests.engine.weights.test_layer_stream import CPU, assert_same
from tests.engine.weights.test_packed_stream import stored_layers

pytestmark = pytest.mark.skipif(not has_compiler(), reason="numba does not run here")

SHAPE: dict[str, Any] = {"head_dim": 32, "moe_intermediate_size": 64, "intermediate_size": 64}
KINDS = {"qwen3_moe": "Q8_0", "mixtral": "Q4_0", "gpt_oss": "BF16", "glm4_moe": "Q8_0"}
OTHERWISE: dict[str, dict[str, Any]] = {"glm4_moe": {"first_k_dense_replace": 0, "moe_intermediate_size": 128}}
LAYERS, TEXT = 4, [5, 9, 2, 77, 31, 8]
TREES: list[tuple[list[int], list[int]]] = [
    ([5, 9], [-1, 0]),
    ([2, 77, 31], [-1, 0, 0]),
    ([8, 5, 9, 2, 77, 31, 8, 40, 41], [-1, 0, 0, 1, 1, 2, 3, 3, 4]),
    ([7] * 12, [-1, *range(11)]),  # alike, so that some experts have all of them
]
FEW_ROWS, MORE_ROWS = 4, 16
STAY: list[Tier] = ["device"] * LAYERS
STREAMED: list[Tier] = ["ssd"] * LAYERS


@pytest.fixture(autouse=True)
def _small_matrices_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "SMALLEST", 1)


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """What steps alone chose, filled by what follows."""
    found: list[Tensor] = []
    own = Mixed.announce

    def announce(mixed: Mixed, choice: Tensor) -> None:
        found.append(choice)
        own(mixed, choice)

    monkeypatch.setattr(Mixed, "announce", announce)
    return found


def of_file(family: str, folder: Path, kind: str = "") -> Checkpoint:
    model = tiny_model(family, **{**SHAPE, **OTHERWISE.get(family, {})})
    return open_checkpoint(str(write_gguf(folder / "m.gguf", model, kind or KINDS[family])))


def opened(
    streamable: StreamableNetwork, tiers: list[Tier], few_rows: int = FEW_ROWS, rounds: bool = False
) -> LayerStream:
    options = StreamOptions(expert_cache_bytes=PLENTY, choose=lambda _: "single", few_rows=few_rows)
    stored = stored_layers(streamable)
    decoders = [Rounding(each) for each in stored.decoders or ()] if rounds else stored.decoders
    stream = LayerStream(list(streamable.network.layers), stored.layouts, tiers, decoders, None, options)
    list(stream.load())
    return stream


def rows(streamable: StreamableNetwork) -> list[Tensor]:
    """Logits of a text, token by token."""
    context = Context(streamable.network, 64)
    context.prefill([3, 4, 5, 6, 7])
    found = []
    for token in TEXT:
        found.append(context.score([token], [-1]))
        context.keep([0])
    return found


def trees(streamable: StreamableNetwork) -> list[Tensor]:
    """Logits of trees, one behind the other."""
    context = Context(streamable.network, 64)
    context.prefill([3, 4, 5, 6, 7])
    found = []
    for tokens, parents in TREES:
        found.append(context.score(tokens, parents))
        context.keep([0])
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("scored", [rows, trees], ids=["rows", "trees"])
def test_bits_are_the_same_where_experts_stay_and_where_they_are_streamed(
    scored: Callable[[StreamableNetwork], list[Tensor]],
    family: str,
    dtype: torch.dtype,
    tmp_path: Path,
    announced: list[Tensor],
) -> None:
    streamable = build_streamable(of_file(family, tmp_path), dtype, CPU)
    sizes = [1] * len(TEXT) if scored is rows else [len(tokens) for tokens, _ in TREES]
    are_light = scored is rows or dtype == torch.float32 or bfloat_loop() is PAIRS
    few_rows = FEW_ROWS if scored is rows else MORE_ROWS
    found: list[list[Tensor]] = []
    for tiers in (STAY, STREAMED):
        stream = opened(streamable, tiers, few_rows)
        announced.clear()
        found.append(scored(streamable))
        gone = [len(each) for each in announced[-LAYERS * len(sizes) :: LAYERS]]
        assert gone == (sizes if tiers == STAY and are_light else []), "in steps where they stay alone"
        assert stream.expert_use.in_place > 0
        stream.close()
    assert_same(*found)
    without = opened(streamable, STAY, few_rows)
    for layer in streamable.network.layers:
        assert layer.mlp.experts.__dict__.pop(STAYING)  # type: ignore[union-attr]
    assert_same(scored(streamable), found[0])
    without.close()
    if dtype == torch.float32:
        stream = opened(streamable, STAY, few_rows=0)
        for one, other in zip(scored(streamable), found[0], strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * float(other.abs().max()))
        stream.close()


def test_a_weight_of_a_shared_network_that_is_replaced_is_used(tmp_path: Path) -> None:
    streamable = build_streamable(of_file("glm4_moe", tmp_path), torch.float32, CPU)
    stream = opened(streamable, STAY)
    context = Context(streamable.network, 64)
    context.prefill([3, 4, 5])

    def row() -> Tensor:
        found = context.score([7], [-1])
        context.rewind(context.length)
        return found

    row()  # the first one makes a chain
    expected, mlp = row(), streamable.network.layers[1].mlp
    shared: Any = mlp.shared_experts  # type: ignore[union-attr]
    one, other = shared.gate_proj._parameters, shared.up_proj._parameters
    one["weight"], other["weight"] = other["weight"], one["weight"]
    assert not torch.equal(row(), expected)
    one["weight"], other["weight"] = other["weight"], one["weight"]
    assert torch.equal(row(), expected)
    stream.close()


@pytest.mark.parametrize("family", choose(["qwen3_moe"], list(KINDS)))
def test_what_was_chosen_and_used_is_told(family: str, tmp_path: Path, announced: list[Tensor]) -> None:
    streamable = build_streamable(of_file(family, tmp_path), torch.float32, CPU)
    stream = opened(streamable, STAY)
    record = RoutingRecord.of(streamable.network.layers)
    assert record
    assert stream.expert_use.experts == 0
    found: dict[int, list[Tensor]] = {}
    context = Context(streamable.network, 64)
    context.prefill([3, 4, 5])
    before = stream.expert_use.experts
    announced.clear()
    for token in TEXT:
        context.score([token], [-1])
        context.keep([0])
        for layer in range(LAYERS):
            found.setdefault(layer, []).append(record.chosen(layer))
    chosen = announced[0].numel()
    assert stream.expert_use.experts - before == LAYERS * len(TEXT) * chosen
    for layer in range(LAYERS):
        for token, each in enumerate(found[layer]):
            assert torch.equal(each, announced[token * LAYERS + layer])
    record.close()
    stream.close()
    assert not any(STAYING in layer.mlp.experts.__dict__ for layer in streamable.network.layers)  # type: ignore[union-attr]


@pytest.mark.parametrize("family", choose(["qwen3_moe", "gpt_oss"], list(KINDS)))
@pytest.mark.parametrize("tiers", [STAY, ["ram"] * LAYERS, STREAMED], ids=lambda tiers: tiers[0])
def test_layers_go_together_where_all_their_weights_stay(
    family: str, tiers: list[Tier], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streamable = build_streamable(of_file(family, tmp_path), torch.float32, CPU)
    stream, goes, own = opened(streamable, tiers), list[int](), Steps.run_all
    record = RoutingRecord.of(streamable.network.layers)
    assert record

    def run_all(programs: Sequence[Steps]) -> None:
        goes.append(len(programs))
        own(programs)

    monkeypatch.setattr(Steps, "run_all", run_all)
    found, chosen = rows(streamable), [record.chosen(layer) for layer in range(LAYERS)]
    assert goes == ([] if tiers == STREAMED else [LAYERS] * len(TEXT))
    used = stream.expert_use.experts
    monkeypatch.setattr(chains, "MOST_PRODUCTS", 0)
    goes.clear()
    assert_same(rows(streamable), found)
    assert not goes
    assert stream.expert_use.experts == 2 * used
    assert all(torch.equal(record.chosen(layer), chosen[layer]) for layer in range(LAYERS))
    record.close()
    stream.close()


@pytest.mark.parametrize("rule", ["of all", "of all, to 1", "of those chosen"])
def test_experts_are_chosen_as_torch_would(rule: str) -> None:
    logits = 3 * torch.randn(128)
    choice, weights = torch.zeros(8, dtype=torch.int64), torch.zeros(8)
    of_all, is_normalised = rule != "of those chosen", rule == "of all, to 1"
    chosen_by_loop(logits.data_ptr(), 128, 8, of_all, is_normalised, choice.data_ptr(), weights.data_ptr())
    found = (logits.softmax(0) if of_all else logits).topk(8)
    assert torch.equal(choice, found.indices)
    expected = found.values if of_all else found.values.softmax(0)
    torch.testing.assert_close(weights, expected / expected.sum() if is_normalised else expected)


@pytest.mark.parametrize("is_normalised", [True, False])
def test_experts_are_chosen_by_their_scores_as_the_library_does(is_normalised: bool) -> None:
    config = {"n_routed_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": is_normalised}
    router = Glm4MoeTopkRouter(Glm4MoeConfig(hidden_size=128, routed_scaling_factor=2.5, **config))
    router.weight.data = torch.eye(128)  # logits are what it is handed
    router.e_score_correction_bias = torch.rand(128)
    logits = 3 * torch.randn(1, 128)
    choice, weights = torch.zeros(8, dtype=torch.int64), torch.zeros(8)
    places = router.e_score_correction_bias.data_ptr(), is_normalised, choice.data_ptr(), weights.data_ptr()
    choose_scored(logits.data_ptr(), 128, 8, *places, 2.5)
    _, expected, chosen = router(logits)
    assert sorted(choice.tolist()) == sorted(chosen[0].tolist())
    torch.testing.assert_close(weights[choice.argsort()], expected[0][chosen[0].argsort()])


@pytest.mark.parametrize("is_scored", [False, True])
def test_experts_are_chosen_of_what_is_no_number(is_scored: bool) -> None:
    logits, bias = torch.full((16,), torch.nan), torch.zeros(16)
    choice, weights = torch.zeros(4, dtype=torch.int64), torch.zeros(4)
    if is_scored:
        choose_scored(logits.data_ptr(), 16, 4, bias.data_ptr(), True, choice.data_ptr(), weights.data_ptr(), 1.0)
    else:
        chosen_by_loop(logits.data_ptr(), 16, 4, True, True, choice.data_ptr(), weights.data_ptr())
    assert sorted(set(choice.tolist())) == sorted(choice.tolist()), "different ones"
    assert 0 <= int(choice.min()) <= int(choice.max()) < 16


def members(count: int) -> tuple[Tensor, list[Member]]:
    stack = torch.randn(count, 64, 32).bfloat16()
    found = [plain(each) for each in stack]
    return stack, [Member((each,)) for each in found if each is not None]


@pytest.mark.parametrize("order", [(0,), (1, 0), (0, 1, 3, 2, 4, 6, 5, 7)])
def test_a_stack_is_told_of_each_expert_in_whatever_order_they_lie(order: tuple[int, ...]) -> None:
    _, every = members(len(order))
    stack = Stack.of(lambda number: every[order[number]], len(order), ())
    assert stack
    assert stack.places[:, 0].tolist() == [every[place].pieces[0].told.ctypes.data for place in order]
    assert list(stack.members) == [every[place] for place in order], "kept, as loops are told of what they hold"


def test_no_stack_is_made_of_matrices_that_take_several_loops() -> None:
    _, every = members(7)
    narrow = plain(torch.randn(64, 32).half())
    assert narrow
    assert Stack.of([*every[:6], Member((narrow,))].__getitem__, 7, ()) is None
    assert Stack.of([*every[:3], None, *every[4:]].__getitem__, 7, ()) is None


def test_a_router_that_differs_in_a_word_is_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    layer: Any = tiny_model("qwen3_moe", **SHAPE).model.layers[0]
    assert sparse.known_mixture(layer.mlp)
    own = type(layer.mlp.gate).forward

    def forward(self: Any, hidden_states: Tensor) -> Any:
        return own(self, hidden_states + 1)

    monkeypatch.setattr(type(layer.mlp.gate), "forward", forward)
    assert sparse.known_mixture(layer.mlp) is None
