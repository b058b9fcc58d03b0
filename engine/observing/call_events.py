"""Tells a window which tools an answer calls, and where in its text, beside the events of the answer itself."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from engine.protocol.messages import Calling, Event, Finished, Generate, Round
from engine.protocol.reasoning import Marks
from engine.protocol.tools import ToolCall, WrittenCall
from engine.text.calling import call_divider, tool_constraint
from engine.text.pieces import AnswerPieces, CallArguments, CallBegun, Piece
from engine.text.tokenizer import Tokenizer
from engine.text.tools.divider import CallDivider


class PlacedCalls:
    """Finds the calls in the text of one answer as it comes. What is thought before it calls nothing."""

    def __init__(self, marks: Marks, divider: CallDivider, begun: str = "") -> None:
        """`marks`: what stands around reasoning; `begun`: the part of the answer that is continued."""
        self._divider = divider
        self._pieces = AnswerPieces(marks, self)
        self._calls: list[ToolCall] = []
        self._length, self._divided = 0, 0  # characters of the answer, and those of them behind the reasoning
        self.add(begun)

    def add(self, text: str) -> None:
        """The answer goes on with this."""
        self._length += len(text)
        self._take(self._pieces.push(text))

    @property
    def open_place(self) -> int:
        """From where on the text may be a call; -1 where it is none."""
        place = self._divider.open_place
        return place if place < 0 else self._length - self._divided + place

    @property
    def open_name(self) -> str:
        """The tool that is called there, as far as that is known."""
        return self._calls[-1].name if self._calls else ""

    def end(self) -> tuple[WrittenCall, ...]:
        """Nothing more comes: the calls of the whole answer."""
        self._take(self._pieces.flush())
        before = self._length - self._divided
        places = self._divider.places(self._divided)
        return tuple(
            WrittenCall(before + begin, before + end, call)
            for (begin, end), call in zip(places, self._calls, strict=True)
        )

    def push(self, text: str) -> list[Piece]:
        """As the `Divider` of what stands behind the reasoning."""
        self._divided += len(text)
        return self._divider.push(text)

    def flush(self) -> list[Piece]:
        """As a `Divider`."""
        return self._divider.flush()

    def _take(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, CallBegun):
                self._calls.append(ToolCall(piece.id, piece.name, ""))
            elif isinstance(piece, CallArguments):
                call = self._calls[piece.place]
                self._calls[piece.place] = replace(call, arguments=call.arguments + piece.text)


def with_calls(events: Iterable[Event], found: PlacedCalls) -> Iterator[Event]:
    """The events of an answer, and where it calls. One that was stopped or cut off calls nothing yet."""
    told = (-1, "")
    for event in events:
        if isinstance(event, Round):
            found.add(event.text)
            place = found.open_place
            now = (place, found.open_name if place >= 0 else "")
            if now != told:
                told = now
                yield Calling(event.id, *now)
        elif isinstance(event, Finished):
            found.add(event.text)
            calls = found.end()
            yield replace(event, calls=calls if event.reason == "stop" else ())
            continue
        yield event


def answer_with_calls(
    request: Generate,
    tokenizer: Tokenizer,
    marks: Marks,
    answer: Callable[[Generate], Iterator[Event]],
    *,
    is_held: bool = False,
) -> Iterator[Event]:
    """Have a request that may call tools answered, and tell of its calls as well.

    They are held to the tools' schemas, which may take seconds to prepare; `is_held`: its constraint does so. Raises
    as `answer` does, and `InputError` for tools that are none.
    """
    if not is_held:
        held = tool_constraint(tokenizer, request.tools, request.tool_choice, request.options.constraint)
        request = replace(request, options=replace(request.options, constraint=held))
    last = request.chat[-1] if request.chat else None
    begun = last.content if last and last.role == "assistant" and not last.tool_calls else ""
    yield from with_calls(answer(request), PlacedCalls(marks, call_divider(tokenizer, request.tools), begun))
