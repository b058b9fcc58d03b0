"""A tokenizer's tokens as llguidance knows them: their bytes, which are special, and which end an answer."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol
from weakref import ref

if TYPE_CHECKING:
    from llguidance import LLTokenizer


class Encoder(Protocol):
    """What there must be of a tokenizer."""

    def encode_onward(self, text: str) -> list[int]:
        """The tokens of a text that others precede."""


class GrammarVocabulary:
    """Every token's bytes, and llguidance's own index of them, which takes half a second for 128,000 tokens.

    `spelled`: the bytes of tokens that write text; a token that is neither there nor special is never allowed.
    `size`: one more than the largest id.
    """

    def __init__(
        self, spelled: Mapping[int, bytes], special: Mapping[int, str], end_tokens: Sequence[int], encoder: Encoder
    ) -> None:
        """`special`: the names of tokens that write none; `end_tokens`: of an answer, at least one."""
        self.spelled = spelled
        self.special = special
        self.end_tokens = tuple(end_tokens)
        self.size = max([*spelled, *special, *end_tokens]) + 1
        self._encoder = ref(encoder)  # the library holds on to what it calls, and Python's collector cannot see that
        self._tokens = {written: token for token, written in sorted(spelled.items(), reverse=True)}
        self._longest = max(map(len, self._tokens), default=1)

    @cached_property
    def library(self) -> "LLTokenizer":
        """The index, made when it is first asked for."""
        from llguidance import LLTokenizer, TokenizerWrapper  # noqa: PLC0415  # only constrained answers need it

        return LLTokenizer(TokenizerWrapper(_Wrapped(self)), eos_token=list(self.end_tokens))

    def encode(self, text: bytes) -> list[int]:
        """Tokens that write exactly these bytes: the tokenizer's own where it has them, else the longest that fit.

        A text that names a special token would become that token; it must not, as a string in JSON stays a string.
        """
        encoder = self._encoder()
        try:
            tokens = encoder.encode_onward(text.decode()) if encoder else []
        except Exception:  # noqa: BLE001  # Rust calls this, and takes an exception for the end of the world
            tokens = []
        if b"".join(self.spelled.get(token, b"") for token in tokens) == text and not self.special.keys() & {*tokens}:
            return tokens
        return self._longest_first(text)

    def _longest_first(self, text: bytes) -> list[int]:
        found: list[int] = []
        while text:
            fits = (size for size in range(min(self._longest, len(text)), 0, -1) if text[:size] in self._tokens)
            size = next(fits, 0)
            if not size:
                break
            found.append(self._tokens[text[:size]])
            text = text[size:]
        return found


class _Wrapped:
    """What llguidance reads of a tokenizer."""

    def __init__(self, vocabulary: GrammarVocabulary) -> None:
        self.eos_token_id, self.bos_token_id = vocabulary.end_tokens[0], None
        self.special_token_ids = [*vocabulary.special]
        self.tokens = [b""] * vocabulary.size
        for token, written in vocabulary.spelled.items():
            self.tokens[token] = written
        for token, name in vocabulary.special.items():
            self.tokens[token] = name.encode()
        self._vocabulary = ref(vocabulary)

    def __call__(self, text: bytes) -> list[int]:
        vocabulary = self._vocabulary()
        return vocabulary.encode(text) if vocabulary else []
