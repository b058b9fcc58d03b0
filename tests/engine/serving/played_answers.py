"""Answers without an engine: the steps that pieces come in."""

import json

from hypothesis import strategies as st

from engine.protocol.messages import Finished, FinishReason, Prefilled, Round, Seconds, Statistics
from engine.protocol.watching import Tree
from engine.serving.answers import Alive, Ended, Progress, Step
from engine.text.pieces import CallArguments, CallBegun, Content, Piece, Thought

PROMPT_TOKENS, CACHED_TOKENS = 11, 4
NO_TREE = Tree(b"", b"", b"", ())

texts = st.text(min_size=1, max_size=8)
arguments = st.dictionaries(st.text("ab", max_size=2), st.one_of(st.integers(), texts), max_size=2).map(
    lambda values: json.dumps(values, ensure_ascii=False)
)


def cut(text: str, at: int) -> list[str]:
    """The text in two parts, or in one."""
    return [part for part in (text[:at], text[at:]) if part]


@st.composite
def answers(draw: st.DrawFn) -> list[Piece]:
    """Whatever an answer may be made of: reasoning first, then content and calls."""
    pieces: list[Piece] = [Thought(text) for text in draw(st.lists(texts, max_size=2))]
    place = 0
    for each in draw(st.lists(st.one_of(texts.map(Content), st.tuples(arguments, st.integers(0, 9))), max_size=4)):
        if isinstance(each, Content):
            pieces.append(each)
            continue
        pieces.append(CallBegun(place, f"call_{place}", draw(st.sampled_from(["look", "add"]))))
        pieces += [CallArguments(place, part) for part in cut(*each)]
        place += 1
    return pieces


def steps_of(pieces: list[Piece], reason: FinishReason = "stop", stop: str = "") -> list[Step]:
    """A step for each piece, of two tokens, and the end, with a sign of life here and there."""
    statistics = Statistics(
        prompt_tokens=PROMPT_TOKENS, cached_tokens=CACHED_TOKENS, new_tokens=2 * len(pieces), passes=len(pieces)
    )
    return [
        Alive(1),
        Prefilled(1, PROMPT_TOKENS, CACHED_TOKENS, 0.1),
        *(Progress(_round(index), (piece,)) for index, piece in enumerate(pieces)),
        Alive(),
        Ended(Finished(1, reason, "", statistics, stop), ()),
    ]


def _round(index: int) -> Round:
    return Round(1, index, NO_TREE, (0,), 5, "x", 2, "", Seconds())
