"""A tensor of a checkpoint that is read only when it is asked for."""

from dataclasses import dataclass
from types import EllipsisType
from typing import BinaryIO

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.model.json_file import reason
from engine.model.safetensors_header import TensorInfo
from engine.number_types import torch_types

PIECE_BYTES = 16 << 20  # read and converted at once: bounds the memory beside the tensor itself


def stored_dtype(info: TensorInfo) -> torch.dtype:
    """The torch type of the numbers as they are stored; raises `ModelError` for one that torch does not have."""
    if info.dtype not in torch_types():
        raise ModelError(
            f"{info.shard} holds numbers of the type {info.dtype}, which cannot be used.", "Choose another."
        )
    return torch_types()[info.dtype]


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
            raise ModelError(f"{self.info.shard} cannot be read: {reason(error)}.", "Check the disk.") from error
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
                raise ModelError(f"{self.info.shard} ended early while it was read.", "Download the model again.")
            room = room[got:]
