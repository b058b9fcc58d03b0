"""A model folder, opened safely: what its files say is checked before anything of the weights is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from engine.errors import ModelError
from engine.model.json_file import read_json_object
from engine.model.model_folder import ModelFolder
from engine.model.safetensors_header import TensorInfo
from engine.model.source import ModelRole, find_folder
from engine.model.weight_files import read_weight_files
from engine.protocol.sentences import say

CONFIG = "config.json"
MAX_CONFIG_BYTES = 4 << 20  # parsed, that may be forty times as much
# What loaders open by themselves, later: these files must not lead out of the folder either.
COMPANIONS = (
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model on disk whose files agree with each other.

    `source` is what was asked for, `name` what people call it, `config` the parsed config.json; `shards` are the
    weight files and `tensors` says where in them each tensor lies.
    """

    source: str
    name: str
    folder: Path
    config: Mapping[str, object]
    shards: tuple[Path, ...]
    tensors: Mapping[str, TensorInfo]

    @property
    def bytes(self) -> int:
        """Bytes of all tensors, as they are stored."""
        return sum(tensor.end - tensor.begin for tensor in self.tensors.values())

    @property
    def parameters(self) -> int:
        """Numbers in all tensors, as they are stored."""
        return sum(tensor.elements for tensor in self.tensors.values())


def open_checkpoint(source: str, *, role: ModelRole = "target") -> Checkpoint:
    """Open `embedded` (`role` says which of the pair), a model folder, or a hub id that is in the local hub cache.

    Raises `ModelError`, a sentence with the path, for everything missing, damaged, or leading out of the folder.
    """
    folder = ModelFolder(find_folder(source, role))
    config = read_config(folder)
    for name in filter(folder.has, COMPANIONS):
        folder.file(name)
    weights = read_weight_files(folder)
    return Checkpoint(
        source=source,
        name=folder.name,
        folder=folder.path,
        config=MappingProxyType(config),
        shards=weights.shards,
        tensors=MappingProxyType(weights.tensors),
    )


def read_config(folder: ModelFolder) -> dict[str, object]:
    """The parsed config.json of a model folder; raises `ModelError` if it is missing or names no model_type."""
    if not folder.has(CONFIG):
        raise ModelError(
            say("{folder} holds no {file}.", folder=folder.path, file=CONFIG),
            say("Give the folder of a model in the transformers format."),
        )
    path = folder.file(CONFIG)
    config = read_json_object(path, MAX_CONFIG_BYTES)
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise ModelError(
            say("{file} names no model_type.", file=path), say("Give the folder of a model in the transformers format.")
        )
    return config
