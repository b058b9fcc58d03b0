"""What is known of the rounds behind the answers of a conversation, and which one is marked in them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from app.chat.history.token_origins import TokenOrigins
from engine.protocol.messages import Round

if TYPE_CHECKING:
    from app.chat.view.answer_view import AnswerView

NOTHING = (-1, -1)


class RoundMarks:
    """Answers come and go as a person scrolls; what is known of their rounds stays."""

    def __init__(self) -> None:
        self._origins: dict[int, TokenOrigins] = {}
        self._marked = NOTHING

    def clear(self) -> None:
        """Another conversation is shown."""
        self._origins.clear()
        self._marked = NOTHING

    def take(self, view: "AnswerView", rounds: Sequence[Round], length: int) -> None:
        """Rounds have come for an answer that had so many characters before them."""
        message = view.message.id
        is_new = message not in self._origins
        origins = self._origins.setdefault(message, TokenOrigins(length))
        for each in rounds:
            origins.add(each)
        if is_new:
            view.set_origins(origins)

    def restore(self, found: Mapping[int, TokenOrigins], views: "Sequence[AnswerView]") -> None:
        """What was kept of the rounds before; answers that have grown since know better."""
        self._origins = {**found, **self._origins}
        for view in views:
            self.attach(view)

    def attach(self, view: "AnswerView") -> None:
        """Tell an answer where its text comes from, and what of it is marked."""
        origins = self._origins.get(view.message.id)
        if origins is not None:
            view.set_origins(origins)
            view.mark(origins.stretch(*self._marked))

    def mark(self, request: int, number: int, views: "Sequence[AnswerView]") -> None:
        """Mark what a round gave, and nothing else; `NOTHING` for no round."""
        self._marked = (request, number)
        for view in views:
            origins = self._origins.get(view.message.id)
            view.mark(origins.stretch(request, number) if origins is not None else None)

    def message_of(self, request: int, number: int) -> int | None:
        """The answer that a round wrote on."""
        return next((each for each, origins in self._origins.items() if origins.stretch(request, number)), None)

    def beginning_of(self, request: int, number: int) -> tuple[int, int] | None:
        """The answer that a round wrote on, and where in it; None where nobody knows."""
        message = self.message_of(request, number)
        stretch = self._origins[message].stretch(request, number) if message is not None else None
        return (message, stretch[0]) if message is not None and stretch else None
