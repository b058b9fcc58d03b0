"""A model whose weights are elsewhere: a folder with its config.json and the beginning of each of its weight files.

Beside them lies facts.json, which says whose they are and how large the weight files are. A weight file here goes at
least to the end of its table of tensors; it has the name of the whole one, and cannot be taken for it: it is cut off.
"""

from pathlib import Path
from types import MappingProxyType

from engine.errors import ModelError
from engine.model.checkpoint import Checkpoint, read_config
from engine.model.json_file import read_json_object
from engine.model.model_folder import ModelFolder
from engine.model.weight_files import read_weight_files
from engine.protocol.sentences import say

FACTS = "facts.json"
KIND, FORMAT = "coppice model facts", 1
MAX_FACTS_BYTES = 4 << 20

FETCH_AGAIN = say("Fetch the model's facts again.")


def holds_facts(folder: Path) -> bool:
    """Whether the folder holds facts in place of a model."""
    return (folder / FACTS).is_file()


def open_facts(folder: Path) -> Checkpoint:
    """The checkpoint as its facts describe it: it can be planned for, but not loaded. Raises `ModelError`."""
    facts = read_json_object(folder / FACTS, MAX_FACTS_BYTES)
    if facts.get("kind") != KIND or facts.get("format") != FORMAT:
        raise ModelError(say("{folder} holds no facts of this version of Coppice.", folder=folder), FETCH_AGAIN)
    name, sizes = facts.get("name"), facts.get("sizes")
    if not isinstance(name, str) or not isinstance(sizes, dict):
        raise ModelError(say("{file} is damaged.", file=folder / FACTS), FETCH_AGAIN)
    model_folder = ModelFolder(folder)
    config = read_config(model_folder)
    weights = read_weight_files(
        model_folder, {file: size for file, size in sizes.items() if type(size) is int and size >= 0}
    )
    return Checkpoint(
        source=str(folder),
        name=name,
        folder=folder,
        config=MappingProxyType(config),
        shards=weights.shards,
        tensors=MappingProxyType(weights.tensors),
    )
