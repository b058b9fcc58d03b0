"""Cutting growing Markdown into blocks that never change again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.text.blocks import Block, BlockStream, code_of
from app.chat.text.markdown_parser import markdown_parser

SAMPLE = """# Title

Some *text* with
two lines.

- a
- b

1. x

2. y

```python
def f():

    return 1
```
| a | b |
|---|---|
| 1 | 2 |

> quote

end"""


def cut(pieces: list[str]) -> list[Block]:
    """All blocks of a text that comes in pieces."""
    stream = BlockStream()
    closed = [block for piece in pieces for block in stream.feed(piece)]
    return closed + stream.close()


def test_blocks_are_the_top_level_blocks_of_the_text() -> None:
    blocks = cut(list(SAMPLE))
    assert [block.source.split("\n", 1)[0] for block in blocks] == [
        "# Title",
        "Some *text* with",
        "- a",
        "1. x",
        "```python",
        "| a | b |",
        "> quote",
    ]
    assert "".join(block.source for block in blocks) == SAMPLE


def test_half_a_line_closes_nothing() -> None:
    stream = BlockStream()
    stream.feed("1. one\n\n2")  # it could still become "2. two", the next item of the list
    assert stream.feed(". two\n") == []
    assert [block.source for block in stream.feed("\nafter\n")] == ["1. one\n\n2. two\n\n"]


def test_an_underline_that_comes_late_still_makes_a_heading() -> None:
    stream = BlockStream()
    assert stream.feed("Title\n") == []
    assert stream.feed("=====\n") == []
    assert stream.feed("text\n") == [Block("Title\n=====\n")]


def test_a_long_code_block_is_cut_into_pieces_that_add_up() -> None:
    code = [f"line {number}\n" for number in range(200)]
    blocks = cut(["```py\n", *code, "```\n", "after\n"])
    pieces = [block for block in blocks if block.source.startswith("```py\n")]
    assert len(pieces) > 3
    assert [block.continues for block in pieces] == [False] + [True] * (len(pieces) - 1)
    lines = [line for block in pieces for line in block.source.splitlines(keepends=True) if "line" in line]
    assert lines == code
    assert blocks[-1] == Block("after\n")


@pytest.mark.parametrize("first", ["~~~\n", "```\n    ```\n", "```\n\t```\n"])
def test_the_tail_of_an_endless_code_block_stays_short(first: str) -> None:
    stream = BlockStream()
    stream.feed(first)
    for number in range(1000):
        stream.feed(f"x{number}\n")
        assert stream.tail.source.count("\n") <= 42


def test_a_fence_of_four_is_not_closed_by_three() -> None:
    blocks = cut(["````md\n```\n", *["text\n"] * 100, "```\n", "````\n", "out\n"])
    assert blocks[-1].source == "out\n"
    assert all(block.source.startswith("````md\n") for block in blocks[:-1])


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    text = f"a{separator}b\n\nc{separator}d\n\ne\n"
    assert "".join(block.source for block in cut([text])) == text


def test_carriage_returns_are_dropped() -> None:
    assert "".join(block.source for block in cut(["a\r", "\n\r\nb\r\n"])) == "a\n\nb\n"


def test_html_and_images_are_not_known_to_the_parser() -> None:
    html = markdown_parser().render("<script>x</script> ![alt](http://host/x.png)")
    assert "<script" not in html
    assert "<img" not in html


@given(st.lists(st.sampled_from(["a", " ", "\n", "\n\n", "- ", "1. ", "# ", "```\n", "> ", "|", "---", "\t", "*"])))
def test_no_text_is_lost_or_doubled_however_it_is_cut(pieces: list[str]) -> None:
    text = "".join(pieces)
    whole, piecewise = cut([text]), cut(pieces)
    assert "".join(block.source for block in whole).strip() == text.strip()
    assert "".join(block.source for block in piecewise).strip() == text.strip()


JSON_ANSWER = '{\n  "snake_case_name": "*bold* and _thin_ \\" } ```",\n\n  "list": [{"a": 1}]\n}'


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_a_json_document_is_code_and_what_follows_it_is_markdown(size: int) -> None:
    text = f"\n{JSON_ANSWER}\n\nThat was *it*."
    code, words = cut([text[begin : begin + size] for begin in range(0, len(text), size)])
    assert code_of(code) == f"{JSON_ANSWER}\n"
    assert (words.source, words.begin) == ("That was *it*.", text.index("That"))


def test_json_that_still_grows_is_code() -> None:
    stream = BlockStream()
    stream.feed('[{"a_b": "*')
    assert [code_of(each) for each in stream.open_blocks] == ['[{"a_b": "*\n']


def test_a_long_json_document_is_cut_into_pieces_of_one_code_block() -> None:
    text = "[" + ",\n".join(f'{{"number_{each}": "*"}}' for each in range(200)) + "]"
    blocks = cut([text[begin : begin + 100] for begin in range(0, len(text), 100)])
    assert "".join(code_of(each) or "no code" for each in blocks) == f"{text}\n"
    assert [text[each.begin :].startswith(each.source.split("\n")[1]) for each in blocks] == [True] * len(blocks)


@pytest.mark.parametrize("text", ["[a link](https://a.b) *c*", "{x} *y*", "{% if *a* %}", '["', "[1] *a*", "{" * 2_000])
def test_brackets_alone_are_no_json(text: str) -> None:
    assert [code_of(each) for each in cut(list(text))] == [None]
