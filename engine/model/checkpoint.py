"""A model on disk, opened safely: what its files say is checked before anything of the weights is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from engine.errors import ModelError
from engine.model.families.eagle_names import eagle_config
from engine.model.families.text_tensors import text_tensors
from engine.model.formats.packed import PackedWeight
from engine.model.formats.table import find_packed, is_described, is_for_activations
from engine.model.gguf.header import SPLIT_NAME, GgufHeader, read_gguf, shard_names
from engine.model.gguf.ollama import as_llama_cpp
from engine.model.gguf.ollama_store import name_in_store
from engine.model.gguf.pictures.finding import find_encoder
from engine.model.gguf.pictures.texts import with_axes
from engine.model.json_file import read_json_object
from engine.model.model_folder import GGUF, ModelFolder, ModelRole, find_model, is_file_name, readable
from engine.model.safetensors_header import TensorInfo, read_header
from engine.protocol.heads import is_eagle3
from engine.protocol.sentences import say, shown
from engine.protocol.variants import PROJECTOR, split_source

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
MAX_INDEX_BYTES = 64 << 20
MAX_TENSORS = 1_000_000
MAX_SAID = 80  # characters of what a file calls itself

DOWNLOAD_AGAIN = say("Download the model again.")
WHOLE: Mapping[str, int] = MappingProxyType({})
ONLY_SAFETENSORS = say("Choose a version of the model in the safetensors format.")

CONFIG = "config.json"
MAX_CONFIG_BYTES = 4 << 20  # parsed, that may be forty times as much
QUANTIZATION = (
    "hf_quant_config.json"  # where ModelOpt says how weights are packed, if it does not say so in config.json
)
# What loaders open by themselves, later: these files must not lead out of the folder either.
COMPANIONS = (
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "merges.txt",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)

FACTS = "facts.json"
KIND, FORMAT = "coppice model facts", 1
MAX_FACTS_BYTES = 4 << 20

FETCH_AGAIN = say("Fetch the model's facts again.")


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


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model on disk whose files agree with each other.

    `source` is what was asked for, `name` what people call it, `config` the parsed config.json; `shards` are the
    weight files and `tensors` says where in them each tensor of the language model lies. `packed` are the weights that
    are made of several of them, by the names that an unpacked checkpoint gives them. `metadata` is that of a GGUF file,
    empty for others; `encoder` the GGUF file with the encoder of its pictures, which may be the same one.
    """

    source: str
    name: str
    folder: Path
    config: Mapping[str, object]
    shards: tuple[Path, ...]
    tensors: Mapping[str, TensorInfo]
    packed: Mapping[str, PackedWeight] = field(default_factory=dict)
    metadata: Mapping[str, object] = field(default_factory=dict)
    encoder: Path | None = None

    @property
    def path(self) -> Path:
        """The model by itself: its folder, or its GGUF file, of which a folder may hold several."""
        return self.shards[0] if self.metadata else self.folder

    @property
    def files(self) -> tuple[Path, ...]:
        """The files whose change makes another model of it."""
        if self.metadata:
            return self.shards
        beside = self.folder / QUANTIZATION
        return (self.folder / CONFIG, *([beside] if beside.is_file() else []), *self.shards)

    @property
    def weights(self) -> dict[str, TensorInfo | PackedWeight]:
        """Every weight, packed or as it is, by the name that an unpacked checkpoint gives it."""
        if not self.packed:
            return dict(self.tensors)
        places = {part.place for weight in self.packed.values() for part in weight.parts.values()}
        plain = {
            name: info
            for name, info in self.tensors.items()
            if info.place not in places and not is_for_activations(name)
        }
        return {**plain, **self.packed}

    @property
    def bytes(self) -> int:
        """Bytes of all tensors, as they are stored."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @property
    def parameters(self) -> int:
        """Numbers in all weights."""
        return sum(weight.elements for weight in self.weights.values())


def open_checkpoint(source: str, *, role: ModelRole = "target") -> Checkpoint:
    """Open `embedded` (`role` says which of the pair), a model folder, a GGUF file, or a hub id in the local hub cache.

    Raises `ModelError`, a sentence with the path, for everything missing, damaged, or leading out of the folder.
    """
    path = find_model(source, role)
    if path.is_file():
        return _open_gguf(source, ModelFolder(path.parent), path.name)
    folder = ModelFolder(path)
    if model := find_gguf(folder):
        return _open_gguf(source, folder, model)
    config = read_config(folder)
    for name in filter(folder.has, COMPANIONS):
        folder.file(name)
    weights = read_weight_files(folder)
    tensors = dict(text_tensors(config, weights.tensors))
    return Checkpoint(
        source=source,
        name=readable(folder.name),
        folder=folder.path,
        config=MappingProxyType(config),
        shards=weights.shards,
        tensors=MappingProxyType(tensors),
        packed=find_packed(readable(folder.name), config, tensors),
    )


def find_gguf(folder: ModelFolder) -> str:
    """The name of the (first) file of the one GGUF model in a folder; empty where safetensors or no GGUF files lie.

    Raises `ModelError` where there are several.
    """
    if folder.has(SINGLE) or folder.has(INDEX):
        return ""
    names = [name for name in folder.names() if name.lower().endswith(GGUF) and PROJECTOR not in name.lower()]
    models = sorted({shard_names(name)[0] for name in names})
    if len(models) > 1:
        raise ModelError(
            say(
                "{folder} holds {count} GGUF models, such as {file}.",
                folder=folder.path, count=len(models), file=shown(models[0]),
            ),
            say("Give the path of one of the files."),
        )  # fmt: skip
    return "".join(models)


def _open_gguf(source: str, folder: ModelFolder, name: str, sizes: Mapping[str, int] = WHOLE) -> Checkpoint:
    from engine.model.gguf.contents import contents_of  # noqa: PLC0415 - torch comes with it

    shards = tuple(folder.file(shard) for shard in shard_names(name))
    header = read_gguf(shards, sizes)
    called = readable(_called(source, name, header))
    encoder = find_encoder(header, folder.path / name)
    header = as_llama_cpp(header, called)
    contents = contents_of(header, called)
    config = with_axes(header, contents.config, called) if encoder else contents.config
    return Checkpoint(
        source=source,
        name=called,
        folder=folder.path,
        config=MappingProxyType(config),
        shards=header.shards,
        tensors=MappingProxyType(contents.tensors),
        packed=MappingProxyType(contents.packed),
        metadata=header.metadata,
        encoder=encoder,
    )


def _called(source: str, name: str, header: GgufHeader) -> str:
    """A variant on the hub by its source, a file by its name; a blob, whose name is a checksum, by what it says."""
    if split_source(source)[1]:
        return source
    match = SPLIT_NAME.fullmatch(name)
    stem = match["stem"] if match else Path(name).stem
    said = header.metadata.get("general.name") or name_in_store(header.shards[0])
    if name.lower().endswith(GGUF) or not isinstance(said, str):
        return stem
    return "".join(character for character in said[:MAX_SAID] if character.isprintable()) or stem


def read_config(folder: ModelFolder) -> dict[str, object]:
    """The parsed config.json of a model folder; raises `ModelError` if it is missing or names no model_type.

    How the weights are packed may be said in a file beside it: then that is its `quantization_config`.
    """
    if not folder.has(CONFIG):
        raise ModelError(
            say("{folder} holds no {file}.", folder=folder.path, file=CONFIG),
            say("Give the folder of a model in the transformers format."),
        )
    path = folder.file(CONFIG)
    config = read_json_object(path, MAX_CONFIG_BYTES)
    config = eagle_config(config) if is_eagle3(config) else config
    model_type, text = config.get("model_type"), config.get("text_config")
    inner = text.get("model_type") if isinstance(text, dict) else None
    if not isinstance(model_type, str) or not model_type or not isinstance(inner, str | None):
        raise ModelError(
            say("{file} names no model_type.", file=path), say("Give the folder of a model in the transformers format.")
        )
    if folder.has(QUANTIZATION) and not is_described(config):
        config["quantization_config"] = read_json_object(folder.file(QUANTIZATION), MAX_CONFIG_BYTES)
    return config


def is_header_only(folder: Path) -> bool:
    """Whether the folder holds facts in place of a model."""
    return (folder / FACTS).is_file()


def open_header_only(folder: Path) -> Checkpoint:
    """The checkpoint as its facts describe it: it can be planned for, but not loaded. Raises `ModelError`."""
    facts = read_json_object(folder / FACTS, MAX_FACTS_BYTES)
    if facts.get("kind") != KIND or facts.get("format") != FORMAT:
        raise ModelError(say("{folder} holds no facts of this version of Coppice.", folder=folder), FETCH_AGAIN)
    name, sizes = facts.get("name"), facts.get("sizes")
    if not isinstance(name, str) or not isinstance(sizes, dict):
        raise ModelError(say("{file} is damaged.", file=folder / FACTS), FETCH_AGAIN)
    model_folder = ModelFolder(folder)
    whole = {file: size for file, size in sizes.items() if type(size) is int and size >= 0}
    if model := find_gguf(model_folder):
        return replace(_open_gguf(str(folder), model_folder, model, whole), name=name)
    config = read_config(model_folder)
    weights = read_weight_files(model_folder, whole)
    tensors = dict(text_tensors(config, weights.tensors))
    return Checkpoint(
        source=str(folder),
        name=name,
        folder=folder,
        config=MappingProxyType(config),
        shards=weights.shards,
        tensors=MappingProxyType(tensors),
        packed=find_packed(name, config, tensors),
    )
