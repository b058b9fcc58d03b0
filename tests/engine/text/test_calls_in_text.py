"""Free text up to a call: which tokens may follow, told from all texts there are."""

import re
from functools import partial, reduce
from itertools import product

import pytest

from engine.protocol.options import CallMark, Constraint
from engine.text.grammars.calls_in_text import CallMarks, Either, FreeText
from engine.text.grammars.grammar import AnswerState, Grammar
from engine.text.grammars.reasoning_first import Masks
from engine.text.grammars.vocabulary import GrammarVocabulary

TOKENS = ("a", "<", ">", "<a", "a>", "b", "<a>b", ">a", " ", "(", "(a", "b)", ")")
END, CONTROL = len(TOKENS), len(TOKENS) + 1
CALLS = "<a>(b|bb)|[(]a[)]"
LONGEST = 3


class Letters:
    def encode_onward(self, text: str) -> list[int]:
        return [TOKENS.index(letter) for letter in text]


LETTERS = Letters()
SPELLED = {token: text.encode() for token, text in enumerate(TOKENS)}
VOCABULARY = GrammarVocabulary(SPELLED, {END: "<end>", CONTROL: "<call>"}, [END], LETTERS)


def root(pattern: str) -> AnswerState:
    return Grammar(Constraint("regex", pattern), VOCABULARY).root


def following(state: AnswerState, text: str) -> AnswerState:
    return reduce(lambda state, token: state.follow(token), LETTERS.encode_onward(text), state)


def free(*marks: CallMark, pattern: str = CALLS) -> AnswerState:
    calls = root(pattern)
    begun = [(mark, following(calls, mark.opening)) for mark in marks]
    return FreeText(CallMarks(Masks(VOCABULARY), begun, {"<call>": CONTROL}), is_first=True)


def allowed(state: AnswerState) -> set[int]:
    mask = state.allowed()
    if mask is None:
        return {*range(CONTROL + 1)}
    bits = int.from_bytes(mask, "little")
    return {token for token in range(CONTROL + 1) if bits >> token & 1}


def fits(said: str, *, ends: bool = False) -> bool:
    """Whether a text is one of free text and calls, or the beginning of one: the first mark decides."""
    mark = re.search(r"<a>|\A *[(]a", said)
    if mark is None:
        return True
    rest = ["b", "bb"] if mark[0] == "<a>" else [")"]
    return any(text == said[mark.end() :] if ends else text.startswith(said[mark.end() :]) for text in rest)


def test_what_may_follow_a_free_text_is_what_is_no_broken_call() -> None:
    start = free(CallMark("<a>", "<a>"), CallMark("(a", "(a", "first"))
    for size in range(LONGEST + 1):
        for path in product(range(len(TOKENS)), repeat=size):
            state, said = reduce(lambda state, token: state.follow(token), path, start), ""
            is_whole = all(fits(said := said + TOKENS[token]) for token in path)
            assert state.is_possible == is_whole, said
            if is_whole:
                expected = {token for token, more in enumerate(TOKENS) if fits(said + more)}
                assert allowed(state) - {END, CONTROL} == expected, said
                assert (END in allowed(state)) == fits(said, ends=True), said


def test_a_control_token_begins_a_call_and_its_name_as_text_does_not() -> None:
    start = free(CallMark("<call>", "<a>"))
    said = following(start, "<a>")
    assert allowed(said) == {*range(CONTROL + 1)}
    assert allowed(said.follow(CONTROL)) == {TOKENS.index("b")}


def test_free_text_costs_one_look_for_a_token() -> None:
    start = free(CallMark("<a>", "<a>"))
    plain = following(start, "b")
    assert following(plain, "b)( a") is plain
    assert plain.allowed() is None


@pytest.mark.parametrize("said", ["", "a", "ab", "aa"])
def test_either_form_goes_on_as_long_as_it_fits(said: str) -> None:
    texts = ["aab", "abb", "b"]
    both = following(Either(Masks(VOCABULARY), [root("aab|b"), root("abb")]), said)
    onward = {token for token, more in enumerate(TOKENS) if any(text.startswith(said + more) for text in texts)}
    assert allowed(both) == onward
    assert not both.follow(TOKENS.index("<")).is_possible
    both.settle()


def test_marks_that_no_call_begins_with_hold_nothing() -> None:
    begun = partial(free, CallMark("<a>", "aaa"))
    assert not following(begun(), "<a>").is_possible
