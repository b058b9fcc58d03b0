"""JSON from outside, read within limits; what the system says of a file."""

import json
from pathlib import Path

from engine.errors import ModelError
from engine.files import open_ordinary
from engine.protocol.sentences import lowered, reason_of, say


def read_json_object(path: Path, max_bytes: int) -> dict[str, object]:
    """The object that the file holds; raises `ModelError` when it is unreadable, too big, or anything else."""
    try:
        with open_ordinary(path) as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise ModelError(
            say("{file} cannot be read: {reason}.", file=path, reason=reason(error)),
            say("Check that the file may be read."),
        ) from None
    if len(content) > max_bytes:
        raise ModelError(
            say("{file} is larger than {size} MB.", file=path, size=max_bytes >> 20),
            say("Use the file that belongs to the model."),
        )
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise ModelError(say("{file} is not valid JSON.", file=path), say("Download the file again.")) from None
    if not isinstance(value, dict):
        raise ModelError(say("{file} does not hold a JSON object.", file=path), say("Download the file again."))
    return value


def reason(error: OSError) -> str:
    """What the operating system said, without number and path."""
    return lowered(reason_of(error))
