"""A private folder with what a tokenizer is made of, and nothing else: the only one that transformers gets to see.

transformers follows names in a model's JSON files to other files, to classes of any kind, and to code. The folder holds
links to files that are data, and JSON files written anew with the settings that are known to be data.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

CONFIG, SETTINGS, TEMPLATE = "config.json", "tokenizer_config.json", "chat_template.jinja"
LINKED = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt", "spiece.model", "tekken.json",
    "added_tokens.json", "special_tokens_map.json", TEMPLATE,
)  # fmt: skip
MAX_BYTES = 16 << 20  # of a file that is read here

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
        raise ForeignCode("it brings its own code")
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
        raise ValueError(f"{path.name} is no JSON object")  # noqa: TRY004 - the file's fault, not a caller's
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
