"""The tokenizer of a model folder, loaded by transformers without network and without foreign code.

transformers follows names in a model's JSON files to other files, to classes of any kind, and to code. It gets to see
a private folder only, with links to files that are data, and JSON files written anew with the settings that are known
to be data.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import ModelError, no_panic
from engine.files import open_ordinary
from engine.protocol.sentences import say
from engine.text.backend import complaint_of

TOKENIZER = "tokenizer.json"
CONFIG, SETTINGS, TEMPLATE = "config.json", "tokenizer_config.json", "chat_template.jinja"
OF_PICTURES = "chat_template.json"  # of models that read pictures, which goes before what the tokenizer has
LINKED = (
    TOKENIZER, "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt", "spiece.model", "tekken.json",
    "added_tokens.json", "special_tokens_map.json", TEMPLATE,
)  # fmt: skip
MAX_BYTES = 16 << 20  # of a JSON file that is read here

# What tokenizers are set up by; besides these, names that end in `_token`.
KEPT = frozenset(
    {
        "add_bos_token", "add_eos_token", "add_prefix_space", "added_tokens_decoder", "additional_special_tokens",
        "chat_template", "clean_up_tokenization_spaces", "do_lower_case", "errors", "extra_special_tokens",
        "keep_accents", "legacy", "model_input_names", "model_max_length", "model_specific_special_tokens",
        "padding_side", "remove_space", "spaces_between_special_tokens", "split_special_tokens", "strip_accents",
        "tokenize_chinese_chars", "trim_offsets", "truncation_side", "unicode_normalizer", "use_default_system_prompt",
    }
)  # fmt: skip
KEPT_OF_CONFIG = ("model_type", "model_name", "transformers_version")
CLASS = re.compile(r"(?!Auto)[A-Za-z0-9_]*Tokenizer(Fast)?|PreTrainedTokenizerFast|TokenizersBackend", re.ASCII)

# Any of these is enough to make a tokenizer of; without one, transformers would say so in a page of text.
FILES = (TOKENIZER, "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
MAX_TOKENIZER_BYTES = 128 << 20  # the largest has some 35 MB
MOST_COLONS, MOST_COMMAS = 1 << 22, 1 << 23  # of a tokenizer.json: what is parsed takes up to twenty times its bytes
MOST_GROWTH = 256  # how many bytes the steps of a tokenizer may make of one; known ones come to some ten

DOWNLOAD_AGAIN = say("Download the model again.")


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
        with open_ordinary(path) as file:
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


class ForeignCode(ValueError):  # noqa: N818  # what it is
    """The tokenizer is a program that came with the model."""


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """The private folder for the tokenizer of a model folder.

    Raises `ValueError` for a file that is no JSON object, and `ForeignCode` for a tokenizer of a class of its own.
    """
    with tempfile.TemporaryDirectory(prefix="coppice-tokenizer-", ignore_cleanup_errors=True) as name:
        stage = Path(name)
        for file in LINKED:
            if (folder / file).is_file():
                _link((folder / file).resolve(), stage / file)
        if not (stage / TEMPLATE).exists() and (folder / OF_PICTURES).is_file():
            template = _read(folder / OF_PICTURES).get("chat_template")
            if isinstance(template, str):
                (stage / TEMPLATE).write_text(template, "utf-8", newline="")  # Windows would double its line ends
        for file, kept in ((CONFIG, _of_config), (SETTINGS, _of_settings)):
            if (folder / file).is_file():
                _write(stage / file, _read(folder / file), kept)
        yield stage


def _of_config(name: str, value: object) -> bool:
    return name in KEPT_OF_CONFIG and isinstance(value, str)


def _of_settings(name: str, value: object) -> bool:
    return name in KEPT or (name.endswith("_token") and isinstance(value, str | dict | None))


def _write(path: Path, settings: Mapping[str, object], is_kept: Callable[[str, object], bool]) -> None:
    kept = {name: value for name, value in settings.items() if is_kept(name, value)}
    own_class = settings.get("tokenizer_class")
    if _is_known(own_class):
        kept["tokenizer_class"] = own_class
    elif own_class and _names_tokenizer(settings.get("auto_map")):
        raise ForeignCode(say("it brings its own code"))
    path.write_text(json.dumps(kept), "utf-8")


def _is_known(name: object) -> bool:
    """Whether transformers itself has a tokenizer class of that name."""
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name  # noqa: PLC0415 - takes seconds

    return isinstance(name, str) and bool(CLASS.fullmatch(name)) and tokenizer_class_from_name(name) is not None


def _names_tokenizer(auto_map: object) -> bool:
    return isinstance(auto_map, list) or (isinstance(auto_map, dict) and "AutoTokenizer" in auto_map)


def _read(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    settings = json.loads(content) if len(content) <= MAX_BYTES else None
    if not isinstance(settings, dict):
        raise ValueError(say("{file} is no JSON object", file=path.name))  # noqa: TRY004 - the file's fault
    return settings


def _link(source: Path, link: Path) -> None:
    """A link where the system allows one, else a copy."""
    try:
        link.symlink_to(source)
    except OSError:
        try:
            os.link(source, link)
        except OSError:
            shutil.copyfile(source, link)


def _require_moderate(tokenizer: Path) -> None:
    """Raise `ValueError` where the steps of a tokenizer.json, one behind the other, let texts grow beyond measure.

    Thirty that write two letters for one let a word take all memory, and the library runs them as soon as it loads.
    """
    content = tokenizer.read_bytes()
    if content.count(b":") > MOST_COLONS or content.count(b",") > MOST_COMMAS:
        raise ValueError(say("it has too many tokens"))
    try:
        said = json.loads(content)
    except RecursionError:
        raise ValueError(say("it is nested too deeply")) from None
    for part in ("normalizer", "decoder"):
        growth = 1.0
        for step in _steps(said.get(part) if isinstance(said, dict) else None):
            growth *= max(1.0, _growth(step))
        if growth > MOST_GROWTH:
            raise ValueError(say("it lets texts grow beyond measure"))


def _steps(part: object) -> Iterator[Mapping[str, object]]:
    """The steps of a normalizer or decoder, which may be sequences of others."""
    pending = [part]
    while pending:
        step = pending.pop()
        if isinstance(step, dict):
            yield step
            inner = (step.get(name) for name in ("normalizers", "decoders"))
            pending += [each for steps in inner if isinstance(steps, list) for each in steps]


def _growth(step: Mapping[str, object]) -> float:
    """How many bytes it makes of one at most."""
    match step:
        case {"type": "Replace", "pattern": {"String": str(pattern)}, "content": str(content)}:
            return _bytes(content) / max(1, _bytes(pattern))
        case {"type": "Replace", "content": str(content)}:  # an expression may match where nothing is
            return _bytes(content) + 1
        case {"type": "Prepend", "prepend": str(content)}:
            return _bytes(content)
        case {"type": "ByteLevel" | "BertNormalizer"}:
            return 2
    return 1


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def load_tokenizer(folder: Path) -> Any:
    """A fast tokenizer of transformers; raises `ModelError` when the folder has none that can be used."""
    _require_files(folder)
    import transformers  # noqa: PLC0415 - takes seconds; nobody should wait for them to hear that a file is missing

    try:
        if (folder / TOKENIZER).is_file():
            _require_moderate(folder / TOKENIZER)
        with no_panic(), staged(folder) as stage:
            library = transformers.AutoTokenizer.from_pretrained(
                str(stage), local_files_only=True, trust_remote_code=False
            )
            library.name_or_path = str(folder)  # not the private one, which is gone by now
            has_words = is_fast(library) and bool(library.backend_tokenizer.get_vocab_size(with_added_tokens=False))
    except Exception as error:  # damaged files raise anything here, the tokenizers library even a bare Exception
        hint = (
            say("Models that bring their own code are not run.") if isinstance(error, ForeignCode) else DOWNLOAD_AGAIN
        )
        raise ModelError(
            say("The tokenizer in {folder} cannot be opened: {reason}.", folder=folder, reason=complaint_of(error)),
            hint,
        ) from error
    if not is_fast(library):
        words = say("The tokenizer in {folder} is not of the fast kind.", folder=folder)
        raise ModelError(words, say("Choose a model with a tokenizer.json."))
    if not has_words:
        raise ModelError(say("The tokenizer in {folder} has an empty vocabulary.", folder=folder), DOWNLOAD_AGAIN)
    return library


def is_fast(library: Any) -> bool:
    """Whether a tokenizer of transformers is made of the tokenizers library."""
    return bool(getattr(library, "is_fast", False))


def _require_files(folder: Path) -> None:
    present = [folder / name for name in FILES if (folder / name).exists()]
    if not present:
        raise ModelError(say("{folder} holds no tokenizer.", folder=folder), DOWNLOAD_AGAIN)
    for path in present:
        if not path.is_file():
            raise ModelError(say("{file} is not an ordinary file.", file=path), say("Put the model's own file there."))
        if path.stat().st_size > MAX_TOKENIZER_BYTES:
            words = say("{file} is larger than {size} MB.", file=path, size=MAX_TOKENIZER_BYTES >> 20)
            raise ModelError(words, say("Use the file that belongs to the model."))
