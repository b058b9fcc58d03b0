"""Tokens that stand for single bytes, for characters the vocabulary does not have."""

from collections.abc import Iterator, Sequence
from itertools import groupby

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

BYTE_OF_TOKEN = {f"<0x{byte:02X}>": byte for byte in range(256)}


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
