"""Blocks of GGUF files decoded as ggml's reference decodes them, bit for bit, into whatever lies in whatever order."""

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.gguf_header import TYPES, BlockType
from engine.model.decoding import chunks
from engine.model.gguf.packed_blocks import Gguf, Order
from tests.engine.gguf_files import decode

BY_NAME = {kind.name: kind for kind in TYPES}
HALVES = {
    "Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
    "TQ1_0": (52,), "TQ2_0": (64,),
}  # fmt: skip
"""Where the float16 of a block lie, if not at its beginning alone."""


def blocks(kind: BlockType, rows: int, columns: int, seed: int = 0) -> Tensor:
    """Any bytes there can be, but for scales that are no finite numbers."""
    random = torch.Generator().manual_seed(seed)
    if kind.plain:
        return torch.randn(rows, columns, generator=random)
    stored = torch.randint(0, 256, (rows, columns // kind.elements, kind.nbytes), dtype=torch.uint8, generator=random)
    if kind.name == "MXFP4":
        stored[..., 0] = torch.arange(rows * columns // 32).view(rows, -1).remainder(240)
    elif kind.name == "IQ1_M":
        stored[..., 55] &= 0x3F
    else:
        for at in HALVES.get(kind.name, (0,)):
            stored[..., at + 1] &= 0xBB  # exponents below the largest, of either sign, subnormal ones too
    return stored.view(rows, -1)


def reference(kind: BlockType, stored: Tensor) -> Tensor:
    return torch.from_numpy(decode(stored.numpy(), kind.name).copy())


def same_bits(found: Tensor, expected: Tensor) -> bool:
    return torch.equal(found.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8))


@pytest.mark.parametrize("kind", [kind for kind in TYPES if not kind.plain], ids=lambda kind: kind.name)
def test_every_type_is_decoded_as_by_the_reference(kind: BlockType) -> None:
    stored = blocks(kind, 24, 512)
    expected = reference(kind, stored)
    assert np.isfinite(expected.numpy()).all()
    assert len(np.unique(expected.numpy())) > (90 if kind.name.startswith("TQ") else 100)  # 48 blocks of three numbers
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        out = torch.full((24, 512), 7.0, dtype=dtype)
        Gguf((kind,)).decode({"0": stored}, out)
        assert same_bits(out, expected.to(dtype))


def test_scales_that_are_no_numbers_raise_nothing() -> None:
    for kind in TYPES:
        if not kind.plain:
            stored = torch.full((2, 256 // kind.elements * kind.nbytes), 255, dtype=torch.uint8)
            Gguf((kind,)).decode({"0": stored}, torch.empty(2, 256))


ORDERS: dict[str, tuple[Order, int, tuple[int, ...]]] = {
    "same": ("same", 1, (6, 8, 256)),
    "heads": ("heads", 1, (48, 256)),
    "joined": ("joined", 2, (6, 16, 256)),
    "joined matrices": ("joined", 2, (96, 256)),
    "halves": ("halves", 2, (6, 256, 16)),
    "turned": ("turned", 1, (6, 256, 8)),
    "woven turned": ("woven turned", 2, (6, 256, 16)),
}


def put_by_hand(order: Order, parts: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    """The same in few words, of whole decoded parts."""
    if order == "heads":
        return parts[0].view(3, 8, 2, 256).swapaxes(1, 2).reshape(shape)
    cubes = [part.view(6, 8, 256) for part in parts]
    if order == "joined":
        return torch.cat(parts, 0) if len(shape) == 2 else torch.cat(cubes, 1)
    if order == "halves":
        return torch.cat([cube.mT for cube in cubes], -1)
    if order == "woven turned":
        return torch.stack([cube.mT for cube in cubes], -1).reshape(shape)
    return cubes[0].mT if order == "turned" else cubes[0]


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("chunk", [1, 3000, 1 << 20])
@pytest.mark.parametrize("order", ORDERS)
def test_rows_find_their_places(order: str, chunk: int, strided: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every order, whatever the chunks, and into memory that belongs to something larger."""
    monkeypatch.setattr(chunks, "CHUNK_WEIGHTS", chunk)
    own, count, shape = ORDERS[order]
    kinds = (BY_NAME["Q4_K"], BY_NAME["Q8_0"])[:count]
    stored = [blocks(kind, 48, 256, seed) for seed, kind in enumerate(kinds)]
    expected = put_by_hand(own, [reference(*pair) for pair in zip(kinds, stored, strict=True)], shape)
    whole = torch.full((*shape[:-1], 2, shape[-1]), 7.0)
    out = whole[..., 1, :] if strided else torch.empty(shape)
    parts = {str(number): part if len(shape) == 2 else part.view(6, 8, -1) for number, part in enumerate(stored)}
    Gguf(kinds, own, heads=3 if own == "heads" else 0).decode(parts, out)
    assert same_bits(out, expected)
    assert (whole[..., 0, :] == 7).all()


@pytest.mark.parametrize("chunk", [3000, 1 << 20])
def test_latent_keys_and_values_find_their_places(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each head, as many rows of keys as they are wide, then those of values."""
    monkeypatch.setattr(chunks, "CHUNK_WEIGHTS", chunk)
    kinds = (BY_NAME["Q8_0"], BY_NAME["Q4_0"])
    stored = [blocks(kinds[0], 3 * 64, 32), blocks(kinds[1], 3 * 16, 64, 1)]
    keys, values = (reference(*pair) for pair in zip(kinds, stored, strict=True))
    expected = torch.cat([keys.view(3, 64, 32).mT, values.view(3, 16, 64)], 1).reshape(3 * 48, 64)
    out = torch.empty(3 * 48, 64)
    parts = {"0": stored[0].view(3, 64, -1), "1": stored[1].view(3, 16, -1)}
    Gguf(kinds, "latent", heads=3, split=32).decode(parts, out)
    assert same_bits(out, expected)


def test_plain_numbers_in_other_orders() -> None:
    """Biases of permuted rows, and norms that are stored plus 1."""
    bias = torch.arange(48.0)
    out = torch.empty(48, dtype=torch.bfloat16)
    Gguf((BY_NAME["F32"],), "heads", heads=3).decode({"0": bias}, out)
    assert torch.equal(out, bias.view(3, 8, 2).swapaxes(1, 2).reshape(48).bfloat16())
    norm = torch.tensor([1.0, 0.75, 1.0009765625])
    Gguf((BY_NAME["F32"],), plus=-1.0).decode({"0": norm}, out[:3])
    assert out[:3].tolist() == [0.0, -0.25, 0.0009765625]
    woven = torch.empty(2, 6)
    gates, ups = torch.arange(6.0).view(2, 3), torch.arange(6.0, 12.0).view(2, 3).bfloat16()
    Gguf((BY_NAME["F32"], BY_NAME["BF16"]), "woven").decode({"0": gates, "1": ups}, woven)
    assert woven.tolist() == [[0, 6, 1, 7, 2, 8], [3, 9, 4, 10, 5, 11]]
