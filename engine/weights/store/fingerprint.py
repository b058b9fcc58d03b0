"""Whether a checkpoint's files are still those that something was made from; cheap, for files of any size."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from engine.errors import ModelError
from engine.protocol.sentences import reason_of, say

HEAD_BYTES = 1 << 20  # the table of tensors, and the first of the weights


def fingerprint(files: Sequence[Path]) -> str:
    """A hash over every file's name, size, time of last change, and first bytes; raises `ModelError` if one is gone.

    A copy of the files with new times counts as changed: to make something again is cheaper than wrong weights.
    """
    digest = hashlib.sha256()
    for path in sorted(files):
        try:
            state = path.stat()
            with path.open("rb") as file:
                head = hashlib.sha256(file.read(HEAD_BYTES)).hexdigest()
        except OSError as error:
            raise ModelError(
                say("{file} cannot be read: {reason}.", file=path, reason=reason_of(error)),
                say("Check the folder of the model."),
            ) from error
        digest.update(f"{path.name}\0{state.st_size}\0{state.st_mtime_ns}\0{head}\n".encode())
    return digest.hexdigest()
