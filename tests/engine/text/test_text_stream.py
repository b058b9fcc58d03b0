"""The streamed text is the decoded text up to the first stop string, whatever the tokens are."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.backend import REPLACEMENT
from engine.text.text_stream import WINDOW, TextStream
from engine.text.tokenizer import Tokenizer
from tests.campaigns.extent import choose
from tests.engine.text.test_stop_strings import cut_at_first
from tests.engine.text.tiny_tokenizers import BUILDERS, TEXTS, tiny

KINDS = [*BUILDERS, "embedded"]


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """One of every kind, and the embedded one."""
    if request.param == "embedded":
        return request.getfixturevalue("embedded")  # type: ignore[no-any-return]
    return tiny(request.param)


def run(tokenizer: Tokenizer, ids: Sequence[int], stop: Sequence[str] = ()) -> list[str]:
    """What is shown after each token, and at the end."""
    stream = TextStream(tokenizer, stop)
    return [*map(stream.push, ids), stream.flush()]


def draw_ids(data: st.DataObject, tokenizer: Tokenizer) -> list[int]:
    """Tokens at random: any id, also ones there are not; real text; and the same few tokens over and over."""
    size = len(tokenizer.vocabulary)
    anything = st.lists(st.integers(-1, size + 2), max_size=40)
    written = st.lists(st.sampled_from(TEXTS), max_size=2).map(lambda texts: tokenizer.encode("".join(texts)))
    repeated = st.tuples(st.lists(st.integers(0, size - 1), min_size=1, max_size=3), st.integers(1, 30))
    parts = st.one_of(anything, written, repeated.map(lambda part: part[0] * part[1]))
    return [token for part in data.draw(st.lists(parts, max_size=4)) for token in part]


def draw_stop(data: st.DataObject, text: str) -> list[str]:
    """Stop strings that are likely to occur, overlap and span tokens, and some that are not."""
    within = st.tuples(st.integers(0, max(0, len(text) - 1)), st.integers(1, 12)).map(lambda at: text[at[0] :][: at[1]])
    missed = within.map(lambda string: string[:-1] + "\N{SNOWMAN}")
    return data.draw(st.lists(st.one_of(within, missed).filter(bool), max_size=4))


@settings(deadline=None, max_examples=choose(15, 150))
@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_shown_is_the_decoded_text(kind: str, data: st.DataObject, embedded: Tokenizer) -> None:
    tokenizer = embedded if kind == "embedded" else tiny(kind)
    ids = draw_ids(data, tokenizer)
    assert "".join(run(tokenizer, ids)) == tokenizer.decode(ids)


@settings(deadline=None, max_examples=choose(15, 150))
@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_with_stop_strings_it_ends_before_the_first(kind: str, data: st.DataObject, embedded: Tokenizer) -> None:
    tokenizer = embedded if kind == "embedded" else tiny(kind)
    ids = draw_ids(data, tokenizer)
    text = tokenizer.decode(ids)
    stop = draw_stop(data, text)
    stream = TextStream(tokenizer, stop)
    shown = "".join(map(stream.push, ids)) + stream.flush()
    assert shown == cut_at_first(text, stop)
    assert stream.stopped == any(string in text for string in stop)


def test_no_character_is_shown_broken(tokenizer: Tokenizer) -> None:
    for text in TEXTS:
        shown = run(tokenizer, tokenizer.encode(text))
        assert not any(REPLACEMENT in part for part in shown)
        assert "".join(shown) == tokenizer.decode(tokenizer.encode(text))


@pytest.mark.parametrize("kind", ["byte level", "torn characters", "sentencepiece without prefix"])
def test_real_text_comes_back_whole(kind: str) -> None:
    for text in TEXTS[:5]:
        assert "".join(run(tiny(kind), tiny(kind).encode(text))) == text


def test_a_character_is_shown_with_its_last_byte() -> None:
    tokenizer = tiny("sentencepiece without prefix")
    shown = run(tokenizer, tokenizer.encode("a🙂b"))
    assert shown == ["a", "", "", "", "🙂", "b", ""]


def test_a_wrong_byte_does_not_spoil_the_characters_around_it() -> None:
    tokenizer = tiny("sentencepiece without prefix")
    wrong = tokenizer.vocabulary["<0xFF>"]
    ids = [*tokenizer.encode("🙂"), wrong, *tokenizer.encode("你a")]
    assert "".join(run(tokenizer, ids)) == tokenizer.decode(ids) == f"🙂{REPLACEMENT}你a"


def test_a_character_that_never_ends_becomes_a_replacement() -> None:
    tokenizer = tiny("byte level")
    ids = tokenizer.encode("a🙂")
    assert run(tokenizer, ids[:-1])[-1] == REPLACEMENT
    assert "".join(run(tokenizer, ids[:-1])) == f"a{REPLACEMENT}"


def test_spaces_are_neither_lost_nor_doubled(tokenizer: Tokenizer) -> None:
    for text in ("a b", "a  b   c", " a", "  a ", "a ", "   ", "a\n b\n\n  c"):
        ids = tokenizer.encode(text)
        assert "".join(run(tokenizer, ids)) == tokenizer.decode(ids)


def test_after_a_stop_string_the_rest_of_a_round_is_ignored() -> None:
    tokenizer = tiny("byte level")
    stream = TextStream(tokenizer, ("</a>", "a>b"))
    shown = ""
    for token in tokenizer.encode("x</a>b and more"):
        shown += stream.push(token)
    assert (shown, stream.stopped, stream.flush()) == ("x", True, "")


def test_a_stop_string_may_be_completed_by_the_end_itself() -> None:
    tokenizer = tiny("byte level")
    stream = TextStream(tokenizer, (f"a{REPLACEMENT}",))
    shown = "".join(map(stream.push, tokenizer.encode("ba🙂")[:-1]))
    assert (shown, stream.stopped) == ("b", False)
    assert (stream.flush(), stream.stopped) == ("", True)


class CountingDecoder:
    """A decoder that remembers how much it was asked."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.asked: list[int] = []
        self._tokenizer = tokenizer

    def decode(self, ids: Sequence[int]) -> str:
        self.asked.append(len(ids))
        return self._tokenizer.decode(ids)

    def writes_text(self, token: int) -> bool:
        return self._tokenizer.writes_text(token)


def test_the_cost_of_a_token_does_not_grow(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("".join(TEXTS)) * 5 + [len(tokenizer.vocabulary) - 1, *tokenizer.eos_ids] * 200
    decoder = CountingDecoder(tokenizer)
    stream = TextStream(decoder, ("never",))
    for token in ids:
        stream.push(token)
    assert len(decoder.asked) <= 2 * len(ids)
    assert max(decoder.asked) <= 2 * WINDOW
