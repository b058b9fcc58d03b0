"""Every format decoded on a CUDA device: the bits of the CPU, compiled or not."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.model.formats.packed import PackedWeight
from engine.model.weight_loader import LazyTensor, stored_dtype
from tests.bench.formats import gguf_weights, packed_weights, samples_here

pytestmark = pytest.mark.gpu


def parts_of(weight: PackedWeight) -> dict[str, Tensor]:
    """All stored tensors, read."""
    return {role: LazyTensor(info, stored_dtype(info))[...] for role, info in weight.parts.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_format_has_the_bits_of_the_cpu(dtype: torch.dtype, tmp_path: Path) -> None:
    for weight in [*packed_weights(tmp_path, samples_here(256, 512)), *gguf_weights(tmp_path, 256, 512)]:
        parts = parts_of(weight)
        expected = torch.empty(weight.shape, dtype=dtype)
        weight.format.decode(parts, expected)
        on_cuda = {role: part.cuda() for role, part in parts.items()}
        for _ in range(2):  # compiled, then compiled before
            found = torch.empty(weight.shape, dtype=dtype, device="cuda")
            weight.format.decode(on_cuda, found)
            assert torch.equal(found.cpu().nan_to_num(), expected.nan_to_num()), weight.format.name
