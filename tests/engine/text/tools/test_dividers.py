"""Calls are found in the text of answers of every format, however it is cut, and no other text is lost."""

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.pieces import CallArguments, CallBegun, Content, Piece
from engine.text.tools import formats
from engine.text.tools.character_reader import merged
from engine.text.tools.divider import IGNORED_MARK
from engine.text.tools.formats import Format
from tests.campaigns.extent import choose
from tests.engine.text.tools.recorded import RECORDED, TOOLS, Recorded, Said

ALL = {format.name: format for format, _ in formats.FORMATS}
PARTS = sorted(
    {mark for format in ALL.values() for mark in format.marks}
    | set(re.findall(r"\w+|\s+|[^\w\s]+", "".join(each.text for each in RECORDED.values())))
)


def divided(format: Format, parts: Sequence[str]) -> list[Piece]:
    """The pieces of a text that comes in these parts; ids are not compared."""
    divider = format.divider(TOOLS)
    pieces = [piece for part in parts for piece in divider.push(part)] + divider.flush()
    return merged([CallBegun(each.place, "", each.name) if isinstance(each, CallBegun) else each for each in pieces])


def said(pieces: Sequence[Piece]) -> Said:
    found: Said = []
    for piece in pieces:
        match piece:
            case CallBegun():
                found.append((piece.name, None))
            case CallArguments():
                begun = found.pop()
                found.append((begun[0], json.loads(piece.text)))
            case Content():
                found.append(piece.text)
    return found


def content_of(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Content))


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_calls_are_found(recorded: Recorded) -> None:
    assert said(divided(recorded.format, [recorded.text])) == recorded.said


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_the_cuts_of_a_text_do_not_matter(recorded: Recorded) -> None:
    whole = divided(recorded.format, [recorded.text])
    assert divided(recorded.format, list(recorded.text)) == whole
    assert divided(recorded.format, re.split(r"(?<=[<>|{}\n\"])", recorded.text)) == whole


@settings(deadline=None, max_examples=choose(40, 2000))
@given(format=st.sampled_from(list(ALL.values())), parts=st.lists(st.sampled_from(PARTS) | st.text(max_size=3)))
def test_any_text_is_divided_and_any_cut_of_it_alike(format: Format, parts: list[str]) -> None:
    assert divided(format, parts) == divided(format, ["".join(parts)])


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_a_text_that_stops_anywhere_loses_nothing_of_its_content(recorded: Recorded) -> None:
    whole = divided(recorded.format, [recorded.text])
    for end in range(0, len(recorded.text), choose(7, 1)):
        pieces = divided(recorded.format, [recorded.text[:end]])
        begun = [piece for piece in pieces if isinstance(piece, CallBegun)]
        assert begun == [piece for piece in whole if isinstance(piece, CallBegun)][: len(begun)]
        if not begun:
            text = recorded.text[:end]
            for mark in (mark for mark, reader in recorded.format.readers.items() if reader is IGNORED_MARK):
                text = text.replace(mark, "")
            assert pieces == ([Content(text)] if text else [])


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_a_call_that_was_cut_off_leaves_nothing_in_the_content(recorded: Recorded) -> None:
    whole = divided(recorded.format, [recorded.text])
    for end in range(len(recorded.text)):
        pieces = divided(recorded.format, [recorded.text[:end]])
        begun = sum(isinstance(piece, CallBegun) for piece in pieces)
        complete = [piece for piece in pieces if isinstance(piece, CallArguments) and is_json(piece.text)]
        assert complete == [piece for piece in whole if isinstance(piece, CallArguments)][: len(complete)]
        if begun > len(complete):
            assert content_of(whole).startswith(content_of(pieces)), recorded.text[:end]


MALFORMED = {
    "no JSON": (formats.HERMES, "a <tool_call>\nsorry</tool_call> b"),
    "no name": (formats.HERMES, '<tool_call>{"arguments": {"a": 1}}</tool_call>'),
    "a name that is none": (formats.HERMES, '<tool_call>{"name": 5}'),
    "never closed": (formats.HERMES, '<tool_call>\n{"arguments": {"name": "f"'),
    "a mark alone": (formats.HERMES, "The mark is <tool_call>"),
    "half a mark": (formats.HERMES, " a <tool_ca"),
    "two marks": (formats.HERMES, "<tool_call><tool_call>[]"),
    "no tool of that name": (formats.LLAMA, '\n{"name": "Ada", "parameters": {}} '),
    "no such escape": (formats.HERMES, '<tool_call>{"na\\xme": "f"}'),
    "half a character": (formats.HERMES, '<tool_call>{"name": "\\ud800", "arguments": {}}</tool_call>'),
    "no header": (formats.HARMONY, "<|channel|>commentary to=functions.f"),
    "a header in the way": (formats.MISTRAL, "[TOOL_CALLS]get weather[ARGS]{}"),
    "a header without end": (formats.KIMI, "<|tool_call_begin|>" + 600 * "f"),
    "no function": (formats.QWEN_CODER, "<tool_call>\n<func>"),
    "an empty name": (formats.GLM, "<tool_call>\n<arg_key>a</arg_key>"),
    "no call": (formats.GEMMA, "<|tool_call>name{}<tool_call|>"),
    "nested too often": (formats.HERMES, '<tool_call>{"function": {"function": {"name": "f"}}}'),
}


@pytest.mark.parametrize(("format", "text"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_call_is_content(format: Format, text: str) -> None:
    assert divided(format, [text]) == [Content(text)]


def test_pieces_come_as_soon_as_they_are_certain() -> None:
    divider = formats.HERMES.divider(TOOLS)
    assert divider.push("Hm, ") == [Content("Hm,")]
    assert divider.push("so <tool") == [Content(" so")]
    (begun,) = divider.push('_call>\n{"name": "get_weather"')
    assert isinstance(begun, CallBegun)
    assert divider.push(', "arguments": {"ci') == [CallArguments(0, '{"ci')]
    assert divider.push('ty": "Ro') == [CallArguments(0, 'ty": "Ro')]
    assert divider.push('me"}}\n</tool_call>\n') == [CallArguments(0, 'me"}')]
    assert divider.push("Done") == [Content("Done")]
    assert divider.flush() == []


def test_an_answer_in_json_does_not_wait_for_its_end() -> None:
    divider = formats.LLAMA.divider(TOOLS)
    assert divider.push('{"dragons": ["Sm') == [Content('{"dragons": ["Sm')]


def test_arguments_between_tags_come_as_they_are_written() -> None:
    divider = formats.QWEN_CODER.divider(TOOLS)
    divider.push("<tool_call>\n<function=get_weather>\n<parameter=city>")
    assert divider.push("\nSaint-\nM") == [CallArguments(0, '"Saint-\\nM')]
    assert divider.push("alo\n</parameter>") == [CallArguments(0, 'alo"')]


@pytest.mark.parametrize("format", ALL.values(), ids=ALL)
def test_no_mark_begins_another_one(format: Format) -> None:
    marks = [*format.and_hermes().readers]
    assert not [(one, other) for one in marks for other in marks if one != other and other.startswith(one)]


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_the_places_of_calls_and_the_content_are_the_whole_text(recorded: Recorded) -> None:
    text = recorded.text
    divider = recorded.format.divider(TOOLS)
    pieces = [piece for character in text for piece in divider.push(character)] + divider.flush()
    places, here, apart = divider.places(len(text)), 0, ""
    for begin, end in places:
        assert here <= begin < end <= len(text)
        apart += text[here:begin]
        here = end
    assert len(places) == sum(isinstance(each, CallBegun) for each in pieces)
    assert "".join((apart + text[here:]).split()) == "".join(content_of(pieces).split())


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_no_mark_is_taken_for_content_while_it_comes(recorded: Recorded) -> None:
    divider = recorded.format.divider(TOOLS)
    certain = []
    for length in range(1, len(recorded.text) + 1):
        divider.push(recorded.text[length - 1])
        if divider.open_place < 0:
            certain.append(len(recorded.text[:length].rstrip()))
    divider.flush()
    for begin, end in divider.places(len(recorded.text)):
        assert not [length for length in certain if begin < length <= end]
