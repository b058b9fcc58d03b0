"""Prepared copies of models, as the engine keeps them: read from their manifests, which are only read here."""

from dataclasses import dataclass
from pathlib import Path

from app.system.json_text import count, parse_object, text

_MANIFEST, _KIND = "manifest.json", "coppice prepared layers"
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class PreparedCopy:
    """A model's layers in another number type, such as `nf4` (`weights`); `source`: the folder they were made from."""

    folder: Path
    name: str
    source: str
    weights: str
    bytes: int
    layers: int
    complete: bool
    digests: tuple[tuple[str, str], ...] = ()


def find_prepared(cache: Path) -> tuple[PreparedCopy, ...]:
    """Every prepared copy in the application's cache folder, incomplete ones too."""
    folder = cache / "prepared"
    found = (_read(path) for path in sorted(folder.iterdir())) if folder.is_dir() else ()
    return tuple(filter(None, found))


def _read(folder: Path) -> PreparedCopy | None:
    path = folder / _MANIFEST
    if folder.is_symlink() or path.is_symlink():
        return None
    try:
        with path.open("rb") as file:
            content = parse_object(file.read(_MOST_BYTES))
    except (OSError, ValueError):
        return None
    recipe, layers = content.get("recipe"), content.get("layers")
    if content.get("kind") != _KIND or not isinstance(recipe, dict) or not isinstance(layers, dict):
        return None
    entries = {index: entry for index, entry in layers.items() if index.isdecimal() and isinstance(entry, dict)}
    codec, number = text(recipe.get("codec"), 20), text(recipe.get("dtype"), 20)
    return PreparedCopy(
        folder=folder,
        name=text(recipe.get("name")),
        source=text(recipe.get("source"), 4096),
        weights=number if codec == "plain" else codec,
        bytes=sum(count(entry.get("nbytes")) for entry in entries.values()),
        layers=count(recipe.get("layer_count")),
        complete=content.get("complete") is True,
        digests=tuple(
            (f"layer-{int(index):05}.safetensors", text(entry.get("digest"), 64)) for index, entry in entries.items()
        ),
    )
