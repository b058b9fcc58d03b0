"""The tokenizers library behind a model's tokenizer: the only place where text and tokens go into it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from engine.errors import ModelError, no_panic
from engine.protocol.sentences import Sentence, say

LONGEST = 200

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # of bytes that are not (yet) a character

BYTE_OF_TOKEN = {f"<0x{byte:02X}>": byte for byte in range(256)}

_VISIBLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_HIDDEN = tuple(byte for byte in range(0x100) if byte not in _VISIBLE)
BYTE_OF_LETTER = {chr(byte): byte for byte in _VISIBLE} | {chr(0x100 + at): byte for at, byte in enumerate(_HIDDEN)}
"""The alphabet of byte-level tokenizers, GPT-2's: what can be seen is itself, the rest follows from U+0100 on."""

ANOTHER = say("Download the model again, or choose another one.")


def complaint_of(error: BaseException) -> str:
    """The error's own words as one printable line of moderate length without a full stop; its type if it has none."""
    if error.args and isinstance(error.args[0], Sentence):
        return error.args[0]
    words = " ".join(str(error).split()) or type(error).__name__
    return "".join(filter(str.isprintable, words))[:LONGEST].rstrip(". ")


def mend_bytes(tokens: Sequence[str]) -> Iterator[str]:
    """The tokens with every byte that belongs to no character replaced by U+FFFD.

    A byte-fallback decoder gives up on a whole run of byte tokens for one wrong byte in it. Mended, the characters
    around it stay, and a text never changes backwards when a byte is added to it.
    """
    for are_bytes, run in groupby(tokens, BYTE_OF_TOKEN.__contains__):
        if not are_bytes:
            yield from run
            continue
        text = bytes(BYTE_OF_TOKEN[token] for token in run).decode("utf-8", errors="replace")
        for character in text:
            yield from (REPLACEMENT,) if character == REPLACEMENT else map("<0x{:02X}>".format, character.encode())


class Backend:
    """A fast tokenizer of transformers. Whatever it raises, panics included, is a `ModelError` that names it.

    A model's own rules, such as the pattern that splits its words, can fail on some texts and be fine with others.
    """

    def __init__(self, library: Any) -> None:
        """`library` is a fast tokenizer of transformers; no text is cut to a length or filled up to one."""
        self._name = Path(str(getattr(library, "name_or_path", "") or "")).name
        self._library = library
        with self._told():
            self._fast = library.backend_tokenizer
            self._fast.no_truncation()
            self._fast.no_padding()

    @property
    def library(self) -> Any:
        """The tokenizer itself, for what transformers does with it beside text."""
        return self._library

    @property
    def vocabulary(self) -> dict[str, int]:
        """Every token and its id, added ones included."""
        with self._told():
            return dict(self._fast.get_vocab(with_added_tokens=True))

    @property
    def end_tokens(self) -> frozenset[int]:
        """The id that the tokenizer itself says ends a text, if it names one."""
        with self._told():
            found: int | None = self._library.eos_token_id
        return frozenset() if found is None else frozenset({found})

    @property
    def added_tokens(self) -> Mapping[int, Any]:
        """The tokens beside the learnt vocabulary, with `content` and `special`."""
        with self._told():
            return dict(self._fast.get_added_tokens_decoder())

    @property
    def special_names(self) -> dict[str, str]:
        """What chat templates know the special tokens by, such as `bos_token`."""
        return dict(self._library.special_tokens_map)

    @property
    def template(self) -> str:
        """The source of the default chat template; empty where there is none."""
        try:
            return str(self._library.get_chat_template())
        except ValueError:
            return ""

    def name_of(self, token: int) -> str:
        """A token as the vocabulary writes it."""
        with self._told():
            return str(self._fast.id_to_token(token))

    def encode(self, text: str, framed: bool = False) -> list[int]:
        """The tokens of a text; `framed`: with those that the tokenizer puts around every text."""
        with self._told():
            # Not `encode`, which lets no other thread run meanwhile: a stop must be heard in the middle of it. And not
            # `encode_batch`, which also tells where each token lies, for thrice the time and twice the memory.
            return list(self._fast.encode_batch_fast([text], add_special_tokens=framed)[0].ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the tokens, without special ones."""
        with self._told():
            return str(self._fast.decode(tokens, skip_special_tokens=True))

    def decode_each(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of every row of tokens, without special ones."""
        with self._told():
            return list(map(str, self._fast.decode_batch(rows, skip_special_tokens=True)))

    def join(self, names: Sequence[str]) -> str:
        """The text of tokens as the vocabulary writes them."""
        with self._told():
            return str(self._fast.decoder.decode(list(names)))

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            with no_panic():
                yield
        except MemoryError:
            raise
        except Exception as error:
            named = f"'{self._name}'" if self._name else say("this model")
            raise ModelError(
                say("The tokenizer of {name} failed: {reason}.", name=named, reason=complaint_of(error)), ANOTHER
            ) from error
