"""Models in GGUF files on this computer: what their files say at a glance, in whatever folder they lie."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from app.hub.formats import GGUF
from app.i18n.translation import tr
from app.library.local.completeness import damage_of_gguf
from app.library.local.models import Home, LocalModel
from app.system.json_text import text
from engine.files import open_ordinary
from engine.gguf_header import ARCHITECTURE, is_gguf, read_scalars
from engine.protocol.variants import SUFFIX, find_variants, label_of, variants_in_cache

_GLANCE_BYTES = 1 << 16  # the family and the number format stand before the vocabulary
_NO_LANGUAGE_MODELS = ("clip",)  # what only turns pictures into tokens
_FILE_TYPES = {  # 4 is one of Ollama alone
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 4: "MXFP4", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS",
    20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
    28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}  # fmt: skip


def gguf_models_in(folder: Path, home: Home, within: Path, prefix: str = "") -> Iterator[LocalModel]:
    """Every model in the GGUF files of one folder; a link that leads out of `within` is no file of it.

    A model is called by its files, or, with a `prefix`, by that and its variant.
    """
    for variant in find_variants(path.name for path in files_in(folder, within)):
        files = tuple(folder / name for name in variant.files)
        name = f"{prefix}:{variant.name}" if prefix else variant.stem
        found = read_gguf(files, home, name, str(files[0]), missing=variant.part_count - len(files))
        if found is not None:
            yield found


def files_in(folder: Path, within: Path) -> list[Path]:
    """The GGUF files directly in a folder that lie below `within`, links resolved; none where it cannot be read."""
    try:
        root = within.resolve()
        return [
            path
            for path in sorted(folder.iterdir())
            if path.name.casefold().endswith(SUFFIX) and path.is_file() and path.resolve().is_relative_to(root)
        ]
    except (OSError, RuntimeError):
        return []


def cached_gguf_models(root: Path, repo: str) -> Iterator[LocalModel]:
    """The variants of a model in the hub's cache, from its `models--` folder."""
    inside = root.resolve()
    for snapshot, variant in variants_in_cache(root):
        files = tuple(snapshot / name for name in variant.files)
        if not all(path.resolve().is_relative_to(inside) for path in files):
            continue
        source = f"{repo}:{variant.name}"
        found = read_gguf(files, Home.HUB_CACHE, source, source, root=root, alias=f"{repo}:{variant.stem}")
        if found is not None:
            yield found


def links_of(root: Path, variant_files: Iterable[Path]) -> tuple[Path, ...]:
    """The names that files of one snapshot have in all snapshots of a cached model."""
    names = [Path(*path.relative_to(root / "snapshots").parts[1:]) for path in variant_files]
    found = (snapshot / name for snapshot in sorted((root / "snapshots").iterdir()) for name in names)
    return tuple(path for path in found if path.is_file())


def read_gguf(
    files: tuple[Path, ...],
    home: Home,
    name: str,
    source: str,
    root: Path | None = None,
    alias: str = "",
    missing: int = 0,
) -> LocalModel | None:
    """The model in these files, the first of which says what it is; None where that is no language model.

    `root` holds nothing else; without one, the files alone are what is deleted. `missing`: parts that are not there.
    """
    try:
        states = [path.stat() for path in files]
    except OSError:  # gone meanwhile
        return None
    problem, scalars = _glance(files[0])
    problem = problem or _damage(files, [state.st_size for state in states])
    if scalars.get(ARCHITECTURE) in _NO_LANGUAGE_MODELS:
        return None
    if missing:
        problem = tr("{missing} of {count} weight files are missing.").format(
            missing=missing, count=missing + len(files)
        )
    file_type = scalars.get("general.file_type")
    label = label_of(name) or (_FILE_TYPES.get(file_type, "") if isinstance(file_type, int) else "")
    return LocalModel(
        source=source,
        name=name,
        home=home,
        folder=files[0].parent,
        root=root or files[0].parent,
        bytes=sum(state.st_size for state in states),
        changed=max(state.st_mtime for state in states),
        model_type=text(scalars.get(ARCHITECTURE), 60),
        problem=problem,
        remedy=home.remedy if problem else "",
        format=f"{GGUF} {label}".strip(),
        files=files,
        parts=() if root else files,
        alias=alias,
        resolved=str(files[0].resolve()),
    )


def _damage(files: tuple[Path, ...], sizes: list[int]) -> str:
    """What is wrong with the files whose tables are quickly read: small ones, and parts without the vocabulary.

    Of a large first file `VocabularyCache` tells it, which reads what stands before its table anyway.
    """
    quick = [path for path, size in zip(files, sizes, strict=True) if path != files[0] or size <= _GLANCE_BYTES]
    return next(filter(None, map(damage_of_gguf, quick)), "")


def _glance(path: Path) -> tuple[str, dict[str, object]]:
    try:
        with open_ordinary(path) as file:
            content = file.read(_GLANCE_BYTES)
    except OSError:
        return tr("It cannot be read."), {}
    return ("", read_scalars(content)) if is_gguf(content) else (tr("It is no GGUF file of a known version."), {})
