"""transformers' own weight loader, a few tensors at a time: the one place that touches its internals.

Checkpoints and networks name weights differently, and a mixture's experts are stored apart in one and fused in the
other. The library knows how to get from one to the other; `from_pretrained` offers that for whole models only.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, BinaryIO

import torch
from torch import Tensor
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    WeightConverter,
    WeightRenaming,
    convert_and_load_state_dict_in_model,
    rename_source_key,
)
from transformers.modeling_utils import LoadStateDictConfig
from transformers.quantizers.quantizer_mxfp4 import Mxfp4HfQuantizer

from engine.errors import ModelError
from engine.model.architecture import CONFIG_FAULTS, UNPACK_MXFP4, unloadable
from engine.model.json_file import reason
from engine.model.safetensors_header import TensorInfo

PIECE_BYTES = 16 << 20  # read and converted at once: bounds the memory beside the tensor itself

NUMBERS = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "U16": torch.uint16, "I16": torch.int16,
    "U32": torch.uint32, "I32": torch.int32, "U64": torch.uint64, "I64": torch.int64,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64, "C64": torch.complex64,
}  # fmt: skip

MOST_BUFFER_BYTES = 64 << 20  # frequencies take kilobytes; some families keep tables of sines


def stored_dtype(info: TensorInfo) -> torch.dtype:
    """The torch type of the numbers as they are stored; raises `ModelError` for one that torch does not have."""
    if info.dtype not in NUMBERS:
        raise ModelError(
            f"{info.shard} holds numbers of the type {info.dtype}, which cannot be used.", "Choose another."
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


@dataclass(frozen=True, slots=True)
class Destination:
    """The network's weight that a stored tensor becomes, alone or (`converted`) fused, split or turned with others."""

    name: str
    converted: bool


@dataclass(slots=True)
class LoadReport:
    """What did not fit together, in the network's names."""

    missing_keys: set[str]
    unexpected_keys: set[str]
    mismatched: set[str]


class WeightLoader:
    """Fills a transformers model, which begins on meta, with tensors of a checkpoint."""

    def __init__(self, model: Any, dtype: torch.dtype, mxfp4: bool = False) -> None:
        """`mxfp4`: the checkpoint's experts are packed in 4 bits, to be unpacked as they load."""
        self.model = model
        self._dtype = dtype
        self._unpacker = Mxfp4HfQuantizer(UNPACK_MXFP4) if mxfp4 else None

    def destinations(self, names: Iterable[str]) -> dict[str, Destination]:
        """Where each of a checkpoint's tensors goes; names that the network does not know are left out."""
        state = self.model.state_dict()
        transforms = self._transforms()
        renamings = [transform for transform in transforms if isinstance(transform, WeightRenaming)]
        converters = [transform for transform in transforms if isinstance(transform, WeightConverter)]
        found = {}
        for name in names:
            target, pattern = rename_source_key(name, renamings, converters, self.model.base_model_prefix, state)
            if target not in state and name in state:
                target, pattern = name, None
            if target in state:
                found[name] = Destination(target, pattern is not None)
        return found

    def load(self, tensors: Mapping[str, Tensor | LazyTensor], device: torch.device) -> LoadReport:
        """Put a checkpoint's tensors, under its own names, into the network; all others stay as they are.

        Tensors on meta load too, onto meta: then only shapes and number types are worked out, and nothing is read.
        """
        config = LoadStateDictConfig(
            weight_mapping=self._transforms(),
            dtype=self._dtype,
            dtype_plan=self.model._get_dtype_plan(self._dtype),
            device_map={"": device},
            hf_quantizer=self._unpacker,
        )
        info, _ = convert_and_load_state_dict_in_model(self.model, dict(tensors), config)
        if info.conversion_errors:
            name = min(info.conversion_errors)
            raise ModelError(
                f"The weights for {name} cannot be converted to the shape that transformers gives them.",
                "Download the model again, or choose another one.",
            )
        return LoadReport(info.missing_keys, info.unexpected_keys, {name for name, *_ in info.mismatched_keys})

    def finish(self, report: LoadReport) -> None:
        """Tie the weights that the config ties; strike from `report` what is no fault, as `from_pretrained` does."""
        self.model.tie_weights(missing_keys=report.missing_keys, recompute_mapping=False)
        self.model._adjust_missing_and_unexpected_keys(report)

    def rebuild_buffers(self, device: torch.device) -> None:
        """Compute the buffers that no checkpoint holds (rotary frequencies, embedding scales) and put them on `device`.

        They are computed on the host, as `from_pretrained` does. Call it while the weights are on meta: transformers
        computes a module's buffers by initialising the whole module. Raises `ModelError` where they would take more
        than a model's buffers do, before anything is allocated, and where they cannot be computed.
        """
        nbytes = sum(module._buffers[name].nbytes for module in self.model.modules() for name in _unstored(module))
        if nbytes > MOST_BUFFER_BYTES:
            raise ModelError(
                f"The config.json asks for {nbytes >> 20} MB of buffers, where models have less than "
                f"{MOST_BUFFER_BYTES >> 20} MB.",
                "The file is damaged or made to do harm: get the model again from where it was published.",
            )
        try:
            for owner, module in _modules_with_owner(self.model):
                names = _unstored(module)
                for name in names:
                    module._buffers[name] = torch.empty_like(module._buffers[name], device="cpu")
                if names:
                    owner._init_weights(module)
                for name in names:
                    module._buffers[name] = module._buffers[name].to(device)
        except CONFIG_FAULTS as error:
            raise unloadable(type(self.model).__name__, error) from error

    def _transforms(self) -> list[Any]:
        # Made anew each time: the library's transforms remember what they were used for.
        transforms: list[Any] = get_model_conversion_mapping(self.model, hf_quantizer=self._unpacker)
        return transforms


def _unstored(module: Any) -> list[str]:
    """The module's own buffers that no checkpoint holds and that are still on meta."""
    return [
        name
        for name in module._non_persistent_buffers_set
        if module._buffers.get(name) is not None and module._buffers[name].is_meta
    ]


def _modules_with_owner(model: Any) -> Iterator[tuple[Any, Any]]:
    """Every module with the innermost transformers model around it, which knows how the module is initialised."""
    pending = [(model, model)]
    while pending:
        owner, module = pending.pop()
        yield owner, module
        pending.extend((child if hasattr(child, "_init_weights") else owner, child) for child in module.children())
