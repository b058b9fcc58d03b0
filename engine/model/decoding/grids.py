"""Tables of GGUF's blocks of one to three bits: an index finds four or eight numbers at once, or their signs.

Numbers of the grids are small and whole: eight of them are one item of 64 bits. transformers has the grids, as
ggml-common.h defines them.
"""

import torch
from torch import Tensor
from transformers import __version__ as VERSION  # noqa: N812  # a constant

from engine.errors import ModelError
from engine.model.decoding.tables import DELTA, table
from engine.protocol.sentences import say


@table
def spread_bits(value: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """For every byte its eight bits, lowest first, as `value` or 0 of an integer type: 256 items of as many bytes."""
    bits = torch.arange(256)[:, None] >> torch.arange(8) & 1
    item = torch.int64 if dtype.itemsize == 1 else torch.complex128
    return (bits * value).to(dtype).view(item).view(-1).to(device)


@table
def grid(name: str, device: torch.device) -> Tensor:
    """A grid of transformers' `GRID_SPECS`, an item for each index: eight numbers, int64, or four, int32.

    Raises `ModelError` where transformers is too old to have them, as 5.17 is.
    """
    try:
        from transformers.integrations.gguf.dequant import GRID_SPECS  # noqa: PLC0415  # tables that few models need
    except ImportError as error:
        raise ModelError(
            say("This transformers ({version}) has no tables of GGUF's types of one to three bits.", version=VERSION),
            say("Update transformers, or choose a model in another type."),
        ) from error

    levels, (_, width), text = GRID_SPECS[name]
    bits = (len(levels) - 1).bit_length()
    packed = torch.tensor(list(bytes.fromhex(text.decode())))
    places = packed[:, None] >> torch.arange(0, 8, 8 // (8 // bits)) & (1 << bits) - 1
    numbers = torch.tensor(levels, dtype=torch.int8)[places.view(-1)]
    return numbers.view(torch.int64 if width == 8 else torch.int32).to(device)


@table
def moved_grid(device: torch.device) -> Tensor:
    """Numbers of the IQ1 grid by 1 / DELTA, moved up, and behind them all of them moved down: int64 [4096]."""
    numbers = grid("IQ1", torch.device("cpu")).view(torch.int8) * round(1 / DELTA)
    return torch.cat([numbers + 1, numbers - 1]).view(torch.int64).to(device)


@table
def sign_patterns(device: torch.device) -> Tensor:
    """For every index of 7 bits the eight signs that it stands for, as 255 for less than zero: int64 [128]."""
    seven = torch.arange(128)
    odd = (seven[:, None] >> torch.arange(7) & 1).sum(1) & 1  # ggml's `ksigns_iq2xs`: less than zero are even in number
    return spread_bits(255, torch.uint8, device)[(seven | odd << 7).to(device)]
