"""The tokens that end an answer, gathered from every file of a model folder that names some."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.errors import ModelError
from engine.protocol.sentences import say

MAX_BYTES = 16 << 20


def read_end_tokens(folder: Path) -> frozenset[int]:
    """The end tokens of generation_config.json and config.json, as ids; a model may name several, or none.

    Raises `ModelError` when one of the files is damaged.
    """
    return frozenset(
        token
        for name in ("generation_config.json", "config.json")
        for settings in _settings(folder / name)
        for token in _ids(settings.get("eos_token_id"))
    )


def _settings(path: Path) -> Iterator[Mapping[str, object]]:
    """The file's object and, for models of text and images, the part of it that is about text."""
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            settings = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        raise ModelError(say("{file} cannot be read as JSON.", file=path), say("Download the file again.")) from None
    for part in (settings, settings.get("text_config") if isinstance(settings, dict) else None):
        if isinstance(part, dict):
            yield part


def _ids(value: object) -> Iterator[int]:
    for item in value if isinstance(value, list) else [value]:
        if type(item) is int and item >= 0:
            yield item
