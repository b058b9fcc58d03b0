"""What codecs refuse, and what they never exceed: extreme numbers, damaged layers, threads, chunks, temporaries."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from engine.errors import ModelError
from engine.model.decoding import chunks
from engine.weights.codecs import plain
from engine.weights.codecs.codec import CODECS, codec_named
from engine.weights.codecs.nf4 import compress_absmax
from tests.campaigns.extent import choose
from tests.engine.weights.codec_cases import COMPRESSING, WEIGHT, random_weight, relative_error, there_and_back


@pytest.fixture
def _threads_restored() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("_threads_restored")
def test_the_mean_absmax_does_not_depend_on_threads(seed: int) -> None:
    absmax = random_weight(500_000, seed=seed).abs()
    torch.set_num_threads(1)
    expected, mean = compress_absmax(absmax), absmax.mean()
    assert torch.equal(expected[2], mean.view(1))
    for threads in (2, 3, 16):
        torch.set_num_threads(threads)
        assert all(torch.equal(found, one) for found, one in zip(compress_absmax(absmax), expected, strict=True))


class Allocations(TorchDispatchMode):
    """Notes how large the largest tensor is that an operation makes, given ones and views of them left out."""

    def __init__(self, *given: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types here
        self.given = {tensor.untyped_storage().data_ptr() for tensor in given}
        self.largest = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor) and tensor.device.type != "meta":
                storage = tensor.untyped_storage()
                self.largest = max(self.largest, 0 if storage.data_ptr() in self.given else storage.nbytes())
        return result


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_smallest_and_largest_numbers_survive(codec: str) -> None:
    for scale, limit in ((1e-41, 1.0), (1e-34, 0.12), (1e36, 0.12)):
        weight = random_weight(64, 64) * scale
        found = there_and_back(codec_named(codec), weight)
        assert bool(found.isfinite().all())
        assert relative_error(found, weight) <= limit


@pytest.mark.parametrize("codec", COMPRESSING)
def test_numbers_too_large_to_be_decoded_again_are_refused(codec: str) -> None:
    with pytest.raises(ModelError, match="not finite"):
        codec_named(codec).encode(WEIGHT, random_weight(64, 256).sign() * 3e38)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("shape", [(128,), (64, 128), (2, 64, 128)])
def test_numbers_that_are_not_finite_are_refused_by_name(codec: str, bad: float, shape: tuple[int, ...]) -> None:
    weight = random_weight(*shape).half()
    weight.view(-1)[-3] = bad
    with pytest.raises(ModelError, match=rf"'{WEIGHT}' holds a number that is not finite"):
        codec_named(codec).encode(WEIGHT, weight)


def test_a_number_too_large_for_16_bits_is_refused() -> None:
    weight = random_weight(64, 64)
    weight[3, 3] = torch.finfo(torch.float32).max
    with pytest.raises(ModelError, match="not finite"):
        codec_named("cast").encode(WEIGHT, weight)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.int8, torch.float8_e4m3fn])
def test_other_number_types_are_refused_by_name(codec: str, dtype: torch.dtype) -> None:
    with pytest.raises(ModelError, match=rf"'{WEIGHT}' holds numbers of type {str(dtype)[6:]}"):
        codec_named(codec).encode(WEIGHT, torch.zeros(64, 64, dtype=dtype))


@pytest.mark.parametrize("codec", CODECS)
def test_a_stored_tensor_that_is_missing_or_does_not_fit_is_named(codec: str) -> None:
    stored = codec_named(codec).encode(WEIGHT, random_weight(64, 128))
    first = next(iter(stored))
    with pytest.raises(ModelError, match=rf"'{first}' is missing"):
        codec_named(codec).decode({}, WEIGHT, torch.empty(64, 128))
    with pytest.raises(ModelError, match=rf"'{first}' has the shape \(64, \d+\) and not \(32, \d+\)"):
        codec_named(codec).decode(stored, WEIGHT, torch.empty(32, 128))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.usefixtures("_threads_restored")
def test_neither_chunks_nor_threads_change_a_bit(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = random_weight(choose(300, 1200), 1792).bfloat16()
    reference = codec_named(codec).encode(WEIGHT, weight)
    expected = there_and_back(codec_named(codec), weight)
    for chunk, threads in ((1 << 17, 2), (1 << 17, 16), (1 << 12, 1), (64 * 1000, 1), (1 << 22, 1)):
        monkeypatch.setattr(plain, "CHUNK_WEIGHTS", chunk)
        monkeypatch.setattr(chunks, "CHUNK_WEIGHTS", chunk)
        torch.set_num_threads(threads)
        stored = codec_named(codec).encode(WEIGHT, weight)
        assert all(torch.equal(stored[part], reference[part]) for part in reference)
        assert torch.equal(there_and_back(codec_named(codec), weight), expected)


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("shape", choose([(4, 512, 4096)], [(2048, 4096), (4, 512, 4096)]))
def test_temporaries_are_small_beside_the_weight(codec: str, shape: tuple[int, ...]) -> None:
    weight = random_weight(*shape).bfloat16()
    stored, out = codec_named(codec).encode(WEIGHT, weight), torch.empty_like(weight)
    with Allocations(weight, out, *stored.values()) as decoding:
        codec_named(codec).decode(stored, WEIGHT, out)
    assert decoding.largest <= weight.nbytes // 16  # none at all where compiled loops decode
    with Allocations(weight) as encoding:
        codec_named(codec).encode(WEIGHT, weight)
    assert encoding.largest <= max(tensor.nbytes for tensor in stored.values())
