"""What every codec promises: names, sizes, what stays as it is, small errors, the same bits however the work is cut."""

from itertools import product

import pytest
import torch

from engine.errors import InputError
from engine.weights.codecs.codec import CODECS, codec_named, stored_bytes
from engine.weights.codecs.plain import SMALLEST
from tests.engine.weights.codec_cases import (
    COMPRESSING,
    TYPES,
    WEIGHT,
    random_weight,
    relative_error,
    there_and_back,
)


@pytest.mark.parametrize("name", CODECS)
def test_codecs_are_found_by_their_names(name: str) -> None:
    assert codec_named(name).name == name


def test_an_unknown_codec_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InputError, match=r"no weight codec 'fp4'.*plain, cast, int8, nf4\."):
        codec_named("fp4")


@pytest.mark.parametrize(("codec", "dtype"), [*product(CODECS, TYPES)])
@pytest.mark.parametrize("shape", [(4096,), (3, 7, 1), (96, 100), (100, 192), (3, 40, 128), (2, 2, 33, 64)])
def test_the_outline_is_what_encoding_gives(codec: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    stored = codec_named(codec).encode(WEIGHT, random_weight(*shape).to(dtype))
    outline = codec_named(codec).outline(WEIGHT, shape, dtype)
    assert [(n, t.dtype, t.shape) for n, t in stored.items()] == [(n, t.dtype, t.shape) for n, t in outline.items()]
    assert all(name.startswith(WEIGHT) for name in stored)
    assert all(tensor.is_contiguous() for tensor in stored.values())
    assert stored_bytes(shape, codec, WEIGHT, dtype) == sum(tensor.nbytes for tensor in stored.values())


def test_bytes_for_a_large_matrix_are_what_the_formats_promise() -> None:
    weights = 8192 * 28672
    assert stored_bytes((8192, 28672), "plain") == stored_bytes((8192, 28672), "cast") == 2 * weights
    assert stored_bytes((8192, 28672), "cast", dtype=torch.float32) == 2 * weights
    assert stored_bytes((8192, 28672), "int8") == weights + 4 * 8192
    assert stored_bytes((8192, 28672), "nf4") == weights // 2 + weights // 64 + 4 * weights // (64 * 256) + 4
    assert stored_bytes((8192, 28672), "nf4") * 8 / weights == pytest.approx(4.127, abs=1e-3)


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("input_layernorm.weight", (8192,)),
        ("self_attn.sinks", (64,)),
        ("self_attn.q_proj.bias", (8192,)),
        ("mlp.experts.gate_up_proj_bias", (32, 5760)),
        ("mlp.gate.weight", (128, 2048)),
        ("mlp.router.weight", (32, 2880)),
        ("mlp.shared_expert_gate.weight", (1, 4096)),
        ("self_attn.k_norm.weight", (8, 128)),
    ],
)
def test_what_must_not_change_is_stored_as_it_is(codec: str, name: str, shape: tuple[int, ...]) -> None:
    weight = random_weight(*shape).bfloat16()
    stored = codec_named(codec).encode(name, weight)
    assert list(stored) == [name]
    assert torch.equal(there_and_back(codec_named(codec), weight, name=name), weight)


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("name", [WEIGHT, "mlp.gate_proj.weight", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"])
def test_projections_are_compressed(codec: str, name: str) -> None:
    assert name not in codec_named(codec).outline(name, (4, 64, 128), torch.bfloat16)


def test_nf4_leaves_rows_that_are_no_whole_blocks() -> None:
    weight = random_weight(128, 96).half()
    assert torch.equal(there_and_back(codec_named("nf4"), weight), weight)


def test_cast_narrows_float32_matrices_and_nothing_else() -> None:
    weight = random_weight(80, 65)
    assert torch.equal(there_and_back(codec_named("cast"), weight), weight.bfloat16().float())
    assert torch.equal(there_and_back(codec_named("cast"), weight, name="mlp.gate.weight"), weight)
    assert torch.equal(there_and_back(codec_named("cast"), weight.half()), weight.half())
    assert torch.equal(there_and_back(codec_named("plain"), weight), weight)


@pytest.mark.parametrize(("codec", "dtype", "used"), [*product(("plain", "cast"), TYPES, TYPES)])
def test_stored_16_bits_serve_any_number_type(codec: str, dtype: torch.dtype, used: torch.dtype) -> None:
    weight = random_weight(64, 64).to(dtype)
    out = torch.empty_like(weight, dtype=used)
    codec_named(codec).decode({WEIGHT: weight}, WEIGHT, out)
    assert torch.equal(out, weight.to(used))


@pytest.mark.parametrize(("codec", "limit"), [("int8", 0.01), ("nf4", 0.1)])
@pytest.mark.parametrize(("dtype", "used"), [*product(TYPES, TYPES)])
def test_the_error_is_that_of_the_format(codec: str, limit: float, dtype: torch.dtype, used: torch.dtype) -> None:
    weight = random_weight(512, 1024).to(dtype)
    assert limit / 2 < relative_error(there_and_back(codec_named(codec), weight, used), weight) < limit


@pytest.mark.parametrize("codec", COMPRESSING)
def test_narrow_results_are_the_wide_ones_rounded_once(codec: str) -> None:
    weight = random_weight(128, 256)
    wide = there_and_back(codec_named(codec), weight)
    for used in (torch.bfloat16, torch.float16):
        assert torch.equal(there_and_back(codec_named(codec), weight, used), wide.to(used))


@pytest.mark.parametrize("codec", COMPRESSING)
def test_what_was_decoded_is_encoded_the_same_way_again_for_each_block(codec: str) -> None:
    once = there_and_back(codec_named(codec), random_weight(64, 256))
    assert relative_error(there_and_back(codec_named(codec), once), once) < 0.02


@pytest.mark.parametrize("codec", COMPRESSING)
def test_zeros_stay_zeros_among_other_rows_and_alone(codec: str) -> None:
    weight = random_weight(64, 256)
    weight[5, 64:128] = 0
    weight[9] = 0
    found = there_and_back(codec_named(codec), weight)
    assert torch.count_nonzero(found[9]) == torch.count_nonzero(found[5, 64:128]) == 0
    assert torch.count_nonzero(there_and_back(codec_named(codec), torch.zeros(64, 64))) == 0


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("shape", [(40, 128), (31, 64), (512, 64)])
def test_an_expert_is_stored_and_decoded_as_if_it_were_alone(codec: str, shape: tuple[int, int]) -> None:
    experts = random_weight(5, *shape).bfloat16()
    stored = codec_named(codec).encode("mlp.experts.down_proj", experts)
    together = torch.empty_like(experts)
    codec_named(codec).decode(stored, "mlp.experts.down_proj", together)
    for expert in range(5):
        alone = torch.empty_like(experts[expert])
        part = {name: tensor[expert] for name, tensor in stored.items()}
        codec_named(codec).decode(part, "mlp.experts.down_proj", alone)
        assert torch.equal(alone, together[expert])
    if experts[0].numel() >= SMALLEST:
        matrix = codec_named(codec).encode("mlp.experts.down_proj", experts[3])
        assert all(torch.equal(matrix[name], stored[name][3]) for name in matrix)


@pytest.mark.parametrize("codec", CODECS)
def test_encoding_leaves_the_weight_alone(codec: str) -> None:
    weight = random_weight(64, 64)
    codec_named(codec).encode(WEIGHT, weight)
    assert torch.equal(weight, random_weight(64, 64))


@pytest.mark.parametrize("codec", CODECS)
def test_a_transposed_weight_is_stored_as_its_copy(codec: str) -> None:
    weight = random_weight(128, 192).t()
    stored, copied = (codec_named(codec).encode(WEIGHT, w) for w in (weight, weight.contiguous()))
    assert all(torch.equal(stored[part], copied[part]) for part in copied)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_stored_tensors_may_lie_at_odd_places_of_a_buffer(codec: str) -> None:
    weight = random_weight(33, 192)
    expected, out = there_and_back(codec_named(codec), weight), torch.empty_like(weight)
    stored = codec_named(codec).encode(WEIGHT, weight)
    for name, tensor in stored.items():
        buffer = torch.zeros(tensor.nbytes + tensor.itemsize, dtype=torch.uint8)
        stored[name] = buffer[tensor.itemsize :].view(tensor.dtype).view(tensor.shape)
        stored[name].copy_(tensor)
    codec_named(codec).decode(stored, WEIGHT, out)
    assert torch.equal(out, expected)
