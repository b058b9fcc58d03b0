"""How one decoder layer's weights lie on disk and in a buffer: what the packer writes and the stream reads."""

from dataclasses import dataclass
from pathlib import Path

import torch

PAGE = 4096  # direct reads want offsets, lengths and memory in multiples of this


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes [offset, offset + nbytes) of a file, to be read to position `at` of the layer's buffer.

    `offset` and `at` are multiples of `PAGE`; `nbytes` is one too, unless the file ends before.
    """

    path: Path
    offset: int
    nbytes: int
    at: int


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor inside a layer's buffer. `name` is relative to the layer, such as `self_attn.q_proj.weight`."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    nbytes: int

    @property
    def is_aligned(self) -> bool:
        """Whether its numbers may be used where they lie.

        Some processors' libraries round one row's product with a float32 matrix by where the matrix begins, modulo 16
        bytes; weights that are loaded whole begin at multiples of that.
        """
        return self.dtype != torch.float32 or self.begin % 16 == 0


@dataclass(frozen=True, slots=True)
class LayerLayout:
    """One layer: where its bytes come from, what they hold, how large its buffer must be (a multiple of `PAGE`).

    `codec` names how stored tensors become weights: `plain` (they are the weights), `cast` (another number type),
    `nf4` or `int8` (see `engine.weights.codecs.codec`).
    """

    index: int
    segments: tuple[Segment, ...]
    tensors: tuple[StoredTensor, ...]
    nbytes: int
    codec: str = "plain"


def round_up(nbytes: int, unit: int = PAGE) -> int:
    """The next multiple of `unit`."""
    return -(-nbytes // unit) * unit
