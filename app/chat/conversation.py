"""A conversation as plain data; knows nothing of windows or engines."""

from dataclasses import dataclass
from enum import Enum

from engine.messages import ChatMessage, Role, Statistics


class Ending(Enum):
    """How an answer stands."""

    WAITING = "waiting"  # for an engine that is still starting or loading
    OPEN = "open"
    COMPLETE = "complete"
    LENGTH = "length"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # the engine died

    @property
    def is_final(self) -> bool:
        """Whether nothing more will come."""
        return self not in (Ending.WAITING, Ending.OPEN)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn as it is shown. `ending` and `statistics` speak of answers; a person's turn is complete."""

    role: Role
    text: str
    ending: Ending = Ending.COMPLETE
    statistics: Statistics | None = None


class Conversation:
    """The turns of one chat, oldest first: a question is always followed by its answer."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    @property
    def messages(self) -> tuple[Message, ...]:
        """All turns, oldest first."""
        return tuple(self._messages)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been asked yet."""
        return not self._messages

    @property
    def last_answer(self) -> Message | None:
        """The answer to the last question, None before the first."""
        return self._messages[-1] if self._messages else None

    def ask(self, question: str) -> tuple[Message, Message]:
        """Add a question and its answer, which is still empty; returns both."""
        asked, answer = Message("user", question), Message("assistant", "", Ending.WAITING)
        self._messages += [asked, answer]
        return asked, answer

    def replace_answer(self, answer: Message) -> None:
        """Put a newer state of the last answer in its place."""
        assert self._messages, "there is no answer to replace"
        self._messages[-1] = answer

    def prompt(self, system_prompt: str) -> tuple[ChatMessage, ...]:
        """What the engine is asked to continue: every answered question and its answer, then the last question.

        Questions that never got an answer are left out: many chat templates want turns that alternate,
        and a question that was too long for the context must not make the next one too long as well.
        """
        system = [ChatMessage("system", system_prompt)] if system_prompt.strip() else []
        turns = list(zip(self._messages[::2], self._messages[1::2], strict=True))
        answered = [ChatMessage(each.role, each.text) for turn in turns[:-1] if turn[1].text for each in turn]
        return (*system, *answered, *(ChatMessage("user", question.text) for question, _ in turns[-1:]))
