"""A tensor of a checkpoint that is read only when it is asked for."""

from dataclasses import dataclass
from types import EllipsisType
from typing import BinaryIO

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.model.json_file import reason
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

PIECE_BYTES = 16 << 20  # read and converted at once: bounds the memory beside the tensor itself

NUMBERS = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "U16": torch.uint16, "I16": torch.int16,
    "U32": torch.uint32, "I32": torch.int32, "U64": torch.uint64, "I64": torch.int64,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64, "C64": torch.complex64,
}  # fmt: skip


def stored_dtype(info: TensorInfo) -> torch.dtype:
    """The torch type of the numbers as they are stored; raises `ModelError` for one that torch does not have."""
    if info.dtype not in NUMBERS:
        raise ModelError(
            say("{file} holds numbers of the type {kind}, which cannot be used.", file=info.shard, kind=info.dtype),
            say("Choose another."),
        )
    return NUMBERS[info.dtype]


@dataclass(frozen=True, slots=True)
class LazyTensor:
    """Stands for a tensor where transformers' loader takes a slice of safetensors; `tensor[...]` reads it, as `dtype`.

    The file is read, not mapped: a mapping's pages would count as memory of this process.
    """

    info: TensorInfo
    dtype: torch.dtype

    def __getitem__(self, _everything: EllipsisType) -> Tensor:
        """Read the tensor; raises `ModelError` when the file does not give what its table says."""
        tensor = torch.empty(self.info.shape, dtype=self.dtype)
        try:
            with self.info.shard.open("rb", buffering=0) as file:
                file.seek(self.info.begin)
                self._read(file, tensor.view(-1))
        except OSError as error:
            raise ModelError(
                say("{file} cannot be read: {reason}.", file=self.info.shard, reason=reason(error)),
                say("Check the disk."),
            ) from error
        return tensor

    def get_dtype(self) -> str:
        """The type of the numbers as they are stored, as safetensors calls it."""
        return self.info.dtype

    def _read(self, file: BinaryIO, flat: Tensor) -> None:
        stored = stored_dtype(self.info)
        if stored == self.dtype:
            self._fill(file, flat)
            return
        step = PIECE_BYTES // stored.itemsize
        piece = torch.empty(min(step, flat.numel()), dtype=stored)
        for begin in range(0, flat.numel(), step):
            part = piece[: flat.numel() - begin]
            self._fill(file, part)
            flat[begin : begin + step].copy_(part)

    def _fill(self, file: BinaryIO, flat: Tensor) -> None:
        room = memoryview(flat.view(torch.uint8).numpy())  # type: ignore[arg-type]  # numpy arrays are buffers
        while room:
            got = file.readinto(room)  # type: ignore[attr-defined]  # unbuffered files have it
            if not got:
                raise ModelError(
                    say("{file} ended early while it was read.", file=self.info.shard), say("Download the model again.")
                )
            room = room[got:]
