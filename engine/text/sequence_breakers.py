"""Sequence breakers of DRY as tokens: a text behind whatever its first token begins with."""

from collections.abc import Mapping, Sequence

from engine.text.tokenizer import Tokenizer

MOST_TAIL = 20  # tokens behind the first one, as in llama.cpp


def breakers_of(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Sequences of tokens that write one of the texts, as llama.cpp finds them.

    A token that holds a whole text is one by itself. Where a token ends with the beginning of a text, the tokens of the
    rest follow, as these are when nothing else does. Looks at the whole vocabulary: what was found for the last texts
    is kept by the tokenizer.
    """
    known = tokenizer.kept_breakers.get(wanted := tuple(texts))
    if known is None:
        written = tokenizer.written()
        known = tuple(dict.fromkeys(each for text in texts for each in _of(text, written, tokenizer)))
        tokenizer.kept_breakers.clear()
        tokenizer.kept_breakers[wanted] = known
    return known


def _of(text: str, written: Mapping[int, bytes], tokenizer: Tokenizer) -> list[tuple[int, ...]]:
    whole = text.encode()
    found: list[tuple[int, ...]] = [(token,) for token, its in written.items() if whole in its]
    for begin in range(1, len(text)):
        lead = text[:begin].encode()
        heads = [token for token, its in written.items() if its.endswith(lead) and whole not in its]
        if heads:
            tail = tuple(tokenizer.encode_onward(text[begin:])[:MOST_TAIL])
            found += [(token, *tail) for token in heads]
    return found
