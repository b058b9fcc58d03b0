"""The tokenizer of a model folder, loaded by transformers without network and without foreign code."""

from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.panics import no_panic
from engine.text.complaint import complaint_of
from engine.text.tokenizer_stage import ForeignCode, staged

# Any of these is enough to make a tokenizer of; without one, transformers would say so in a page of text.
FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
MAX_BYTES = 512 << 20

DOWNLOAD_AGAIN = "Download the model again."


def load_tokenizer(folder: Path) -> Any:
    """A fast tokenizer of transformers; raises `ModelError` when the folder has none that can be used."""
    _require_files(folder)
    import transformers  # noqa: PLC0415 - takes seconds; nobody should wait for them to hear that a file is missing

    try:
        with no_panic(), staged(folder) as stage:
            library = transformers.AutoTokenizer.from_pretrained(
                str(stage), local_files_only=True, trust_remote_code=False
            )
            library.name_or_path = str(folder)  # not the private one, which is gone by now
            has_words = is_fast(library) and bool(library.backend_tokenizer.get_vocab_size(with_added_tokens=False))
    except Exception as error:  # damaged files raise anything here, the tokenizers library even a bare Exception
        hint = "Models that bring their own code are not run." if isinstance(error, ForeignCode) else DOWNLOAD_AGAIN
        raise ModelError(f"The tokenizer in {folder} cannot be opened: {complaint_of(error)}.", hint) from error
    if not is_fast(library):
        raise ModelError(f"The tokenizer in {folder} is not of the fast kind.", "Choose a model with a tokenizer.json.")
    if not has_words:
        raise ModelError(f"The tokenizer in {folder} has an empty vocabulary.", DOWNLOAD_AGAIN)
    return library


def is_fast(library: Any) -> bool:
    """Whether a tokenizer of transformers is made of the tokenizers library."""
    return bool(getattr(library, "is_fast", False))


def _require_files(folder: Path) -> None:
    present = [folder / name for name in FILES if (folder / name).exists()]
    if not present:
        raise ModelError(f"{folder} holds no tokenizer.", DOWNLOAD_AGAIN)
    for path in present:
        if not path.is_file():
            raise ModelError(f"{path} is not an ordinary file.", "Put the model's own file there.")
        if path.stat().st_size > MAX_BYTES:
            raise ModelError(f"{path} is larger than {MAX_BYTES >> 20} MB.", "Use the file that belongs to the model.")
