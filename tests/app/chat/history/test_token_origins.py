"""Which round a character came from."""

from app.chat.history.token_origins import TokenOrigin, TokenOrigins
from app.chat.origins.round_mark import placed_words, source_place
from engine.protocol.messages import Round, Seconds, Tree


def round_(index: int, drafted: list[str], bonus: str, text: str | None = None) -> Round:
    """A round that accepted these pieces; its text is all of them unless something is held back."""
    tree = Tree(b"", b"", b"", ("", *drafted))
    whole = "".join(drafted) + bonus
    accepted = tuple(range(len(drafted) + 1))
    return Round(7, index, tree, accepted, 0, bonus, len(drafted) + 1, whole if text is None else text, Seconds())


def test_every_character_has_its_round_and_kind() -> None:
    origins = TokenOrigins()
    origins.add(round_(0, ["one ", "two "], "three "))
    origins.add(round_(1, [], "four"))
    assert origins.at(0) == TokenOrigin(7, 0, False)
    assert origins.at(8) == TokenOrigin(7, 0, True)
    assert origins.at(14) == TokenOrigin(7, 1, True)
    assert origins.at(18) is None
    assert list(origins.between(4, 16)) == [(4, 8, False), (8, 14, True), (14, 16, True)]


def test_held_back_text_belongs_to_the_round_that_wrote_it() -> None:
    origins = TokenOrigins()
    origins.add(round_(0, ["ab"], "</", text="ab"))
    origins.add(round_(1, ["s"], ">", text="</s>"))
    assert origins.at(2) == TokenOrigin(7, 0, True)
    assert origins.at(4) == TokenOrigin(7, 1, False)


def test_what_stood_there_before_has_no_round() -> None:
    origins = TokenOrigins(5)
    origins.add(round_(0, [], "new"))
    assert origins.at(4) is None
    assert origins.at(5) == TokenOrigin(7, 0, True)


def test_shown_words_are_found_in_the_markdown() -> None:
    source = "# Title\n\nSome *bold* `code` and [text](http://x/y) end"
    shown = "Some bold code and text end"
    places = {each.start: each.place for each in placed_words(shown, source, 9)}
    assert source[places[shown.index("end")] :] == "end"
    place = source_place(shown, shown.index("bold") + 2, source, 9)
    assert place is not None
    assert source[place:].startswith("ld*")
    assert source_place(shown, 4, source, 9) is None, "a gap between words comes from nowhere"
