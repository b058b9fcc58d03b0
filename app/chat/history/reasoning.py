"""Splits a model's text into thinking and answer, by the marks that chat templates put around thinking."""

from dataclasses import dataclass

from engine.protocol import reasoning

# What stands before and behind thinking: what the engine writes, and what models and other applications write as text.
MARKS = (
    *((each.begin, each.end) for each in reasoning.MARKS if each != reasoning.CHANNELS),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)
LONGEST_MARK = max(len(first) for first, _ in MARKS)
NOWHERE = -(1 << 40)
"""Where thinking begins that stands in several parts: no place of it is that of a character of the text."""

_ENDS = ("</think>", "</thinking>", "</thought>", "</reasoning>", "[/THINK]")  # that are looked for without a first one


@dataclass(frozen=True, slots=True)
class Split:
    """An answer in its parts. `begin`: where `answer` begins in the text; `is_thinking`: the end has not come yet.

    `thought_begin`: where `thought` begins in the text.
    """

    thought: str
    answer: str
    begin: int
    is_thinking: bool
    thought_begin: int = NOWHERE


def split(text: str) -> Split:
    """Divide what a model wrote so far. Marks count only before the first word of the answer.

    A template can put the first mark into the prompt; then the last one alone, on a line of its own, divides the text.
    One whose first mark stands behind other words is told of, as an example.
    """
    thoughts: list[str] = []
    first = NOWHERE  # place of the thinking, as long as it is one piece
    here = 0
    while True:
        here += len(text) - here - len(text[here:].lstrip())
        marks = next((each for each in MARKS if text.startswith(each[0], here)), None)
        if marks is None:
            break
        begin = here + len(marks[0])
        end = text.find(marks[1], begin)
        first = NOWHERE if thoughts else begin + len(text[begin:]) - len(text[begin:].lstrip("\n"))
        if end < 0:
            thoughts.append(_without_beginning_of(marks[1], text[begin:]))
            return Split(_joined(thoughts), "", len(text), True, first)
        thoughts.append(text[begin:end])
        here = end + len(marks[1])
    if thoughts:
        return Split(_joined(thoughts), text[here:], here, False, first)
    return _split_at_end(text)


def _split_at_end(text: str) -> Split:
    start = text[: 2 * LONGEST_MARK].lstrip()
    if start and len(text) < LONGEST_MARK and any(first.startswith(start) for first, _ in MARKS):
        return Split("", "", len(text), False)  # perhaps the beginning of a mark
    for last in _ENDS:
        end = text.find(f"{last}\n")
        is_shown = end >= 0 and any(begin in text[:end] for begin, its_end in MARKS if its_end == last)
        if end >= 0 and not is_shown and text[:end].rpartition("\n")[2].strip() == "":
            begin = end + len(last)
            begin += len(text[begin:]) - len(text[begin:].lstrip())
            return Split(text[:end].strip(), text[begin:], begin, False, len(text) - len(text.lstrip()))
    return Split("", text, 0, False)


def _joined(thoughts: list[str]) -> str:
    return "\n\n".join(each.strip("\n") for each in thoughts if each.strip())


def _without_beginning_of(mark: str, text: str) -> str:
    """The text without an end that could become the mark."""
    length = next((size for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), 0)
    return text[: len(text) - length]
