"""Where the reading of a model's pictures is described: in the files of its folder, or in a GGUF file beside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import transformers

from engine.errors import ModelError
from engine.gguf_header import architecture_of
from engine.model.checkpoint import Checkpoint, read_weight_files
from engine.model.formats.packed import PackedWeight
from engine.model.formats.table import find_packed
from engine.model.gguf.pictures.contents import contents_of_encoder
from engine.model.gguf.pictures.projectors import ARCHITECTURES
from engine.model.model_folder import ModelFolder
from engine.model.pictures.processors import Settings, read_settings
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

Weight = TensorInfo | PackedWeight


@dataclass(frozen=True, slots=True)
class PictureSource:
    """What reads a model's pictures.

    `checkpoint`: its config is that of the whole model; `library`: its fast tokenizer, which knows the names that
    processors ask for; `weights`: all that belong to the whole model, or those of the encoder alone, by names that
    transformers knows, read from the heads of files when it is called.
    """

    checkpoint: Checkpoint
    settings: Settings
    library: Any
    weights: Callable[[], Mapping[str, Weight]]


def source_in_folder(checkpoint: Checkpoint, library: Any) -> PictureSource:
    """Of a model in safetensors; raises `ModelError` where its folder has no settings for pictures."""

    def weights() -> Mapping[str, Weight]:
        tensors = read_weight_files(ModelFolder(checkpoint.folder)).tensors
        packed = find_packed(checkpoint.name, checkpoint.config, tensors)
        return replace(checkpoint, tensors=MappingProxyType(tensors), packed=packed).weights

    return PictureSource(checkpoint, read_settings(ModelFolder(checkpoint.folder), checkpoint.name), library, weights)


def source_in_gguf(checkpoint: Checkpoint, library: Any) -> PictureSource:
    """Of a model in GGUF files; raises `ModelError` where there is no encoder, or none that is read."""
    name, path = checkpoint.name, checkpoint.encoder
    if path is None:
        raise ModelError(
            say("'{name}' reads no pictures: {reason}.", name=name, reason=_reason(checkpoint)),
            say("If the model does, put its mmproj file beside it, from where it was published, and load it again."),
        )
    limit = checkpoint.config.get("vocab_size")
    known = {
        token: number for token, number in library.get_vocab().items() if isinstance(limit, int) and number < limit
    }
    contents = contents_of_encoder(path, checkpoint.config, name, known, str(library.pad_token))
    return PictureSource(
        replace(checkpoint, config=MappingProxyType(contents.config)),
        Settings(contents.own, contents.whole),
        _with_names(library, contents.tokens),
        lambda: contents.weights,
    )


def _reason(checkpoint: Checkpoint) -> str:
    architecture = architecture_of(checkpoint.metadata)
    if any(architecture in each for each in ARCHITECTURES.values()):
        return say("no file with an encoder of pictures lies beside its GGUF file")
    return say("it reads text alone")


def _with_names(library: Any, tokens: Mapping[str, str]) -> Any:
    """A tokenizer like `library` that knows these tokens by the names that processors ask for."""
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=library.backend_tokenizer,
        clean_up_tokenization_spaces=False,
        pad_token=library.pad_token,
        extra_special_tokens=dict(tokens),
    )
