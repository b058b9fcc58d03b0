"""Experts whose rows are rounded to 8 bits: the same bits wherever they lie, and whatever rows are beside."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import quantize
from torch import Tensor

from engine.model.network import find_layers
from engine.model.products import product
from engine.model.products.arranged import rounds_blocks
from engine.model.products.product import blocks
from engine.model.streamable_network import StreamableNetwork, build_streamable
from engine.weights.codecs.rounding import Rounding
from engine.weights.streaming.experts.binding import find_experts
from engine.weights.streaming.experts.followed import FollowedExperts, Use
from tests.campaigns.extent import choose
from tests.engine.tiny_models import tiny_model
from tests.engine.weights.test_expert_products import WIDTHS
from tests.engine.weights.test_layer_stream import CPU, assert_same
from tests.engine.weights.test_routed_layers import MORE_ROWS, STAY, STREAMED, announced, of_file, opened, rows, trees

__all__ = ["announced"]
pytestmark = pytest.mark.skipif(not rounds_blocks(["Q4_0"]), reason="this processor has no loop for rows in 8 bits")


@pytest.fixture(autouse=True)
def _small_matrices_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "SMALLEST", 1)


class Blocks:
    """A `Decoder` of stacks in Q4_0."""

    def decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        found = blocks("Q4_0", stored[name], out.shape[1])
        assert found is not None
        found.decode(out)

    def product(
        self, stored: Mapping[str, Tensor], name: str, shape: tuple[int, int], turned: bool = False
    ) -> product.Product | None:
        assert not turned
        return blocks("Q4_0", stored[name], shape[1])


@pytest.mark.parametrize("few_rows", [1, 64])
def test_a_row_in_8_bits_has_the_same_bits_whichever_rows_its_experts_have_beside_it(few_rows: int) -> None:
    layers = find_layers(tiny_model("qwen3_moe", **WIDTHS["qwen3_moe"]))
    experts = next(each for layer in layers if (each := find_experts(layer)))
    named = {experts.prefix + name: stack.detach() for name, stack in experts.module.named_parameters()}
    stacks = {
        name: [torch.from_numpy(quantize(each.numpy(), GGMLQuantizationType.Q4_0)) for each in stack]
        for name, stack in named.items()
    }
    rounding, exact = (FollowedExperts(experts, decoder, few_rows, Use()) for decoder in (Rounding(Blocks()), Blocks()))
    hidden, weights, choice = torch.randn(40, 64), torch.rand(40, 2), torch.tensor([[0, 3], [3, 1]] * 20)

    def parts_of(expert: int) -> dict[str, Tensor]:
        return {name: stacks[name][expert] for name in stacks}

    together = rounding(hidden, choice, weights, parts_of)
    for some in (slice(7, 8), slice(10, 12), slice(20, 37)):
        assert torch.equal(rounding(hidden[some], choice[some], weights[some], parts_of), together[some])
    other = exact(hidden, choice, weights, parts_of)
    assert not torch.equal(together, other)
    assert float((together - other).norm() / other.norm()) < 0.03


@pytest.mark.parametrize(
    ("family", "kind"), choose([("glm4_moe", "Q4_0")], [("glm4_moe", "Q4_0"), ("gpt_oss", "MXFP4")])
)
@pytest.mark.parametrize("scored", [rows, trees], ids=["rows", "trees"])
def test_rows_in_8_bits_have_the_same_bits_where_experts_stay_and_where_they_are_streamed(
    scored: Callable[[StreamableNetwork], list[Tensor]], family: str, kind: str, tmp_path: Path, announced: list[Tensor]
) -> None:
    streamable = build_streamable(of_file(family, tmp_path, kind), torch.float32, CPU)
    for few_rows in (1, MORE_ROWS):
        found: list[list[Tensor]] = []
        for tiers in (STAY, STREAMED):
            stream = opened(streamable, tiers, few_rows, rounds=True)
            announced.clear()
            found.append(scored(streamable))
            assert bool(announced) == (tiers == STAY and (few_rows == MORE_ROWS or scored is rows)), "in steps"
            assert stream.expert_use.in_place == stream.expert_use.experts, "also of more rows"
            stream.close()
        assert_same(*found)
    exact = opened(streamable, STAY, MORE_ROWS)
    expected = scored(streamable)
    exact.close()
    assert not any(map(torch.equal, found[0], expected)), "rounded they are"
