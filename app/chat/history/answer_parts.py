"""An answer divided into what is shown of it, from top to bottom: thinking, text, and calls of tools."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.chat.history.calls import Call, CallState, steps
from app.chat.history.reasoning import NOWHERE, split


@dataclass(frozen=True, slots=True)
class Part:
    """Some text of an answer. `begin`: where it begins in all that the model wrote.

    `is_thought`: it was thought; `is_thinking`: the end of that has not come yet.
    """

    text: str
    begin: int
    is_thought: bool = False
    is_thinking: bool = False


def parts_of(text: str, calls: Sequence[Call] = (), opening: tuple[int, str] | None = None) -> list[Part | Call]:
    """What is to be seen of a text that may be only the beginning of what the model wrote.

    `opening`: from where on it may be a call that is being written, and of which tool, as far as that is known.
    """
    begun = [each for each in calls if each.begin < len(text)]
    found: list[Part | Call] = []
    for begin, end, made in steps(text, begun):
        found += _step(text[: min(end, len(text))], begin, made, opening)
    return found


def head_and_rest(parts: Sequence[Part | Call]) -> tuple[Part | None, Part | None, list[Part | Call]]:
    """What was thought and said before the first call, and all from there on."""
    first = next((place for place, each in enumerate(parts) if isinstance(each, Call)), len(parts))
    head = [each for each in parts[:first] if isinstance(each, Part)]
    thought = next((each for each in head if each.is_thought), None)
    return thought, next((each for each in head if not each.is_thought), None), list(parts[first:])


def answer_text(text: str, calls: Sequence[Call] = ()) -> str:
    """What an answer says, as it is copied: without the thinking and the calls."""
    if not calls:
        return split(text).answer
    said = (each for each in parts_of(text, calls) if isinstance(each, Part) and not each.is_thought)
    return "\n\n".join(each.text.strip() for each in said)


def _step(text: str, begin: int, calls: Sequence[Call], opening: tuple[int, str] | None) -> Iterator[Part | Call]:
    """The parts of what stands from `begin` on."""
    hidden = min(opening[0], len(text)) if opening and not calls and opening[0] >= begin else len(text)
    parts = split(text[begin : calls[0].begin if calls else hidden])
    if parts.thought or parts.is_thinking:
        here = NOWHERE if parts.thought_begin == NOWHERE else begin + parts.thought_begin
        yield Part(parts.thought, here, is_thought=True, is_thinking=parts.is_thinking)
    here = begin + parts.begin
    for call in calls:
        yield from _said(text[: call.begin], here)
        yield call
        here = call.end
    yield from _said(text[:hidden], here)
    if opening and opening[1] and begin <= opening[0] <= len(text) and not calls:
        yield replace(_WRITING, begin=opening[0], end=len(text), step=len(text), function=opening[1])


def _said(text: str, begin: int) -> Iterator[Part]:
    """The text from `begin` on, if it says anything."""
    said = text[begin:]
    if said.strip():
        yield Part(said, begin)


_WRITING = Call(0, 0, 0, "", "", "", state=CallState.WRITING)
