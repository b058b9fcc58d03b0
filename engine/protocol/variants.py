"""Variants of a model in GGUF files: what their names say, and how one of them is called: `org/name:Q4_K_M`."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIX = ".gguf"
_SOURCE = re.compile(r"([\w.-]+/[\w.-]+):([\w.-]+)", re.ASCII)
_NAME = re.compile(r"[\w.-]{1,200}", re.ASCII)
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})", re.ASCII)
_LABEL = re.compile(
    r"(?<![A-Za-z0-9])((?:UD-)?(?:I?Q[1-8](?:_[A-Z0-9]+)*|TQ[12]_0|MXFP4(?:_[A-Z]+)*|NVFP4|BF16|FP?(?:16|32)))"
    r"(?![A-Za-z0-9])",
    re.ASCII | re.IGNORECASE,
)
PROJECTOR = "mmproj"  # in the names of files with an encoder of pictures, which belongs to the models beside it
_NO_MODELS = (PROJECTOR, "imatrix", "ggml-vocab")  # encoders, statistics and vocabularies are no language models
_OF_ENCODERS = ("F16", "BF16", "Q8_0", "F32")  # number formats of such files, the best first: they are small anyway
MAX_PARTS = 2000
_REGISTRY, _LIBRARY = "registry.ollama.ai", "library"


@dataclass(frozen=True, slots=True)
class Variant:
    """One model in one number format. `files`: its parts, in order; `name` is how it is asked for within its place.

    `stem`: the name of its files without ending and count. `part_count`: as the names say; 1 for a model in one file.
    """

    name: str
    stem: str
    files: tuple[str, ...]
    part_count: int = 1

    @property
    def is_complete(self) -> bool:
        """Whether every part is there."""
        return len(self.files) == self.part_count

    def answers_to(self, name: str) -> bool:
        """Whether it is meant by that name, its own or that of its files."""
        return name.casefold() in (self.name.casefold(), self.stem.casefold())


def split_source(source: str) -> tuple[str, str]:
    """The repository and the variant that a source names; the variant is empty where it names none."""
    match = _SOURCE.fullmatch(source)
    return (match[1], match[2]) if match else (source, "")


def join_source(repo: str, variant: str) -> str:
    """The source that names a variant of a repository, or, without one, the repository."""
    return f"{repo}:{variant}" if variant else repo


def is_variant(name: str) -> bool:
    """Whether a variant can be called that."""
    return bool(_NAME.fullmatch(name))


def find_variants(paths: Iterable[str]) -> tuple[Variant, ...]:
    """The variants among the files of a repository or folder, whose paths are written with slashes.

    A variant is called by the number format that its file names end in; where two would share it, by its stem.
    """
    parts: dict[tuple[str, str], dict[int, str]] = {}
    counts: dict[tuple[str, str], int] = {}
    for path in sorted(paths):
        folder, _, file = path.rpartition("/")
        if not file.casefold().endswith(SUFFIX) or any(word in file.casefold() for word in _NO_MODELS):
            continue
        stem, number, count = file[: -len(SUFFIX)], 1, 1
        if match := _PART.fullmatch(stem):
            stem, number, count = match[1], int(match[2]), int(match[3])
        if is_variant(stem) and 1 <= number <= count <= MAX_PARTS:
            parts.setdefault((folder, stem), {}).setdefault(number, path)
            counts[folder, stem] = max(count, counts.get((folder, stem), 1))
    labels = {key: label_of(key[1]) or label_of(key[0]) or key[1] for key in parts}
    shared = [label.casefold() for label in labels.values()]
    found: dict[str, Variant] = {}
    for key, label in labels.items():
        name = label if shared.count(label.casefold()) == 1 else key[1]
        files = tuple(path for _, path in sorted(parts[key].items()))
        found.setdefault(name.casefold(), Variant(name, key[1], files, counts[key]))
    return tuple(found.values())


def find_projector(paths: Iterable[str]) -> str:
    """The file of a repository with the encoder of pictures that does for all of its variants; empty for none."""
    files = {path: path.rpartition("/")[2].casefold() for path in paths}
    found = [path for path, file in files.items() if PROJECTOR in file and file.endswith(SUFFIX)]
    return min(found, key=lambda path: (encoder_rank(path), path.count("/"), path), default="")


def encoder_rank(name: str) -> int:
    """Which of several files with the same encoder is the best, the lowest of all, by the number format it names."""
    label = label_of(name)
    return _OF_ENCODERS.index(label) if label in _OF_ENCODERS else len(_OF_ENCODERS)


def variants_in_cache(root: Path) -> Iterator[tuple[Path, Variant]]:
    """The complete variants of a model in the hub's cache, each with its snapshot, from its `models--` folder.

    What the branch `main` is at comes first, then what is newest: an older commit can hold a variant that no newer one
    was asked for. Blocks on the disk; what cannot be read is not there.
    """
    seen: set[str] = set()
    for snapshot in snapshots_in_cache(root):
        try:
            paths = [path for path in (*snapshot.glob("*.gguf"), *snapshot.glob("*/*.gguf")) if path.is_file()]
        except OSError:
            continue
        for variant in find_variants(path.relative_to(snapshot).as_posix() for path in paths):
            if variant.is_complete and variant.stem not in seen:
                seen.add(variant.stem)
                yield snapshot, variant


def snapshots_in_cache(root: Path) -> list[Path]:
    """The commits of a model in the hub's cache, that which the branch `main` is at first, then the newest."""
    try:
        commit = (root / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        commit = ""
    try:
        found = [(path.name == commit, path.stat().st_mtime, path) for path in (root / "snapshots").iterdir()]
    except OSError:
        return []
    return [path for *_, path in sorted(found, reverse=True)]


def label_of(name: str) -> str:
    """The number format at the end of a file's or folder's name, such as `Q4_K_M`; empty if it names none."""
    found = _LABEL.findall(name)
    return str(found[-1]).upper() if found else ""


def ollama_name(host: str, owner: str, model: str, tag: str) -> str:
    """How Ollama calls the model whose manifest lies in these folders: `qwen3:32b`, behind what is not usual."""
    is_usual = host == _REGISTRY
    before = () if is_usual and owner == _LIBRARY else (owner,) if is_usual else (host, owner)
    return "/".join((*before, f"{model}:{tag}"))
