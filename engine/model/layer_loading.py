"""transformers' own weight loader, a few tensors at a time: the one place that touches its internals.

Checkpoints and networks name weights differently, and a mixture's experts lie apart in one and fused in the other.
The library knows how to get from one to the other; `from_pretrained` offers that for whole models only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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

from engine.errors import ModelError
from engine.model.lazy_tensor import LazyTensor


@dataclass(frozen=True, slots=True)
class Destination:
    """The network's weight that a stored tensor becomes, alone or (`converted`) fused, split or turned with others."""

    name: str
    converted: bool


@dataclass(slots=True)
class LoadReport:
    """What did not fit together, in the network's names. `tie` and `overlook` strike out what is no fault."""

    missing: set[str]
    mismatched: set[str]
    unexpected: set[str]


def destinations(model: Any, names: Iterable[str]) -> dict[str, Destination]:
    """Where each of a checkpoint's tensors goes in the network; names that the network does not know are left out."""
    state = model.state_dict()
    transforms = get_model_conversion_mapping(model)
    renamings = [transform for transform in transforms if isinstance(transform, WeightRenaming)]
    converters = [transform for transform in transforms if isinstance(transform, WeightConverter)]
    found = {}
    for name in names:
        target, pattern = rename_source_key(name, renamings, converters, model.base_model_prefix, state)
        if target not in state and name in state:
            target, pattern = name, None
        if target in state:
            found[name] = Destination(target, pattern is not None)
    return found


def load_into(
    model: Any, tensors: Mapping[str, Tensor | LazyTensor], dtype: torch.dtype, device: torch.device
) -> LoadReport:
    """Put a checkpoint's tensors, under its own names, into the network; all others stay as they are.

    Tensors on meta load too, onto meta: then only shapes and number types are worked out, and nothing is read.
    """
    info, _ = convert_and_load_state_dict_in_model(
        model,
        dict(tensors),
        LoadStateDictConfig(
            weight_mapping=get_model_conversion_mapping(model),
            dtype=dtype,
            dtype_plan=model._get_dtype_plan(dtype),
            device_map={"": device},
        ),
    )
    if info.conversion_errors:
        name = min(info.conversion_errors)
        raise ModelError(
            f"The weights for {name} cannot be converted to how transformers names and shapes them.",
            "Download the model again, or choose another one.",
        )
    return LoadReport(info.missing_keys, {name for name, *_ in info.mismatched_keys}, info.unexpected_keys)


def tie(model: Any, report: LoadReport) -> None:
    """Make weights that the config ties one tensor, and overlook what the network can do without.

    Both as `from_pretrained` does it; changes `report`.
    """
    model.tie_weights(missing_keys=report.missing, recompute_mapping=False)
    keys = _Keys(report.missing, report.unexpected)
    model._adjust_missing_and_unexpected_keys(keys)
    report.missing, report.unexpected = keys.missing_keys, keys.unexpected_keys


def rebuild_buffers(model: Any, device: torch.device) -> None:
    """Compute the buffers that no checkpoint holds (rotary frequencies, embedding scales), on `device`.

    They are computed on the host, as `from_pretrained` does, and only then moved. Call it while the weights are on
    meta: transformers computes a module's buffers by initialising the whole module.
    """
    for owner, module in _modules_with_owner(model):
        names = [
            name for name in module._non_persistent_buffers_set
            if module._buffers.get(name) is not None and module._buffers[name].is_meta
        ]  # fmt: skip
        for name in names:
            module._buffers[name] = torch.empty_like(module._buffers[name], device="cpu")
        if names:
            owner._init_weights(module)
        for name in names:
            module._buffers[name] = module._buffers[name].to(device)


@dataclass(slots=True)
class _Keys:
    """The part of transformers' own report that it adjusts."""

    missing_keys: set[str]
    unexpected_keys: set[str]


def _modules_with_owner(model: Any) -> Iterable[tuple[Any, Any]]:
    """Every module below the model with the innermost transformers model around it, which knows how it is made."""
    pending = [(model, model)]
    while pending:
        owner, module = pending.pop()
        yield owner, module
        for child in module.children():
            pending.append((child if hasattr(child, "_init_weights") else owner, child))
