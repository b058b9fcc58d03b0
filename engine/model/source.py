"""Where a model lies on this machine: the embedded pair, a folder, or the local hub cache; never the network."""

import re
from pathlib import Path
from typing import Literal

from engine.errors import ModelError
from engine.model.json_file import shown
from engine.protocol.options import EMBEDDED
from engine.protocol.sentences import say

ModelRole = Literal["target", "draft"]

EMBEDDED_MODELS = Path(__file__).parents[2] / "resources" / "models"
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def find_folder(source: str, role: ModelRole) -> Path:
    """The folder behind a source; raises `ModelError` when there is none."""
    if not source:
        raise ModelError(say("No model is given."), say("Give a model folder, a hub id or 'embedded'."))
    if source == EMBEDDED:
        return EMBEDDED_MODELS / f"demo-{role}"
    try:
        path = Path(source).expanduser()
        if path.is_dir():
            return path
        if path.exists():
            raise ModelError(
                say("{file} is a file, not a model folder.", file=path), say("Give the folder with its config.json.")
            )
    except (OSError, RuntimeError, ValueError):
        raise ModelError(
            say("The model's path cannot be used."), say("Give a model folder, a hub id or 'embedded'.")
        ) from None
    if HUB_ID.fullmatch(source):
        return _cached_snapshot(source)
    raise ModelError(
        say("There is no model folder {folder}.", folder=shown(source)),
        say("Check the path, or give a hub id like 'org/name'."),
    )


def _cached_snapshot(hub_id: str) -> Path:
    import huggingface_hub  # noqa: PLC0415 - takes a fifth of a second, and most sources are folders

    missing = ModelError(
        say("There is no folder '{folder}', and no downloaded model of that name in the hub cache.", folder=hub_id),
        say("Download the model first, or give its folder."),
    )
    try:
        config = huggingface_hub.try_to_load_from_cache(hub_id, "config.json")
    except (OSError, ValueError):
        raise missing from None
    if not isinstance(config, str):
        raise missing
    return Path(config).parent
