"""Pictures in conversations that are written out."""

from dataclasses import replace

import pytest

from engine.errors import InputError
from engine.picture_tokens import WrittenPicture
from engine.protocol.messages import ChatMessage
from engine.protocol.pictures import Picture
from engine.text.picture_text import in_parts, marked, with_pictures, with_rows

MARK = "\ue000"


def shown(*rows: range) -> list[WrittenPicture]:
    return [WrittenPicture("<img>", "[" + "#" * len(each) + "]", 7, each) for each in rows]


@pytest.mark.parametrize(
    ("places", "expected"),
    [((0,), "*abc"), ((3,), "abc*"), ((1, 1), "a**bc"), ((2, 1), "ab**c"), ((-5, 99), "*abc*"), ((), "abc")],
)
def test_pictures_stand_where_they_are_said_to(places: tuple[int, ...], expected: str) -> None:
    message = ChatMessage("user", "abc", pictures=tuple(Picture(b"", at) for at in places))
    assert marked(message, "*") == ChatMessage("user", expected)


def test_templates_are_given_parts_only_where_they_want_them() -> None:
    turn = {"role": "user", "content": f"{MARK}a{MARK}{MARK}b"}
    image = {"type": "image"}
    parts = [image, {"type": "text", "text": "a"}, image, image, {"type": "text", "text": "b"}]
    assert in_parts(turn, MARK)["content"] == parts
    plain = {"role": "user", "content": "a"}
    assert in_parts(plain, MARK) is plain
    assert in_parts(plain, "") is plain
    assert in_parts(plain, "", is_always=True)["content"] == [{"type": "text", "text": "a"}]
    assert in_parts({"content": None}, MARK, is_always=True) == {"content": None}


def test_marks_become_texts_and_tokens_rows() -> None:
    pictures = shown(range(100, 102), range(200, 201))
    assert with_pictures("a<img>b<img>", pictures) == "a[##]b[#]"
    assert with_rows([1, 7, 7, 2, 7], pictures) == [1, 100, 101, 2, 200]
    assert with_rows([1, 7], []) == [1, 7]


@pytest.mark.parametrize("text", ["a", "a<img>", "<img><img><img>"])
def test_a_template_that_loses_pictures_is_told_of(text: str) -> None:
    with pytest.raises(InputError, match="does not show the pictures"):
        with_pictures(text, shown(range(2), range(2)))


@pytest.mark.parametrize("tokens", [[7], [7, 7, 7]])
def test_rows_that_are_not_as_many_as_were_told(tokens: list[int]) -> None:
    with pytest.raises(InputError, match="cannot be told apart"):
        with_rows(tokens, shown(range(2)))


def test_what_is_marked_keeps_all_else() -> None:
    message = ChatMessage("tool", "abc", (), "id", "name", (Picture(b"x"),))
    assert marked(message, MARK) == replace(message, content=f"{MARK}abc", pictures=())
