"""A summary of the turns that have no room any more: how it is asked for, and how it is read instead of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.chat.history.reasoning import split
from engine.protocol.messages import ChatMessage, Event, Finished, Round
from engine.protocol.options import GenerateOptions, SamplingOptions

_SHARE = 8  # at most this part of the context is for the summary
_LEAST_TOKENS = 64
_CHARACTERS = 3  # of a token, for a text that nobody has counted
_NAMES = {"user": "User", "assistant": "Assistant", "system": "System"}
# Words to the model, not to a person: they are the same in every language of the window.
_WISH = (
    "Summarise the conversation below for somebody who goes on with it: facts, names, numbers, decisions and what is "
    "still open, in the language of the conversation, in at most ten short sentences. Write nothing but the summary."
)
_PREFACE = "Summary of the conversation before this point:"


@dataclass(frozen=True, slots=True)
class Summarising:
    """A summary on its way: its request, the turn that will be read first, and what is there of it."""

    request: int
    first: int
    text: str = ""

    def after(self, events: Iterable[Event]) -> "Summarising":
        """With the text that came with these events."""
        new = (each.text for each in events if isinstance(each, Round | Finished) and each.id == self.request)
        return replace(self, text=self.text + "".join(new))

    @property
    def summary(self) -> str:
        """The summary itself; what the model thought before it is no part of it."""
        return split(self.text).answer.strip()


def summary_chat(turns: Sequence[Sequence[ChatMessage]], before: str, context_tokens: int) -> tuple[ChatMessage, ...]:
    """What is asked of the model: `before` is the summary of what stands before these turns.

    Where they are too long to be read at once, each message gives of its middle.
    """
    messages = [each for turn in turns for each in turn]
    room = (context_tokens - 2 * context_tokens // _SHARE) * _CHARACTERS - len(_WISH) - len(before)
    most = max(200, room // max(1, len(messages)))
    said = [f"{_NAMES[each.role]}: {_shortened(split(each.content).answer, most)}" for each in messages]
    parts = [_WISH, *([f"{_PREFACE}\n{before}"] if before else []), *said]
    return (ChatMessage("user", "\n\n".join(parts)),)


def summary_options(options: GenerateOptions, context_tokens: int) -> GenerateOptions:
    """How it is written: the likeliest words, and not too many."""
    return replace(options, sampling=SamplingOptions(), max_new_tokens=room_for_summary(context_tokens), stop=())


def room_for_summary(context_tokens: int) -> int:
    """How many tokens a summary may have."""
    return max(_LEAST_TOKENS, context_tokens // _SHARE)


def with_summary(system_prompt: str, summary: str) -> str:
    """The system prompt for a conversation whose first turns are read as a summary."""
    return "\n\n".join(filter(None, (system_prompt.strip(), f"{_PREFACE}\n{summary}" if summary else "")))


def _shortened(text: str, most: int) -> str:
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} […] {text[-half:]}"
