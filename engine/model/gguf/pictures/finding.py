"""Finds the encoder of pictures of a model in GGUF files: in a file beside it, or, of Ollama's, in the same one.

One such file does for all variants of a model. Programs call it differently: LM Studio and Unsloth `mmproj-F16.gguf` in
the model's folder, Jan `mmproj.gguf`, llama.cpp's cache `<owner>_<model>_mmproj-….gguf` among those of other models.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from engine.errors import ModelError
from engine.gguf_header import architecture_of, read_beginning
from engine.model.gguf.header import GgufHeader
from engine.model.gguf.ollama_store import projector_in_store
from engine.model.gguf.pictures.projectors import ARCHITECTURES, PROJECTOR_KEYS
from engine.model.model_folder import ModelFolder
from engine.protocol.variants import PROJECTOR, SUFFIX, encoder_rank, label_of

MOST_FILES = 64  # beside a model whose headers are read
OF_PICTURES = "v."  # what names of tensors begin with
SNAPSHOTS = "snapshots"  # of the hub's cache, where a variant may lie in a folder inside


def find_encoder(header: GgufHeader, path: Path) -> Path | None:
    """The file with the encoder of the model at `path`, whose own files say this; None where none can be used.

    Nothing is asked of the model's own files twice. Blocks on the disk.
    """
    if any(name.startswith(OF_PICTURES) for name in header.tensors):
        return header.shards[0]
    stored = projector_in_store(path)
    found = [stored] if stored else _beside(path)
    return next((each for each in found if _fits(each, header, is_named=_kinship(path, each) != 0)), None)


def projector_of(metadata: object) -> str:
    """What the metadata of an encoder's file say is its kind; empty where they say none."""
    entries = metadata if isinstance(metadata, dict) else {}
    found = (entries.get(key) for key in PROJECTOR_KEYS)
    return next((kind for kind in found if isinstance(kind, str) and kind), "")


def _beside(path: Path) -> list[Path]:
    """The files that may belong to a model, the likeliest first."""
    folders = [path.parent, *([path.parent.parent] if path.parent.parent.parent.name == SNAPSHOTS else [])]
    found = [each for folder in folders for each in _projectors(folder)]
    return sorted(found, key=lambda each: (-_kinship(path, each), encoder_rank(each.name), each.name))[:MOST_FILES]


def _projectors(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        names = (each for each in folder.iterdir() if each.name.casefold().endswith(SUFFIX) and each.is_file())
        yield from (each for each in names if PROJECTOR in each.name.casefold())


def _kinship(model: Path, projector: Path) -> int:
    """How much of the model's name an encoder's has: -1 for one that is called after none, 0 for another one's."""
    own = model.name.casefold()
    parts = [_plain(part) for part in projector.stem.casefold().split(PROJECTOR)]
    said = [part for part in parts if part not in ("", "model")]
    return max((len(part) if part in own else 0 for part in said), default=-1)


def _plain(part: str) -> str:
    """A part of a name without the number format that it ends in."""
    label = label_of(part).casefold()
    return part.strip("-_. ").removesuffix(label).strip("-_. ")


def _fits(path: Path, model: GgufHeader, *, is_named: bool) -> bool:
    """Whether an encoder makes what the model reads; one of an unknown kind must be called as the model is."""
    try:
        said = dict(read_beginning(ModelFolder(path.parent).file(path.name)).metadata)
    except ModelError:
        return False
    if architecture_of(said) == model.architecture:  # of Ollama's, which may keep both in the same terms
        return True
    width = model.metadata.get(f"{model.architecture}.embedding_length")
    if said.get("clip.vision.projection_dim", width) != width:
        return False
    known = ARCHITECTURES.get(projector_of(said))
    return is_named if known is None else model.architecture in known
