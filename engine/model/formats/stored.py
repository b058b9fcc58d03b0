"""What finders ask of stored tensors: that they are there, of the right type and shape, and what small ones hold."""

from collections.abc import Iterator, Mapping

from engine.model.formats.faults import damaged, unknown_packing
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

LARGEST_GROUP = 1 << 20
FLOATS = ("F32", "BF16", "F16")
# Scales of activations, of no use where activations stay as they are; and those of keys and values beside attention.
ACTIVATIONS = tuple(
    f"{what}_{number}"
    for what in ("input", "output", "q", "k", "v")
    for number in ("scale", "zero_point", "global_scale")
)


def of_method(tensors: Mapping[str, TensorInfo], suffix: str) -> Iterator[str]:
    """What stands before `suffix`, of all tensors that end in it."""
    return (tensor.removesuffix(suffix) for tensor in tensors if tensor.endswith(suffix))


def check_part(
    name: str, tensors: Mapping[str, TensorInfo], tensor: str, dtypes: tuple[str, ...], *shapes: tuple[int, ...]
) -> TensorInfo:
    """The tensor called `tensor`; raises `ModelError` unless it is there, in one of these types and shapes."""
    info = tensors.get(tensor)
    if info is None:
        raise damaged(name, tensor, say("is missing"))
    if info.dtype not in dtypes or info.shape not in shapes:
        shape = list(info.shape)
        raise damaged(
            name, tensor, say("has numbers of type {kind} and the shape {shape}", kind=info.dtype, shape=shape)
        )
    return info


def group_size(name: str, stated: object) -> int:
    """Columns that share a scale, as config.json states them; 0 for all of a row. Raises `ModelError` for nonsense."""
    if stated is None or stated == -1:
        return 0
    if type(stated) is int and 0 < stated <= LARGEST_GROUP:
        return stated
    raise unknown_packing(name, f"group_size {stated}")


def read_small(info: TensorInfo, limit: int) -> bytes | None:
    """The bytes of a small tensor; None if it is larger than `limit`, or the file holds no data or cannot be read."""
    if info.end - info.begin > limit:
        return None
    try:
        with info.shard.open("rb") as file:
            file.seek(info.begin)
            content = file.read(info.end - info.begin)
    except OSError:
        return None
    return content if len(content) == info.end - info.begin else None


def activation_parts(tensors: Mapping[str, TensorInfo], stem: str) -> dict[str, TensorInfo]:
    """What is stored for the activations of the layer `stem`: it belongs to no weight, but to the bytes of this one."""
    found = {part: tensors[f"{stem}.{part}"] for part in ACTIVATIONS if f"{stem}.{part}" in tensors}
    attention, _, leaf = stem.rpartition(".")
    if leaf in {"q_proj", "k_proj", "v_proj"}:
        own = (part for part in ACTIVATIONS if part.startswith(f"{leaf[0]}_") and part not in found)
        found |= {part: tensors[f"{attention}.{part}"] for part in own if f"{attention}.{part}" in tensors}
    return found
