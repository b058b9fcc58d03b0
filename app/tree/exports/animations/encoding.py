"""Sends frames to the process that encodes them as they come, into a file that is whole or not there."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO

from PySide6.QtGui import QImage

from app.i18n.translation import tr
from app.system import json_text as json
from app.system.background import Stop
from app.system.bundle import ENCODE
from app.system.files import chosen_replacement
from app.system.own_program import command, environment
from app.tree.exports.animations.encoding_program import FRAME, Encoded, EncoderSetup
from app.tree.exports.animations.formats import AnimationFormat
from app.tree.exports.failures import writing_failed
from app.ui.colors import TreeColors
from engine.errors import InputError

_log = logging.getLogger(__name__)

_RGB32 = "BGRX" if sys.byteorder == "little" else "XRGB"  # Pillow's name for it
_PROGRAM = "app.tree.exports.animations.encoding_program"
_LONGEST_LINE = 1 << 16  # bytes that the process says

Painted = tuple[QImage, int]
"""A frame, in the format RGB32, and how many milliseconds it stays."""

Written = tuple[int, int]
"""How many frames are encoded, into how many bytes."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """`frames` end with None, also where they are not wanted any more; `size` is in pixels."""

    frames: "SimpleQueue[Painted | None]"
    path: Path
    form: AnimationFormat
    size: tuple[int, int]
    colors: TreeColors
    repeats: bool

    def run(self, stop: Stop) -> Iterator[Written]:
        """Write the file; tell when the encoder is loaded, of every frame, and once more when the file is in its place.

        Without a frame there is no file, and nothing more is told.

        Raises `InputError` in words, and `Cancelled`; nothing is left then.
        """
        try:
            replacement = chosen_replacement(self.path)
            try:
                written = 0, 0
                for written in self._encode(replacement.file, stop):
                    yield written
            except BaseException:
                replacement.discard()
                raise
            if not written[0]:
                replacement.discard()
                return
            replacement.commit()
        except OSError as error:
            _log.warning("An animation could not be written: %s", error)
            raise InputError(writing_failed(self.path, error)) from error
        yield written

    def _encode(self, file: BinaryIO, stop: Stop) -> Iterator[Written]:
        setup = EncoderSetup(self.form.encoder, self.size, self.colors, self.repeats, _RGB32)
        with _started(file) as process, stop.interrupting(process.kill):
            yield self._told(_sent(process, setup.line()), stop)
            while (painted := self.frames.get()) is not None:
                stop.check()
                image, milliseconds = painted
                pixels = image.constBits()
                head = FRAME.pack(milliseconds, len(pixels))
                yield self._told(_sent(process, head, pixels), stop)
            stop.check()
            yield self._told(_sent(process, FRAME.pack(0, 0)), stop)

    def _told(self, answer: Encoded | None, stop: Stop) -> Written:
        """Raises `OSError` as it was met there, `InputError` in words, and `Cancelled`."""
        stop.check()
        if answer is None:
            words = tr("{name} was not finished: the process that writes it ended.")
            raise InputError(words.format(name=self.path.name), tr("Try again, or choose a smaller size."))
        if answer.is_missing:
            words = tr("{name} animations cannot be written here: the library for it is missing.")
            raise InputError(words.format(name=self.form.name), tr("Choose another format."))
        if answer.reason:
            raise OSError(answer.errno, answer.reason)
        return answer.frames, answer.bytes


@contextmanager
def _started(file: BinaryIO) -> Iterator["subprocess.Popen[bytes]"]:
    """The process, whose output is the file. It has ended on return. Raises `OSError`."""
    process = subprocess.Popen(
        command(ENCODE, _PROGRAM),
        stdin=subprocess.PIPE,
        stdout=file,
        stderr=subprocess.PIPE,
        env=environment(),
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0)
        | getattr(subprocess, "BELOW_NORMAL_PRIORITY_CLASS", 0),
    )
    try:
        yield process
    finally:
        process.kill()  # also after its last answer: then all is in the file
        process.wait()
        for pipe in (process.stdin, process.stderr):
            with suppress(OSError):  # what it did not read any more
                if pipe is not None:
                    pipe.close()


def _sent(process: "subprocess.Popen[bytes]", *parts: bytes | bytearray | memoryview) -> Encoded | None:
    """What it answers; None where it has ended instead."""
    assert process.stdin is not None
    assert process.stderr is not None, "both are pipes"
    with suppress(OSError):  # it has ended, or says why it will
        for part in parts:
            process.stdin.write(part)
        process.stdin.flush()
    while (line := process.stderr.readline(_LONGEST_LINE)).endswith(b"\n"):
        try:
            return Encoded(**json.loads(line))
        except (ValueError, TypeError):
            _log.warning("The encoding process: %s", line.decode(errors="replace").rstrip())
    return None
