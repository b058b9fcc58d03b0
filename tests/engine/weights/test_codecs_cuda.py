"""The codecs on a CUDA device: the bytes and the bits of the CPU, with bitsandbytes' kernel and without."""

from itertools import product

import pytest
import torch

from engine.model.formats import four_bits
from engine.weights.codecs.codec import codec_named
from tests.engine.weights.codec_cases import TYPES, random_weight

pytestmark = pytest.mark.gpu
SHAPES = [(512, 1024), (33, 192), (5, 40, 128), (3, 128, 256)]


@pytest.mark.parametrize(("codec", "shape", "dtype"), [*product(("cast", "int8", "nf4"), SHAPES, TYPES)])
def test_bytes_and_bits_are_those_of_the_cpu(codec: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    weight = random_weight(*shape).to(dtype)
    stored = codec_named(codec).encode("w", weight)
    on_cuda = codec_named(codec).encode("w", weight.cuda())
    assert all(torch.equal(on_cuda[part].cpu(), stored[part]) for part in stored)
    for used in TYPES:
        expected, found = torch.empty_like(weight, dtype=used), torch.empty_like(weight, dtype=used, device="cuda")
        codec_named(codec).decode(stored, "w", expected)
        codec_named(codec).decode(on_cuda, "w", found)
        assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_table_and_kernel_give_the_same_bits(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("bitsandbytes", reason="compares with bitsandbytes' kernel")
    device = torch.device("cuda", torch.cuda.current_device())
    assert four_bits.unpacking_for("nf4", device) is four_bits.unpack_by_kernel
    monkeypatch.setattr(four_bits, "KERNEL_WEIGHTS", 1 << 18)
    codes = torch.randint(0, 256, (1 << 19,), dtype=torch.uint8, device=device)
    absmax = torch.rand(1 << 14, device=device)
    by_kernel, by_table = (torch.empty(1 << 20, dtype=dtype, device=device) for _ in range(2))
    four_bits.unpack_by_kernel("nf4", 64, codes, absmax, by_kernel)
    four_bits.unpack_by_table("nf4", 64, codes, absmax, by_table)
    assert torch.equal(by_kernel, by_table)


def test_temporaries_of_decoding_stay_small() -> None:
    weight = random_weight(1024, 8192).bfloat16().cuda()
    stored, out = codec_named("nf4").encode("w", weight), torch.empty_like(weight)
    codec_named("nf4").decode(stored, "w", out)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    codec_named("nf4").decode(stored, "w", out)
    assert torch.cuda.max_memory_allocated() - before < weight.nbytes // 5
