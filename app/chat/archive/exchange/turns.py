"""Makes a conversation of the turns that a file holds, of which each may have several versions."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.chat.history.conversation import Conversation
from app.chat.history.message import ROOT, AnswerEnding, Message
from app.settings.generation import GenerationSettings
from engine.protocol.messages import Role

_BETWEEN_SECONDS = 0.001  # of two messages, as versions stand in the order in which they were made


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said. `versions`: each a text and the model that wrote it, if that is told; `chosen` is shown."""

    role: Role
    versions: tuple[tuple[str, str], ...]
    chosen: int = 0

    @property
    def text(self) -> str:
        """What is shown."""
        return self.versions[self.chosen][0]


def conversation_of_turns(turns: Iterable[Turn], created: float = 0.0) -> Conversation:
    """A conversation, empty where nobody asks; system messages become the system prompt, whose other settings are none.

    What is said twice in a row by one side becomes one message, and what follows a message stands behind the version
    that is shown. `created`: when it began, in seconds since 1970; 0: now.
    """
    taken = list(turns)
    system = [each.text for each in taken if each.role == "system"]
    messages: list[Message] = []
    leaf = ROOT
    for turn in _alternating(each for each in taken if each.role != "system"):
        beside: list[Message] = []
        for text, model in turn.versions:
            when = (created or time.time()) + _BETWEEN_SECONDS * (len(messages) + len(beside))
            answerer = model if turn.role == "assistant" else ""
            beside.append(Message(turn.role, text, parent=leaf, created=when, answerer=answerer))
        messages += beside
        leaf = beside[turn.chosen].id
    if messages and messages[-1].role == "user":
        when = messages[-1].created + _BETWEEN_SECONDS
        messages.append(Message("assistant", "", AnswerEnding.FAILED, parent=leaf, created=when))
        leaf = messages[-1].id
    settings = GenerationSettings(system_prompt="\n\n".join(system)) if system else None
    return Conversation(messages, leaf, settings=settings)


def _alternating(turns: Iterable[Turn]) -> list[Turn]:
    """The same from the first question on, each side in turn."""
    found: list[Turn] = []
    for turn in turns:
        if found and found[-1].role == turn.role:
            found[-1] = _joined(found[-1], turn)
        elif found or turn.role == "user":
            found.append(turn)
    return found


def _joined(former: Turn, turn: Turn) -> Turn:
    """One turn: what was shown last and behind it every version of what follows; other versions of before stay."""
    others = [each for place, each in enumerate(former.versions) if place != former.chosen]
    _, model = former.versions[former.chosen]
    joined = [(f"{former.text}\n\n{text}", model) for text, _ in turn.versions]
    return replace(former, versions=(*others, *joined), chosen=len(others) + turn.chosen)
