"""Names on the hub: of repositories, revisions, files that a model needs, and files that must not be written."""

import re
from collections.abc import Sequence

from engine.protocol.variants import find_projector, find_variants, split_source

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
QUANTIZATION = "hf_quant_config.json"  # ModelOpt's, where config.json does not say how weights are packed
TOKENIZER_FILES = (
    "added_tokens.json", "merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer.model",
    "tokenizer_config.json", "vocab.json", "vocab.txt", "spiece.model",
)  # fmt: skip
_SMALL = {
    *TOKENIZER_FILES, INDEX, "config.json", "generation_config.json", "tekken.json", "chat_template.jinja",
    "chat_template.json", "preprocessor_config.json", "processor_config.json", QUANTIZATION,
}  # fmt: skip
_WEIGHTS = ".safetensors"
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors", re.ASCII)

_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
_UNWRITABLE = re.compile(r'[<>:"|?*/\\]')
_REPO_ID = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
_ADDRESS = re.compile(
    r"(?:https?://[^/\s]+|(?:www\.)?(?:huggingface|hf)\.co)/([\w.-]+/[\w.-]+(?::[\w.-]+)?)(?=[/?#]|$)",
    re.ASCII | re.IGNORECASE,
)
_LONGEST = 200
_MOST_FOLDERS = 1


def leads_out(name: str) -> bool:
    """Whether the name could mean something outside the model's folder, on any platform."""
    parts = re.split(r"[/\\]", name)
    return bool(
        not name
        or name[0] in "/\\~"
        or ".." in parts
        or _DRIVE.match(name)
        or "\\" in name
        or _UNPRINTABLE.search(name)
    )


def is_writable(name: str) -> bool:
    """Whether every platform can keep a file of that name, directly in a folder."""
    return not (
        leads_out(name)
        or not name.isprintable()
        or _UNWRITABLE.search(name)
        or _RESERVED.fullmatch(name)
        or name.endswith((".", " "))
        or len(name) > _LONGEST
    )


def is_writable_path(name: str) -> bool:
    """The same for a file in the folder or in one inside it, as split weights lie."""
    parts = name.split("/")
    return len(parts) <= _MOST_FOLDERS + 1 and all(map(is_writable, parts))


def is_repo_id(name: str) -> bool:
    """Whether it has the form `org/name` and makes a folder name of its own."""
    return bool(_REPO_ID.fullmatch(name)) and "--" not in name and ".." not in name and len(name) <= _LONGEST


def named_repo(typed: str) -> str:
    """The repository whose address on the hub, or name with a variant, was typed or pasted; else what was typed."""
    address = _ADDRESS.match(typed)
    name, _ = split_source(address[1] if address else typed)
    return name if is_repo_id(name) else typed


def is_revision(name: str) -> bool:
    """Whether a branch, tag or commit can go by that name; it becomes a path below `refs`."""
    parts = name.split("/")
    return not leads_out(name) and all(is_writable(part) and part != "." for part in parts)


def choose(names: list[str], shards: Sequence[str] = ()) -> list[str]:
    """The files a model needs, small ones first; the weights are one file, or the shards that an index is about.

    `shards`: what the index names, if it could be read; else the names of the files tell.
    As transformers has it, and the engine, a single file comes before an index. Empty without any weights.
    """
    here = sorted(name for name in names if "/" not in name)
    weights = [name for name in here if name.endswith(_WEIGHTS)]
    if SINGLE in weights:
        weights = [SINGLE]
    elif INDEX in here:
        weights = sorted(shards) or [name for name in weights if _SHARD.fullmatch(name)] or weights
    else:
        weights = []
    if not weights:
        return []
    small = [name for name in here if name in _SMALL and not (name == INDEX and weights == [SINGLE])]
    return [*small, *weights]


def choose_variant(names: list[str], variant: str) -> list[str]:
    """The files of a GGUF variant, all of its parts, which hold everything that it needs; empty where it has none.

    Behind them stands the encoder of pictures, if there is one: it does for all variants.
    """
    found = (each for each in find_variants(names) if each.is_complete and each.answers_to(variant))
    parts, projector = next((each.files for each in found), ()), find_projector(filter(is_writable_path, names))
    return [*parts, projector] if parts and projector else list(parts)
