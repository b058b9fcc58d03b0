"""The weight files of a model folder, and where each tensor lies in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from engine.errors import ModelError
from engine.model.json_file import read_json_object, shown
from engine.model.model_folder import ModelFolder, is_file_name
from engine.model.safetensors_header import TensorInfo, read_header
from engine.protocol.sentences import say

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
MAX_INDEX_BYTES = 64 << 20
MAX_TENSORS = 1_000_000

DOWNLOAD_AGAIN = say("Download the model again.")
WHOLE: Mapping[str, int] = MappingProxyType({})
ONLY_SAFETENSORS = say("Choose a version of the model in the safetensors format.")


@dataclass(frozen=True, slots=True)
class WeightFiles:
    """The shards in the index's order, and every tensor that counts, by name."""

    shards: tuple[Path, ...]
    tensors: dict[str, TensorInfo]


def read_weight_files(folder: ModelFolder, sizes: Mapping[str, int] = WHOLE) -> WeightFiles:
    """Read the tables of all shards; a single file comes before an index, as it does for transformers.

    `sizes`: in bytes, by name, of the files of which the folder holds only the beginning. Raises `ModelError` when a
    shard is missing, damaged or outside the folder, or when index and shards disagree.
    """
    if folder.has(SINGLE):
        shard = folder.file(SINGLE)
        files = WeightFiles((shard,), read_header(shard, sizes.get(SINGLE)))
    elif folder.has(INDEX):
        files = _read_shards(folder, _read_index(folder.file(INDEX)), sizes)
    else:
        raise _no_weights(folder)
    if not files.tensors:
        raise ModelError(say("The weight files in {folder} hold no tensors.", folder=folder.path), DOWNLOAD_AGAIN)
    return files


def _read_index(path: Path) -> dict[str, str]:
    """The file name of the shard that holds each tensor."""
    weight_map = read_json_object(path, MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(weight_map, dict):
        raise ModelError(say("{file} has no weight_map.", file=path), DOWNLOAD_AGAIN)
    if len(weight_map) > MAX_TENSORS:
        raise ModelError(
            say("{file} lists more than {count} tensors.", file=path, count=MAX_TENSORS), say("Choose another model.")
        )
    for name in weight_map.values():
        if not isinstance(name, str):
            raise ModelError(say("{file} has a weight_map that does not name files.", file=path), DOWNLOAD_AGAIN)
        if not is_file_name(name):
            raise ModelError(
                say("{file} names a file outside its folder, {other}.", file=path, other=shown(name)),
                say("Do not use this model."),
            )
        if not name.endswith(".safetensors"):
            raise ModelError(
                say("{file} names {other}, but only safetensors are opened.", file=path, other=shown(name)),
                ONLY_SAFETENSORS,
            )
    return weight_map


def _read_shards(folder: ModelFolder, index: dict[str, str], sizes: Mapping[str, int]) -> WeightFiles:
    names = list(dict.fromkeys(index.values()))
    missing = [name for name in names if not folder.has(name)]
    if missing:
        raise ModelError(
            say(
                "{missing} of {all} weight files are missing in {folder}, first {file}.",
                missing=len(missing),
                all=len(names),
                folder=folder.path,
                file=shown(missing[0]),
            ),
            DOWNLOAD_AGAIN,
        )
    shards = {name: folder.file(name) for name in names}
    tensors: dict[str, TensorInfo] = {}
    for shard_name, shard in shards.items():
        # Of a tensor that two shards hold, the index says which one counts.
        held = read_header(shard, sizes.get(shard_name))
        tensors |= {name: tensor for name, tensor in held.items() if index.get(name) == shard_name}
    for name in index.keys() - tensors.keys():
        raise ModelError(
            say("{file} lacks the tensor {tensor} of the index.", file=shards[index[name]], tensor=shown(name)),
            DOWNLOAD_AGAIN,
        )
    return WeightFiles(tuple(shards.values()), tensors)


def _no_weights(folder: ModelFolder) -> ModelError:
    """Why there is nothing to open, told from what lies there instead."""
    names = folder.names()
    if any(name.endswith(".gguf") for name in names):
        return ModelError(
            say("{folder} holds GGUF weights; only safetensors are opened.", folder=folder.path), ONLY_SAFETENSORS
        )
    if any(name.startswith("adapter_model.") for name in names):
        return ModelError(
            say("{folder} holds an adapter, not a whole model.", folder=folder.path),
            say("Merge it into its base model first."),
        )
    if any(name.endswith((".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")) for name in names):
        return ModelError(
            say(
                "{folder} holds weights in a format that can run code; only safetensors are opened.", folder=folder.path
            ),
            ONLY_SAFETENSORS,
        )
    return ModelError(
        say("{folder} holds no weights: {file} is missing.", folder=folder.path, file=SINGLE), DOWNLOAD_AGAIN
    )
