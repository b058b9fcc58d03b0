"""What two tokenizers have in common writes the same text in both, whatever their kinds; the rest can be spelled."""

from itertools import product

import pytest

from engine.text.intersection import TokenIntersection
from engine.text.tokenizer import Tokenizer
from tests.engine.text.tiny_tokenizers import (
    BEGIN,
    BUILDERS,
    END,
    TEXTS,
    library_tokenizer,
    put_begin_before_every_text,
    tiny,
)

WITH_BYTES = [kind for kind in BUILDERS if kind != "metaspace only"]


def inside(tokenizer: Tokenizer, ids: list[int]) -> str:
    """What the tokens write behind others."""
    lead = tokenizer.encode("a")
    return tokenizer.decode([*lead, *ids])[len(tokenizer.decode(lead)) :]


def spelled(intersection: TokenIntersection, ids: list[int]) -> list[int]:
    return [own for token in ids for own in intersection.spell(token)]


@pytest.mark.parametrize(("target", "draft"), list(product(BUILDERS, BUILDERS)))
def test_common_tokens_write_the_same(target: str, draft: str) -> None:
    one, other = tiny(target), tiny(draft)
    intersection = TokenIntersection(one, other)
    assert len(set(intersection.common.values())) == len(intersection.common), "one to one"
    assert all(one.piece(token) == other.piece(own) for token, own in intersection.common.items())
    assert all(intersection.spell(token) == (own,) for token, own in intersection.common.items())
    for name in (BEGIN, END, "<think>"):
        assert intersection.common[one.vocabulary[name]] == other.vocabulary[name]
    assert 0 < intersection.of_vocabulary <= 1
    assert 0 <= intersection.of_text <= 1


@pytest.mark.parametrize(("target", "draft"), list(product(BUILDERS, WITH_BYTES)))
def test_a_text_stays_the_same_text_in_the_draft_s_tokens(target: str, draft: str) -> None:
    one, other = tiny(target), tiny(draft)
    intersection = TokenIntersection(one, other)
    for text in TEXTS[:5]:
        ids = one.encode_onward(text)
        assert inside(other, spelled(intersection, ids)) == inside(one, ids)


def test_a_tokenizer_and_itself_have_all_in_common() -> None:
    for kind in ("byte level", "torn characters"):
        intersection = TokenIntersection(tiny(kind), tiny(kind))
        assert intersection.of_vocabulary == intersection.of_text == 1
        assert all(token == own for token, own in intersection.common.items())
    with_bytes = TokenIntersection(tiny("unigram"), tiny("unigram"))
    assert with_bytes.of_text == 1
    assert set(with_bytes.common) < set(tiny("unigram").vocabulary.values()), "'A' and <0x41> write the same"


def test_a_byte_is_a_byte_under_any_name() -> None:
    one, other = tiny("byte level"), tiny("sentencepiece with prefix")
    intersection = TokenIntersection(one, other)
    assert intersection.common[one.vocabulary["\u0107"]] == other.vocabulary["<0x07>"]
    assert intersection.common[one.vocabulary["\u0143"]] == other.vocabulary["<0xAD>"], "part of a character"
    assert intersection.common[one.vocabulary["e"]] == other.vocabulary["e"], "not <0x65>, which nobody writes"
    assert intersection.common[one.vocabulary["Ġ"]] == other.vocabulary["▁"]


def test_special_tokens_are_common_by_name_or_by_what_they_are_for() -> None:
    chat = ("<|turn|>",)
    one = tiny("byte level", control=chat)
    library = library_tokenizer("sentencepiece with prefix", control=chat)
    library.add_special_tokens({"eos_token": "<|done|>"})
    other = Tokenizer(library)
    intersection = TokenIntersection(one, other)
    assert intersection.common[one.vocabulary["<|turn|>"]] == other.vocabulary["<|turn|>"]
    assert intersection.common[one.vocabulary[END]] == other.vocabulary[END], "by its name, as the draft has it too"
    library = library_tokenizer("sentencepiece with prefix")
    library.eos_token = "<think>"
    del_end = TokenIntersection(tiny("byte level"), Tokenizer(library))
    assert del_end.common[one.vocabulary["<think>"]] == other.vocabulary["<think>"]


def test_a_special_token_that_the_draft_lacks_is_read_by_its_name_and_never_proposed() -> None:
    one, other = tiny("byte level", control=("<|turn|>",)), tiny("unigram")
    intersection = TokenIntersection(one, other)
    token = one.vocabulary["<|turn|>"]
    assert token not in intersection.common
    assert inside(other, list(intersection.spell(token))) == "<|turn|>"
    assert intersection.spell(10**6), "an id without a token too"


def test_the_opening_is_the_draft_s() -> None:
    library = library_tokenizer("sentencepiece with prefix")
    put_begin_before_every_text(library)
    draft = Tokenizer(library)
    assert TokenIntersection(tiny("byte level"), draft).opening == (draft.vocabulary[BEGIN],)
    assert TokenIntersection(draft, tiny("byte level")).opening == ()
