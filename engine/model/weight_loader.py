"""transformers' own weight loader, a few tensors at a time: the one place that touches its internals.

Checkpoints and networks name weights differently, and a mixture's experts are stored apart in one and fused in the
other. The library knows how to get from one to the other; `from_pretrained` offers that for whole models only.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, BinaryIO

import torch
from torch import Tensor
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    Concatenate,
    MergeModulelist,
    Transpose,
    WeightConverter,
    WeightRenaming,
    convert_and_load_state_dict_in_model,
    dot_natural_key,
    rename_source_key,
)
from transformers.modeling_utils import LoadStateDictConfig

from engine.errors import ModelError
from engine.model.architecture import CONFIG_FAULTS, unloadable
from engine.model.assembly import Assembly, Operation, Source, assemble
from engine.model.families.linear_experts import converters_for
from engine.model.families.wrapper_names import transforms_of_wrapper
from engine.model.formats.packed import PackedWeight
from engine.model.json_file import reason
from engine.model.safetensors_header import TensorInfo
from engine.number_types import safetensors_names, torch_types
from engine.protocol.sentences import say

NO_MEMORY = re.compile(r"MemoryError|allocate memory|out of memory", re.IGNORECASE)
PIECE_BYTES = 16 << 20  # read and converted at once: bounds the memory beside the tensor itself

MOST_BUFFER_BYTES = 64 << 20  # frequencies take kilobytes; some families keep tables of sines


def stored_dtype(info: TensorInfo) -> torch.dtype:
    """The torch type of the numbers as they are stored; raises `ModelError` for one that torch does not have."""
    if info.dtype not in torch_types():
        raise ModelError(
            say("{file} holds numbers of the type {kind}, which cannot be used.", file=info.shard, kind=info.dtype),
            say("Choose another."),
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


@dataclass(frozen=True, slots=True)
class LazyPacked:
    """Stands for a packed weight in the same way; it is decoded when it is read."""

    weight: PackedWeight
    dtype: torch.dtype

    def __getitem__(self, _everything: EllipsisType) -> Tensor:
        """Read and decode the weight; raises `ModelError` when a file does not give what its table says."""
        out = torch.empty(self.weight.shape, dtype=self.dtype)
        self.weight.format.decode(self.parts(), out)
        return out

    def parts(self) -> dict[str, Tensor]:
        """Read what is stored of it, by role; raises `ModelError` likewise."""
        return {role: LazyTensor(info, stored_dtype(info))[...] for role, info in self.weight.parts.items()}

    def get_dtype(self) -> str:
        """The type that it is decoded to, as safetensors calls it."""
        return safetensors_names()[self.dtype]


@dataclass(frozen=True, slots=True)
class Destination:
    """The network's weight that a checkpoint's weight becomes, alone or (with a `pattern`) fused, split or turned.

    `pattern` is that of the library's converter, which takes all weights for `name` that match its patterns.
    """

    name: str
    pattern: str | None

    @property
    def converted(self) -> bool:
        """Whether it becomes anything but itself."""
        return self.pattern is not None


@dataclass(slots=True)
class LoadReport:
    """What did not fit together, in the network's names."""

    missing_keys: set[str]
    unexpected_keys: set[str]
    mismatched: set[str]


class WeightLoader:
    """Fills a transformers model, which begins on meta, with tensors of a checkpoint."""

    def __init__(self, model: Any, dtype: torch.dtype, kind: str) -> None:
        """`kind`: the model_type of the checkpoint, which may be that of a wrapper around `model`."""
        self.model = model
        self._dtype = dtype
        self._kind = kind

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
                found[name] = Destination(target, pattern)
        return found

    def assemblies(
        self, sources: Mapping[str, Source], destinations: Mapping[str, Destination]
    ) -> dict[str, Assembly | None]:
        """How the network's weights are put together from these of a checkpoint, without computing anything.

        None for a weight that the library makes in any other way than by stacking, concatenating and transposing.
        """
        converters = {
            pattern: transform
            for transform in self._transforms()
            if isinstance(transform, WeightConverter)
            for pattern in transform.source_patterns
        }
        groups: dict[str, dict[str, list[Source]]] = defaultdict(lambda: defaultdict(list))
        for name in sorted(sources, key=dot_natural_key):
            destination = destinations[name]
            groups[destination.name][destination.pattern or ""].append(sources[name])
        return {name: _assembly(group, converters) for name, group in groups.items()}

    def load(self, tensors: Mapping[str, Tensor | LazyTensor | LazyPacked], device: torch.device) -> LoadReport:
        """Put a checkpoint's tensors, under its own names, into the network; all others stay as they are.

        Tensors on meta load too, onto meta: then only shapes and number types are worked out, and nothing is read.
        Raises `ModelError` for what cannot be converted, and `MemoryError` where there is no memory for that.
        """
        config = LoadStateDictConfig(
            weight_mapping=self._transforms(),
            dtype=self._dtype,
            dtype_plan=self.model._get_dtype_plan(self._dtype),
            device_map={"": device},
        )
        info, _ = convert_and_load_state_dict_in_model(self.model, dict(tensors), config)
        if info.conversion_errors:
            name, words = min(info.conversion_errors.items())
            if NO_MEMORY.search(words):  # the words are all that the library keeps of what was raised
                raise MemoryError(words)
            raise ModelError(
                say(
                    "The weights for {tensor} cannot be converted to the shape that transformers gives them.",
                    tensor=name,
                ),
                say("Download the model again, or choose another one."),
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
                say(
                    "The config.json asks for {size} MB of buffers, where models have less than {limit} MB.",
                    size=nbytes >> 20,
                    limit=MOST_BUFFER_BYTES >> 20,
                ),
                say("The file is damaged or made to do harm: get the model again from where it was published."),
            )
        try:
            unstored = [(owner, module, _unstored(module)) for owner, module in _modules_with_owner(self.model)]
            unstored = [(owner, module, names) for owner, module, names in unstored if names]
            for _, module, names in unstored:
                for name in names:
                    module._buffers[name] = torch.empty_like(module._buffers[name], device="cpu")
            for owner, module, _ in unstored:
                owner._init_weights(module)
            for owner in {id(owner): owner for owner, _, _ in unstored}.values():
                owner._init_weights(owner)  # some compute buffers of their layers all at once (Falcon-H1)
            for _, module, names in unstored:
                for name in names:
                    module._buffers[name] = module._buffers[name].to(device)
        except CONFIG_FAULTS as error:
            raise unloadable(type(self.model).__name__, error) from error

    def _transforms(self) -> list[Any]:
        # Made anew each time: the library's transforms remember what they were used for.
        transforms = [*transforms_of_wrapper(self._kind), *get_model_conversion_mapping(self.model)]
        for transform in transforms:
            if getattr(transform, "force_cpu", False):
                transform.force_cpu = False  # what is on meta must stay there; layers are converted on the CPU anyway
        return [*transforms, *converters_for(self.model, transforms)]


def _assembly(group: Mapping[str, list[Source]], converters: Mapping[str, WeightConverter]) -> Assembly | None:
    if list(group) == [""]:
        return assemble(group, [""], [])
    used = {id(converters[pattern]) if pattern else 0: converters.get(pattern) for pattern in group}
    converter = next(iter(used.values()))
    if len(used) > 1 or converter is None or len(converter.target_patterns) > 1:
        return None
    operations = [_operation(operation) for operation in converter.operations]
    known = [operation for operation in operations if operation]
    return assemble(group, converter.source_patterns, known) if known == operations else None


def _operation(operation: Any) -> Operation | None:
    """The library's operation in our terms; None for one that copies more than it has to."""
    kind = type(operation)
    if kind is MergeModulelist:
        return Operation("stack", (operation.dim,))
    if kind is Concatenate:
        return Operation("concatenate", (operation.dim,))
    if kind is Transpose and not operation.check_dims:
        return Operation("transpose", (operation.dim0, operation.dim1))
    return None


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
