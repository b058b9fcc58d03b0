"""Reads pictures for one model: how they are written in a prompt, and what its network is given for them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import dropwhile
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from engine import accelerator
from engine.accelerator import is_accelerator
from engine.errors import CoppiceError, InputError, ModelError
from engine.model.architecture import CONFIG_FAULTS, words_of
from engine.model.checkpoint import Checkpoint
from engine.model.pictures.encoder import Encode, Features, PictureEncoder
from engine.model.pictures.picture_families import AS_PADDING, seen_whole
from engine.model.pictures.picture_files import digest_of, open_picture
from engine.model.pictures.picture_sizes import MOST_FEATURE_BYTES
from engine.model.pictures.processors import Reads, open_processor, reads_kind
from engine.model.pictures.shown import ShownPictures
from engine.model.pictures.source import PictureSource, source_in_folder, source_in_gguf
from engine.model.weight_loader import NO_MEMORY
from engine.picture_tokens import MOST_ROWS, WrittenPicture, is_row, rows_of
from engine.protocol.pictures import MOST_PICTURES, PICTURE_FAMILIES, Picture
from engine.protocol.sentences import say

MOST_KNOWN = 256  # pictures of which it is remembered how they are written
ROOM = 1.5  # what encoding takes on a GPU, at most, over the weights of the encoder
SPARE_BYTES = 1 << 30

OnLayer = Callable[[int, int], None]
"""(picture, pictures): a layer of the encoder begins, for the one of this number, from 1, of so many of a text."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A picture that was opened before; `sizes`: what tells where its rows stand for a rotary embedding."""

    written: WrittenPicture
    sizes: Mapping[str, Tensor]


class PictureReader:
    """May be asked from any thread how pictures are written, and from the one that computes for what they show."""

    def __init__(
        self,
        source: PictureSource,
        dtype: torch.dtype,
        device: torch.device,
        check: Callable[[], None] = lambda: None,
        most_bytes: int = MOST_FEATURE_BYTES,
    ) -> None:
        """`check` may raise while a picture is encoded. Loads nothing yet.

        `most_bytes`: of features that are kept, beside those of the text that is read.
        """
        self._source, self._checkpoint, self._library = source, source.checkpoint, source.library
        self._dtype, self._device, self._check = dtype, device, check
        self._kind, self._most_bytes = str(source.checkpoint.config["model_type"]), most_bytes
        self._lock = threading.RLock()
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._features: OrderedDict[int, Features] = OrderedDict()
        self._picture = (0, 0)  # which is encoded, of how many
        self._began = 0.0
        self.on_layer: OnLayer | None = None
        self.seconds = 0.0
        """How long pictures were encoded, ever."""

    def written(self, picture: Picture) -> WrittenPicture:
        """How a picture stands in a prompt; raises `InputError`, or `ModelError` where the model cannot read it."""
        return self._opened(picture).written

    def _opened(self, picture: Picture) -> _Known:
        digest = digest_of(picture.data)
        with self._lock:
            known = self._known.get(digest)
            if known is None:
                known = self._known[digest] = self._open(picture.data, digest)
                while len(self._known) > MOST_KNOWN:
                    self._known.popitem(last=False)
            self._known.move_to_end(digest)
            return known

    def shown(self, tokens: Sequence[int], pictures: Sequence[Picture]) -> ShownPictures:
        """What a network is given that reads `tokens`, which have the rows of these pictures, in their order."""
        opened = [self._opened(picture) for picture in pictures]
        files = {each.written.rows[0]: picture.data for each, picture in zip(opened, pictures, strict=True)}
        is_of_picture = torch.tensor([is_row(token) for token in tokens])
        waiting: list[int] = []
        try:
            positions = self._encoder.positions(is_of_picture, [each.sizes for each in opened])
        except CONFIG_FAULTS as error:  # of a template that writes pictures as no text of its kind has them
            raise _failed(self._checkpoint.name, error) from error
        return ShownPictures(
            lambda firsts: self._features_of(firsts, files, waiting),
            positions,
            None if self._kind in AS_PADDING else self._encoder.token,
            seen_whole(self._checkpoint.config),
        )

    @cached_property
    def _processor(self) -> Reads:
        return open_processor(self._source.settings, self._checkpoint.name, self._kind, self._library)

    @cached_property
    def _encoder(self) -> PictureEncoder:
        with self._lock:
            return PictureEncoder(self._checkpoint, self._source.weights, self._dtype)

    def _open(self, data: bytes, digest: bytes) -> _Known:
        text, given = self._read(data)
        token = self._encoder.token
        count = list(self._library.encode(text, add_special_tokens=False)).count(token)
        if not 0 < count <= MOST_ROWS:
            raise InputError(
                say("A picture cannot be read: it would take {count} tokens.", count=count),
                say("Make the picture smaller, or choose another model."),
            )
        sizes = {name: value for name, value in given.items() if name in self._encoder.sizes}
        return _Known(WrittenPicture(self._processor.mark, text, token, rows_of(digest, count)), sizes)

    def _read(self, data: bytes) -> tuple[str, Mapping[str, Tensor]]:
        with open_picture(data) as picture:
            try:
                return self._processor.read(picture)
            except CONFIG_FAULTS as error:
                raise _failed(self._checkpoint.name, error) from error

    def _features_of(
        self, firsts: Sequence[int], files: Mapping[int, bytes], waiting: list[int]
    ) -> dict[int, Features]:
        """Of the pictures whose first rows have these ids; those that are not known are encoded now.

        `files`: all of a text, in its order; `waiting`: those that it has to be encoded, once the first of them is.
        """
        missing = [first for first in dict.fromkeys(firsts) if first not in self._features]
        if missing:
            if not waiting:  # the text is read to its end from here on
                behind = dropwhile(lambda each: each != missing[0], files)
                waiting.extend(each for each in behind if each not in self._features)
            waiting.extend(each for each in missing if each not in waiting)
            self._began = perf_counter()
            with self._encoding() as encode:
                for first in missing:
                    self._picture = waiting.index(first) + 1, len(waiting)
                    self._begin_layer()
                    self._features[first] = encode(self._read(files[first])[1])
            self._count_seconds()
        found = {first: self._features[first] for first in firsts}
        for first in found:
            self._features.move_to_end(first)
        while len(self._features) > len(found) and self._held > self._most_bytes:
            self._features.popitem(last=False)
        return found

    def _begin_layer(self) -> None:
        self._check()
        self._count_seconds()
        if self.on_layer is not None:
            self.on_layer(*self._picture)

    def _count_seconds(self) -> None:
        now = perf_counter()
        self.seconds += now - self._began
        self._began = now

    @property
    def _held(self) -> int:
        return sum(features.nbytes for features in self._features.values())

    @contextmanager
    def _encoding(self) -> Iterator[Encode]:
        """The encoder with its weights, where there is room for it; what it gives is in host memory."""
        device = self._device
        if is_accelerator(device) and accelerator.free_bytes(device) < ROOM * self._encoder.nbytes + SPARE_BYTES:
            device = torch.device("cpu")
        try:
            with self._encoder.loaded(device, self._begin_layer) as encode:
                yield lambda given: encode(given).to(torch.device("cpu"))
        except CoppiceError:
            raise
        except CONFIG_FAULTS as error:
            if isinstance(error, MemoryError) or NO_MEMORY.search(str(error)):
                raise
            raise _failed(self._checkpoint.name, error) from error


def open_reader(
    checkpoint: Checkpoint,
    library: Any,
    dtype: torch.dtype,
    device: torch.device,
    check: Callable[[], None],
    most_bytes: int = MOST_FEATURE_BYTES,
) -> PictureReader:
    """The reader of a model; raises `ModelError` with the reason where its pictures are not read."""
    kind = str(checkpoint.config["model_type"])
    if checkpoint.metadata:
        return PictureReader(source_in_gguf(checkpoint, library), dtype, device, check, most_bytes)
    if not reads_kind(kind):
        raise _without(checkpoint.name, say("it reads text alone"))
    if kind not in PICTURE_FAMILIES:
        raise _without(checkpoint.name, say("how models of its kind do was not compared with transformers yet"))
    return PictureReader(source_in_folder(checkpoint, library), dtype, device, check, most_bytes)


def require_few(pictures: Sequence[Picture]) -> None:
    """Raise `InputError` for more pictures than a conversation may show."""
    if len(pictures) > MOST_PICTURES:
        raise InputError(
            say(
                "The conversation has {count} pictures, and at most {most} can be read.",
                count=len(pictures),
                most=MOST_PICTURES,
            ),
            say("Start a new chat, or take some away."),
        )


def _without(name: str, reason: str) -> ModelError:
    return ModelError(
        say("'{name}' reads no pictures: {reason}.", name=name, reason=reason),
        say("Leave the pictures out, or choose a model that reads them."),
    )


def _failed(name: str, error: BaseException) -> ModelError:
    return ModelError(
        say("The pictures of '{name}' cannot be read: {reason}.", name=name, reason=words_of(error)),
        say("Leave the pictures out, or choose another model."),
    )
