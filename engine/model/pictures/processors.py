"""transformers' own processors of pictures: what stands in the text for a picture, and the numbers that encoders take.

A model's settings are untrusted. They are read here, and name classes of transformers and bounded numbers at most.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
import transformers
from PIL import Image
from torch import Tensor
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

from engine.errors import ModelError
from engine.model.architecture import CONFIG_FAULTS, words_of
from engine.model.json_file import read_json_object
from engine.model.model_folder import ModelFolder
from engine.model.pictures import pixtral_processor
from engine.model.safe_config import GET_AGAIN
from engine.protocol.sentences import say

SETTINGS, WHOLE = "preprocessor_config.json", "processor_config.json"
MAX_BYTES = 1 << 20
INSIDE = "image_processor"  # where the second file holds what the first one does
# Numbers of pixels, sides in pixels, and how many of something there may be.
AREAS, MOST_AREA = re.compile(r"\w*_pixels|(short|long)est_edge"), 1 << 25
SIDES, MOST_SIDE = re.compile(r"\w*(height|width|size|edge|resolution|pinpoints)\w*"), 4096
COUNTS, MOST_COUNT = re.compile(r"\w+"), 1 << 14
MOST_PARTS = 64  # of one picture that are read as pictures of their own
PARTS = re.compile(r"\w*(max|num)\w*(crops|patches|tiles)")
PRIVATE = ("auto_map", "processor_class", "image_processor_type", "feature_extractor_type")


class Reads(Protocol):
    """What a model's processor makes of one picture after another."""

    mark: str
    """What the model's template writes for each."""

    def read(self, picture: Image.Image) -> tuple[str, dict[str, Tensor]]:
        """What stands in the text in place of the mark, and what the encoder takes. Raises what libraries raise."""


class PictureProcessor:
    """See `Reads`: transformers' own."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        self.mark = str(processor.image_token)

    def read(self, picture: Image.Image) -> tuple[str, dict[str, Tensor]]:
        """What stands in the text in place of the mark, and what the encoder takes. Raises what libraries raise."""
        made = self._processor(
            images=[picture],
            text=[self.mark],
            padding=False,
            return_tensors="np",
            return_text_replacement_offsets=True,
        )
        (told,) = made["text_replacement_offsets"][0]
        numbers = {name: value for name, value in made.items() if isinstance(value, np.ndarray)}
        return str(told["replacement"]), {
            name: torch.from_numpy(value) for name, value in numbers.items() if not _is_of_text(name)
        }


@dataclass(frozen=True, slots=True)
class Settings:
    """What a model's files say of how its pictures are read: `own`, and `whole`, of the processor around them."""

    own: Mapping[str, Any]
    whole: Mapping[str, Any]


def read_settings(folder: ModelFolder, name: str) -> Settings:
    """The settings of a model; raises `ModelError` where there are none, or such as no model has."""
    whole = _read(folder, WHOLE)
    inside = whole.pop(INSIDE, None)
    own = _read(folder, SETTINGS) or (inside if isinstance(inside, dict) else {})
    if not own:
        raise ModelError(
            say("'{name}' reads no pictures: {file} is missing in its folder.", name=name, file=SETTINGS),
            say("Download the model again."),
        )
    return bounded(own, whole, name)


def bounded(own: Mapping[str, Any], whole: Mapping[str, Any], name: str) -> Settings:
    """The settings of the model called `name`; raises `ModelError` for numbers that no model has."""
    for settings in (own, whole):
        _require_bounded(settings, name)
    return Settings(own, whole)


def open_processor(settings: Settings, name: str, kind: str, library: Any) -> Reads:
    """The processor of a model whose config.json is of this `kind`; `library`: its fast tokenizer.

    Raises `ModelError` where none can be made.
    """
    own, both = settings.own, {**settings.whole, **settings.own}
    try:
        known = {key: value for key, value in own.items() if key not in PRIVATE}
        pictures = _picture_class(kind, own).from_dict(known)
        if (named := _class_name(kind, both)) == pixtral_processor.NAME:
            return pixtral_processor.PixtralProcessor(pictures, {**own, **settings.whole})
        return PictureProcessor(_made(getattr(transformers, named), pictures, library, both))
    except CONFIG_FAULTS as error:
        raise _unusable(name, words_of(error)) from error


def reads_kind(kind: str) -> bool:
    """Whether transformers has a processor for models of this `model_type`."""
    return PROCESSOR_MAPPING_NAMES.get(kind) is not None


def _is_of_text(name: str) -> bool:
    return name in ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")


def _read(folder: ModelFolder, name: str) -> dict[str, Any]:
    return read_json_object(folder.file(name), MAX_BYTES) if folder.has(name) else {}


def _picture_class(kind: str, settings: Mapping[str, object]) -> Any:
    """The class that needs no further library: the one that the settings name, or that of the kind of model."""
    named = settings.get("image_processor_type") or settings.get("feature_extractor_type")
    if isinstance(named, str):
        base = named.removesuffix("Fast").removesuffix("Pil").replace("FeatureExtractor", "ImageProcessor")
        known = next((each for each in IMAGE_PROCESSOR_MAPPING_NAMES.values() if base in _plain(each)), None)
    else:
        known = IMAGE_PROCESSOR_MAPPING_NAMES.get(kind)
    if not known or "pil" not in known:
        raise ValueError(say("its pictures need a library that Coppice does not come with"))
    return getattr(transformers, known["pil"])


def _plain(classes: Mapping[str, str]) -> set[str]:
    return {name.removesuffix("Pil") for name in classes.values()}


def _class_name(kind: str, settings: Mapping[str, object]) -> str:
    """What transformers calls the processor: as the settings name it, or that of the kind of model."""
    named = settings.get("processor_class")
    if isinstance(named, str) and named in PROCESSOR_MAPPING_NAMES.values():
        return named
    return str(PROCESSOR_MAPPING_NAMES[kind])


def _made(kind: Any, pictures: Any, library: Any, settings: Mapping[str, Any]) -> Any:
    """The processor, without the parts that it has for videos and sound."""

    class OfPictures(kind):  # type: ignore[misc]  # transformers is untyped
        def check_argument_for_proper_class(self, argument_name: str, argument: object) -> None:
            """Whatever is missing is not asked for."""

    parts = {"image_processor": pictures, "tokenizer": library}
    known = inspect.signature(kind.__init__).parameters
    others = {name: None for name in kind.get_attributes() if name not in parts}
    own = {
        name: settings[name]
        for name in known
        if name in settings and name not in others and isinstance(settings[name], int | float | str | None)
    }
    return OfPictures(**parts, **others, **own)


def _require_bounded(settings: Mapping[str, object], name: str) -> None:
    """Raise `ModelError` for a number that no processor has: pictures are made as large as these say."""
    for key, number in _numbers(settings):
        most = next(
            most
            for pattern, most in ((AREAS, MOST_AREA), (PARTS, MOST_PARTS), (SIDES, MOST_SIDE), (COUNTS, MOST_COUNT))
            if pattern.fullmatch(key)
        )
        if abs(number) > most:
            raise ModelError(
                say(
                    "The settings for pictures of '{name}' say {number} for {key}, and no model has more than {most}.",
                    name=name,
                    number=number,
                    key=key,
                    most=most,
                ),
                GET_AGAIN,
            )


def _numbers(value: object, key: str = "_") -> Iterator[tuple[str, int]]:
    """Whole numbers, each with the name of the entry that it belongs to."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _numbers(item, "".join(filter(str.isidentifier, str(name))) or key)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, key)
    elif type(value) is int:
        yield key, value


def _unusable(name: str, reason: str) -> ModelError:
    return ModelError(
        say("The pictures of '{name}' cannot be read: {reason}.", name=name, reason=reason),
        say("Its text can be used all the same."),
    )
