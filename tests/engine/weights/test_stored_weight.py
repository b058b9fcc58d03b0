"""Weights that stay as they are stored: multiplied so for few rows, decoded for all else a network may do with them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.model.products.product import Product
from engine.weights.codecs.codec import codec_named
from engine.weights.streaming.stored_weight import StoredWeight, multiplied_names
from tests.engine.tiny_models import SOME, save_tiny_model
from tests.engine.weights.test_layer_stream import Streamed, pack, passes

NAME = "mlp.up_proj.weight"


class Counting:
    """A decoder that tells how often it decoded."""

    def __init__(self, weight: Tensor) -> None:
        self.decoded = 0
        self.codec = codec_named("int8")
        self.stored = self.codec.encode(NAME, weight)

    def decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        self.decoded += 1
        self.codec.decode(stored, name, out)

    def codec_weight(self) -> Tensor:
        weight = torch.empty(512, 256)
        self.codec.decode(self.stored, NAME, weight)
        return weight

    def product(
        self, stored: Mapping[str, Tensor], name: str, shape: tuple[int, int], turned: bool = False
    ) -> Product | None:
        return self.codec.product(stored, name, shape, turned)


@pytest.fixture
def counting() -> Counting:
    return Counting(torch.randn(512, 256, generator=torch.Generator().manual_seed(1)))


def weight_of(counting: Counting, few_rows: int) -> StoredWeight:
    weight = StoredWeight(NAME, counting, torch.zeros(512, 256), few_rows)
    weight.point(counting.stored)
    return weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_rows_are_multiplied_without_decoding(counting: Counting, dtype: torch.dtype) -> None:
    weight, bias = weight_of(counting, 8), torch.randn(512)
    states = torch.randn(2, 4, 256).to(dtype)
    found = functional.linear(states, weight, bias.to(dtype))
    assert (found.shape, found.dtype, counting.decoded) == ((2, 4, 512), dtype, 0)
    expected = functional.linear(states.float(), weight.decoded(), bias.to(dtype).float())
    near = 1e-2 if dtype == torch.bfloat16 else 1e-5
    assert float((found.float() - expected).abs().max()) <= near * float(expected.abs().max())


def test_many_rows_of_float32_are_multiplied_block_by_block(counting: Counting) -> None:
    weight, bias = weight_of(counting, 8), torch.randn(512)
    states = torch.randn(3, 3, 256)
    found = functional.linear(states, weight, bias)
    assert counting.decoded == 0
    assert found.is_contiguous(), "or DeepSeek V2 makes no complex numbers of parts of it"
    torch.testing.assert_close(found, functional.linear(states, weight.decoded(), bias), rtol=1e-4, atol=1e-4)


def test_many_rows_of_another_type_are_decoded_once_a_run(counting: Counting) -> None:
    weight = StoredWeight(NAME, counting, torch.zeros(512, 256, dtype=torch.bfloat16), 8)
    states = torch.randn(9, 256).bfloat16()
    for runs in (1, 2):
        weight.point(counting.stored)
        first, again = functional.linear(states, weight), functional.linear(states, weight)
        assert torch.equal(first, again)
        assert counting.decoded == runs


@pytest.mark.parametrize("few_rows", [1, 64])
def test_what_is_stored_in_the_type_of_the_states_is_multiplied_where_it_lies(few_rows: int) -> None:
    """No number of it is written anywhere: from two rows on where the processor has a unit for that, else with many."""
    codec, states = codec_named("plain"), torch.randn(65, 256).bfloat16()
    stored = codec.encode(NAME, torch.randn(512, 256).bfloat16())
    place = torch.zeros(512, 256, dtype=torch.bfloat16)
    weight = StoredWeight(NAME, codec, place, few_rows)
    weight.point(stored)
    assert torch.equal(functional.linear(states, weight), functional.linear(states, stored[NAME]))
    assert not place.any()


def test_whatever_else_is_done_with_it_finds_the_numbers(counting: Counting) -> None:
    weight = weight_of(counting, 8)
    assert (weight.shape, weight.dtype, weight.ndim, weight.nbytes) == ((512, 256), torch.float32, 2, 512 * 256 * 4)
    assert counting.decoded == 0, "that took no numbers"
    states, plain = torch.randn(3, 256), weight.decoded()
    assert torch.equal(states @ weight.T, states @ plain.T)
    assert torch.equal(torch.cat([weight, weight]), torch.cat([plain, plain]))
    assert torch.equal(weight[3:5], plain[3:5])
    assert weight.sum() == plain.sum()
    assert counting.decoded == 1


def test_weights_that_share_a_place_are_decoded_when_they_are_needed(counting: Counting) -> None:
    other, place = Counting(torch.randn(512, 256)), torch.zeros(512, 256, dtype=torch.bfloat16)
    turn = list[object]([None])
    one, two = (StoredWeight(NAME, each, place, 8, turn=turn) for each in (counting, other))
    one.point(counting.stored)
    two.point(other.stored)
    states = torch.randn(9, 256).bfloat16()
    expected = [each.codec_weight().bfloat16() for each in (counting, other)]
    for weight, plain in zip((one, two, one, one), (*expected, expected[0], expected[0]), strict=True):
        assert torch.equal(functional.linear(states, weight), functional.linear(states, plain))
    assert (counting.decoded, other.decoded) == (2, 1), "the other one had taken the place in between"
    assert torch.equal(torch.cat([one, two]), torch.cat(expected)), "at once, each in memory of its own"


def test_what_is_stored_as_it_is_computed_with_is_not_copied() -> None:
    stored, place = torch.randn(512, 256), torch.full((512, 256), torch.nan)
    weight = StoredWeight(NAME, codec_named("plain"), place, 8)
    weight.point({NAME: stored})
    states = torch.randn(9, 256)
    assert torch.equal(functional.linear(states, weight), functional.linear(states, stored))
    assert weight.decoded() is stored
    assert bool(place.isnan().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_scratch_layer_of_a_dense_model_holds_one_matrix(dtype: torch.dtype, tmp_path: Path) -> None:
    save_tiny_model("llama", tmp_path / "model")
    streamed = Streamed(tmp_path / "model")
    streamed.streamable.network.model.to(dtype)
    stream = streamed.stream(pack(streamed.streamable, tmp_path, "nf4"), ["ssd"] * 4, few_rows=8)
    own = streamed.streamable.network.layers[0].state_dict(keep_vars=True).values()
    assert len(stream._scratch._one) == max(each.numel() for each in own) * dtype.itemsize
    assert all(each.ndim == 1 for layer in stream._scratch._layers.values() for each in layer.values())
    stream.close()


@pytest.mark.parametrize("family", SOME)
@pytest.mark.parametrize("codec", ["cast", "nf4"])
def test_streamed_equals_resident_where_few_rows_are_not_decoded(family: str, codec: str, tmp_path: Path) -> None:
    """Wherever layers are, the same ways are taken; and what comes is what decoded weights give, but for rounding."""
    save_tiny_model(family, tmp_path / "model")
    streamed = Streamed(tmp_path / "model")
    layouts = pack(streamed.streamable, tmp_path, codec)
    found = []
    for tiers, few_rows in ((["ssd"] * 4, 64), (["ram", "ssd", "ram", "ram"], 64), (["ssd"] * 4, 0)):
        stream = streamed.stream(layouts, tiers, few_rows=few_rows)  # type: ignore[arg-type]
        found.append(passes(streamed.context))
        stream.close()
        streamed.context.rewind(0)
    for one, same, decoded in zip(*found, strict=True):
        assert torch.equal(one, same)
        torch.testing.assert_close(one, decoded, rtol=1e-3, atol=1e-4)


def test_only_the_weights_of_linear_modules_stay_stored() -> None:
    layer = nn.ModuleDict(
        {"proj": nn.Linear(4, 4), "norm": nn.LayerNorm(4), "own": type("Own", (nn.Linear,), {})(4, 4)}
    )
    assert multiplied_names(layer) == {"proj.weight"}
