"""A program without a window that encodes an animation: frames come by its input, and the file is its output.

A frame takes the encoder up to half a second of arithmetic, in whose pauses alone the window would answer.

The input begins with a line of JSON, an `EncoderSetup`. A frame is `FRAME` (milliseconds, bytes), then its pixels,
four bytes each; one of no bytes is the end, and without it the file is not wanted any more. Every answer is a line of
JSON on the error output: `Encoded`.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from app.system import json_text as json
from app.ui.colors import Ink, TreeColors

if TYPE_CHECKING:
    from PIL.Image import Image

FRAME = Struct("<QQ")
_PIXEL_BYTES = 4
_NICER = 10  # than the window, and than the engine


class Encoder(Protocol):
    """Writes pictures to a file as they come; all of it can raise `OSError`."""

    def add(self, image: "Image", milliseconds: int) -> None:
        """The next picture, as RGB, and how long it is shown."""

    def finish(self) -> None:
        """There is no further one."""


EncoderOf = Callable[[BinaryIO, tuple[int, int], TreeColors, bool], Encoder]
"""Makes an encoder for a file that can be sought in, of pictures of a size, in these colours, which may repeat."""


@dataclass(frozen=True, slots=True)
class EncoderSetup:
    """`encoder` is a module of this room and a class in it; `pixel_order`: Pillow's name for that of its bytes."""

    encoder: tuple[str, str]
    size: tuple[int, int]
    colors: TreeColors
    repeats: bool
    pixel_order: str

    def line(self) -> bytes:
        """As it is sent."""
        colors = replace(self.colors, tiers=dict(self.colors.tiers))
        return json.dumps(asdict(replace(self, colors=colors))).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Encoded:
    """How many frames are encoded, into how many bytes, or that the library is missing, or why it cannot be written."""

    frames: int = 0
    bytes: int = 0
    is_missing: bool = False
    errno: int = 0
    reason: str = ""


def main() -> int:
    """Encode one animation."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal is for the window
    if hasattr(os, "nice"):
        os.nice(_NICER)
    with os.fdopen(0, "rb") as frames, os.fdopen(1, "wb") as file, os.fdopen(2, "wb", closefd=False) as answers:
        try:
            encode(frames, file, answers)
        except BrokenPipeError:
            return 0
        except OSError as error:
            _say(answers, Encoded(errno=error.errno or 0, reason=error.strerror or str(error)))
            os._exit(1)  # what is left in the buffer of the file would fail once more
    return 0


def encode(frames: BinaryIO, file: BinaryIO, answers: BinaryIO) -> None:
    """Answer when the encoder is loaded, after every frame, and at the end. Raises `OSError`."""
    setup = json.loads(frames.readline())
    try:
        encoder_of = _loaded(setup["encoder"])
        from PIL import Image  # noqa: PLC0415  # its absence is answered
    except ImportError:
        _say(answers, Encoded(is_missing=True))
        return
    width, height = setup["size"]
    encoder = encoder_of(file, (width, height), _colors(setup["colors"]), setup["repeats"])
    _say(answers, Encoded())
    count = 0
    while len(head := frames.read(FRAME.size)) == FRAME.size:
        milliseconds, length = FRAME.unpack(head)
        if not length:
            if count:
                encoder.finish()
            file.flush()
            _say(answers, Encoded(count, file.tell()))
            return
        pixels = frames.read(length)
        if len(pixels) < length:
            return
        image = Image.frombytes("RGB", (width, height), pixels, "raw", setup["pixel_order"], width * _PIXEL_BYTES, 1)
        encoder.add(image, milliseconds)
        count += 1
        _say(answers, Encoded(count, file.tell()))


def _loaded(encoder: Sequence[str]) -> EncoderOf:
    """Raises `ImportError` where Pillow is missing or was built without the format."""
    module, name = encoder
    return cast(EncoderOf, getattr(import_module(f"{__package__}.{module}"), name))


def _colors(sent: Mapping[str, Any]) -> TreeColors:
    return TreeColors(**{name: _restored(value) for name, value in sent.items()})


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_restored, value))
    return Ink(**value) if isinstance(value, dict) and "fill" in value else value


def _say(answers: BinaryIO, answer: Encoded) -> None:
    answers.write(json.dumps(asdict(answer)).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
