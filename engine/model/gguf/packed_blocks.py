"""GGUF: weights as llama.cpp stores them, in blocks or as plain numbers, brought into the order that transformers has.

llama.cpp's converter permutes rows of queries and keys, adds 1 to some norms and keeps the matrices of a fused weight
apart. All of that is undone where a weight is written to its place: it costs no pass of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from engine.model.decoding.chunks import chunk_weights, in_chunks
from engine.model.gguf.block_decoders import decode_blocks
from engine.model.gguf.block_types import BlockType

Order = Literal["same", "heads", "joined", "woven", "turned", "woven turned"]
"""How stored parts lie in a weight: as they are; with the rows of each of the `heads` halved and woven (the rotary
pairs of llama.cpp); one behind the other in the second dimension; alternating in the last one; with the last two
dimensions turned; both."""


@dataclass(frozen=True, slots=True)
class Gguf:
    """The parts `"0"`, `"1"`, ... hold rows of blocks, uint8 [..., bytes], or plain numbers; `kinds` are their types.

    `plus` is added to every number.
    """

    kinds: tuple[BlockType, ...]
    order: Order = "same"
    heads: int = 0
    plus: float = 0.0

    @property
    def name(self) -> str:
        """See `PackedFormat.name`."""
        return self.kinds[0].name

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`."""
        for (role, kind), target in zip(enumerate(self.kinds), self._targets(out), strict=True):
            _fill(kind, parts[str(role)], target, self.plus)

    def _targets(self, out: Tensor) -> list[Tensor]:
        """The views of a weight in which the numbers of each part lie as they are stored."""
        count = len(self.kinds)
        if self.order == "heads":
            rows = out if out.ndim > 1 else out.unsqueeze(-1)
            return [rows.view(self.heads, 2, -1, rows.shape[1]).transpose(1, 2)]
        if self.order == "joined":
            return list(out.chunk(count, 1))
        woven = [out[..., part::count] for part in range(count)] if "woven" in self.order else [out]
        return [part.transpose(-1, -2) for part in woven] if "turned" in self.order else woven


def _fill(kind: BlockType, part: Tensor, target: Tensor, plus: float) -> None:
    """Decode the rows of a part into `target` [..., columns], whose rows in all are as many as the part's."""
    columns = target.shape[-1]
    rows = part.view(-1, columns) if kind.plain else part.view(-1, part.shape[-1])
    if target.ndim == 1:
        target = target.unsqueeze(0)
    inner = len(rows) // len(target)  # rows for every index of the first dimension
    if target.ndim > 2 and inner * columns > chunk_weights(target.device, target.numel()):
        for index, inside in enumerate(target):
            _fill(kind, rows[index * inner : (index + 1) * inner], inside, plus)
        return

    def put(some: slice) -> None:
        _put(kind, rows[some.start * inner : some.stop * inner], target[some], plus)

    in_chunks(put, len(target), inner * columns, target.device)


def _put(kind: BlockType, rows: Tensor, place: Tensor, plus: float) -> None:
    if kind.plain:
        numbers = rows.float()
        place.copy_((numbers + plus if plus else numbers).view(place.shape))
        return
    numbers = decode_blocks(kind, rows.reshape(-1, kind.nbytes))
    place.copy_((numbers.add_(plus) if plus else numbers).view(place.shape))
