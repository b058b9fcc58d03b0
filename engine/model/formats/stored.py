"""What finders ask of stored tensors: that they are there, of the right type and shape, and what small ones hold."""

from collections.abc import Iterator, Mapping

from engine.model.formats.faults import damaged, unknown_packing
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

LARGEST_GROUP = 1 << 20
FLOATS = ("F32", "BF16", "F16")


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
    raise unknown_packing(name, "group_size", stated)


def is_here(info: TensorInfo) -> bool:
    """Whether the file holds the tensor's data, and not only its own beginning; also where it cannot be read."""
    try:
        return info.shard.stat().st_size >= info.end
    except OSError:
        return True


def read_small(info: TensorInfo, limit: int) -> bytes | None:
    """The bytes of a small tensor; None if it is larger than `limit`, or the file holds no data or cannot be read."""
    if info.nbytes > limit:
        return None
    try:
        with info.shard.open("rb") as file:
            file.seek(info.begin)
            content = file.read(info.nbytes)
    except OSError:
        return None
    return content if len(content) == info.nbytes else None
