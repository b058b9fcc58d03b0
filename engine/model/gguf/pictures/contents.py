"""What the file with a model's encoder of pictures holds, as a checkpoint of the whole model in transformers would."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError
from engine.model.gguf.header import read_gguf
from engine.model.gguf.pictures.finding import projector_of
from engine.model.gguf.pictures.ollama import as_llama_cpp
from engine.model.gguf.pictures.projectors import PROJECTORS, Encoder, Told
from engine.model.gguf.pictures.weights import Weight, weights_of
from engine.model.gguf.settings import Settings
from engine.protocol.sentences import say, shown

MOST_LAYERS = 512
ROWS = ("image_token", "context_image_token")
# What a vocabulary may lack, as another token can stand for it: of rows, which are no tokens, and of films and sound.
SPARED = (*ROWS, "video_token", "audio_token", "boa_token", "eoa_token")
ANOTHER = say("Leave the pictures out, or choose a model that reads them.")


@dataclass(frozen=True, slots=True)
class EncoderContents:
    """`config`: what config.json says of the whole model; `weights`: by the names of the whole model's parameters.

    `tokens`: those that processors ask for, by the names that they have there; `own` and `whole`: their settings.
    """

    config: dict[str, object]
    weights: Mapping[str, Weight]
    tokens: Mapping[str, str]
    own: Mapping[str, object]
    whole: Mapping[str, object]


def contents_of_encoder(
    path: Path, text: Mapping[str, object], name: str, vocabulary: Mapping[str, int], stand_in: str
) -> EncoderContents:
    """The contents of the encoder's file of the model called `name`, whose language model has the config `text`.

    `stand_in`: a token that no text has, for those that the vocabulary may lack. Raises `ModelError` for encoders that
    are not read, with their kind, and for files that contradict themselves or the language model.
    """
    header = as_llama_cpp(read_gguf([path]), name)
    kind = projector_of(dict(header.metadata))
    make, settings = PROJECTORS.get(kind), Settings(header, name)
    if make is None:
        words = say("its encoder is of the kind {kind}, which is not read", kind=shown(kind))
        raise ModelError(say("'{name}' reads no pictures: {reason}.", name=name, reason=words), ANOTHER)
    if not 0 < settings.whole("vision.block_count") <= MOST_LAYERS:
        raise settings.refused("vision.block_count")
    if settings.whole("vision.projection_dim", 0) not in (0, text.get("hidden_size")):
        words = say("{file} was made for another model", file=path.name)
        raise ModelError(say("'{name}' reads no pictures: {reason}.", name=name, reason=words), ANOTHER)
    encoder = make(Told(header, settings, text))
    heads, width = settings.whole("vision.attention.head_count"), settings.whole("vision.embedding_length")
    tokens = _tokens(encoder, name, vocabulary, stand_in)
    return EncoderContents(
        _config(encoder, text, {own: vocabulary[token] for own, token in tokens.items()}),
        weights_of(header, encoder.names, heads, width, name),
        tokens,
        encoder.own,
        encoder.whole | {key: token for key, token in tokens.items() if key in encoder.whole},
    )


def _tokens(encoder: Encoder, name: str, vocabulary: Mapping[str, int], stand_in: str) -> dict[str, str]:
    """The special tokens, all of which are in the vocabulary."""
    found = {
        own: stand_in if own in SPARED and token not in vocabulary else token for own, token in encoder.tokens.items()
    }
    missing = next((token for token in found.values() if token not in vocabulary), None)
    if missing is not None:
        words = say("its vocabulary has no {token}", token=shown(missing))
        raise ModelError(say("'{name}' reads no pictures: {reason}.", name=name, reason=words), ANOTHER)
    return found


def _config(encoder: Encoder, text: Mapping[str, object], ids: Mapping[str, int]) -> dict[str, object]:
    return {
        "model_type": encoder.kind,
        "text_config": {**text, **encoder.text},
        "vision_config": encoder.vision,
        **encoder.others,
        **{key: ids[token] for key, token in encoder.ids.items()},
        encoder.row: next(ids[token] for token in ROWS if token in ids),
    }
