"""Sequence breakers as tokens: whichever tokens a text is written with, one of the sequences is found at its end."""

import pytest

from engine.protocol.options import SEQUENCE_BREAKERS
from engine.text.sequence_breakers import breakers_of
from engine.text.tokenizer import Tokenizer
from tests.engine.text.tiny_tokenizers import BUILDERS, tiny


def is_broken(tokens: list[int], breakers: tuple[tuple[int, ...], ...]) -> bool:
    return any(tuple(tokens[at : at + len(each)]) == each for each in breakers for at in range(len(tokens)))


@pytest.mark.parametrize("text", [*SEQUENCE_BREAKERS, "story", "the end"])
def test_it_is_found_in_every_text_that_holds_it(embedded: Tokenizer, text: str) -> None:
    breakers = breakers_of(embedded, (text,))
    for before in ("", "a", "His", "so ", "1"):
        for behind in ("", " and so on", "."):
            tokens = embedded.encode(before + text + behind)
            assert is_broken(tokens, breakers), (before, text, behind)
    assert not is_broken(embedded.encode("A cat sat on a mat."), breakers)


def test_tokens_that_hold_more_than_it_break_by_themselves(embedded: Tokenizer) -> None:
    singles = {each for each in breakers_of(embedded, ("\n", ":")) if len(each) == 1}
    holding = {token for token in embedded.vocabulary.values() if {"\n", ":"} & set(embedded.piece(token))}
    assert singles == {(token,) for token in holding}
    assert len(singles) > 2


def test_special_tokens_are_found_by_their_names(embedded: Tokenizer) -> None:
    end = next(iter(embedded.eos_ids))
    assert (end,) in breakers_of(embedded, (embedded.piece(end),))


@pytest.mark.parametrize("kind", BUILDERS)
def test_every_kind_of_tokenizer_is_looked_through(kind: str) -> None:
    tokenizer = tiny(kind)
    breakers = breakers_of(tokenizer, ("o",))
    assert is_broken(tokenizer.encode("The quick brown fox"), breakers)
    assert breakers_of(tokenizer, ("o",)) is breakers, "the vocabulary is looked through once"
    assert breakers_of(tokenizer, ()) == ()
