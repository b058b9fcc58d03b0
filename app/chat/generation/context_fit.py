"""Fits a conversation into the context: which turns are left out, and a summary of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from PySide6.QtCore import QObject, Signal

from app.chat.history.conversation import SUMMARY_PREFACE, Conversation
from app.chat.history.reasoning import split
from app.engine.interface import Answerer
from app.i18n.translation import tr
from app.ui.notices import Notice, Tone
from engine.protocol.messages import ChatMessage, Event, Failed, Finished, Ready, Round
from engine.protocol.options import GenerateOptions, SamplingOptions

_ANSWER_SHARE = 4  # at most this part of the context is kept free for an answer

_SUMMARY_SHARE = 8  # at most this part of the context is for the summary
_LEAST_SUMMARY_TOKENS = 64
_CHARACTERS_PER_TOKEN = 3  # of a text that was not counted
_NAMES = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Result of a tool"}
# Words to the model, not to a person: they are the same in every language of the window.
_WISH = (
    "Summarise the conversation below for somebody who goes on with it: facts, names, numbers, decisions and what is "
    "still open, in the language of the conversation, in at most ten short sentences. Write nothing but the summary."
)

SUMMARY_NOTICE = "summarising"


def answer_reserve(max_new_tokens: int, context_tokens: int) -> int:
    """How many tokens are kept free for an answer that may have up to `max_new_tokens`."""
    return min(max_new_tokens, context_tokens // _ANSWER_SHARE)


def first_turn_that_fits(prompt: int, turns: Sequence[int], context_tokens: int, reserve: int, now: int) -> int:
    """The turn to read from on, so that the prompt leaves `reserve` in the context; the last turn is always read.

    `prompt` has the tokens of all turns, `turns` those of each turn's text alone: what a template writes around a turn
    goes with it, so the estimate is on the safe side. `now` is where reading begins so far. It stays there as long as
    that will do, and moves a good step when it must: what is cached of a conversation is lost with its beginning.
    """
    spare = context_tokens - reserve
    left = [prompt - dropped for dropped in accumulate(turns[:-1], initial=0)]
    if prompt <= spare or not turns:
        return 0
    now = min(now, len(left) - 1)
    if left[now] <= spare:
        return now
    enough = spare * 3 // 4
    return next((turn for turn in range(now + 1, len(left)) if left[turn] <= enough), len(left) - 1)


def first_turn_to_read(
    prompt: int, turns: Sequence[int], context_tokens: int, max_new_tokens: int, now: int, has_summary: bool
) -> int:
    """The same for an answer of up to `max_new_tokens`, with room for the summary that may stand before the turns."""
    reserve = answer_reserve(max_new_tokens, context_tokens)
    if has_summary:
        reserve += summary_reserve(context_tokens)
    return first_turn_that_fits(prompt, turns, context_tokens, reserve, now)


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
    characters = (
        (context_tokens - 2 * context_tokens // _SUMMARY_SHARE) * _CHARACTERS_PER_TOKEN - len(_WISH) - len(before)
    )
    most = max(200, characters // max(1, len(messages)))
    said = [f"{_NAMES[each.role]}: {_shortened(_said(each), most)}" for each in messages]
    parts = [_WISH, *([f"{SUMMARY_PREFACE}\n{before}"] if before else []), *said]
    return (ChatMessage("user", "\n\n".join(parts)),)


def summary_options(options: GenerateOptions, context_tokens: int) -> GenerateOptions:
    """How it is written: the likeliest words, not too many, and in no form that answers are held to."""
    return replace(
        options, sampling=SamplingOptions(), max_new_tokens=summary_reserve(context_tokens), stop=(), constraint=None
    )


def summary_reserve(context_tokens: int) -> int:
    """How many tokens a summary may have."""
    return max(_LEAST_SUMMARY_TOKENS, context_tokens // _SUMMARY_SHARE)


def _said(message: ChatMessage) -> str:
    """What a message says without its thinking, and the tools that it calls."""
    calls = [f"(calls {call.name} with {call.arguments})" for call in message.tool_calls]
    return "\n".join(filter(None, (split(message.content).answer, *calls)))


def _shortened(text: str, most: int) -> str:
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} […] {text[-half:]}"


class Summariser(QObject):
    """Has the loaded model write one summary at a time; each ends with `written`, `stopped` or `lost`."""

    written = Signal(int, str)  # the turn to read from on, and the summary; empty where there is none
    stopped = Signal()
    lost = Signal()  # the engine is gone
    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)

    def __init__(self, link: Answerer, parent: QObject) -> None:
        super().__init__(parent)
        self._link = link
        self._going: Summarising | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether a summary is on its way."""
        return self._going is not None

    def start(self, conversation: Conversation, first: int, options: GenerateOptions, context_tokens: int) -> None:
        """Summarise what is read so far of the turns before `first`, on top of what was summarised before."""
        turns = conversation.turns()[conversation.first_read : first]
        chat = summary_chat(turns, conversation.summary, context_tokens)
        request = self._link.generate(chat, summary_options(options, context_tokens))
        self._going = Summarising(request, first)
        words = tr("The context is full: the oldest turns are being summarised for the model.")
        self.notice_raised.emit(Notice(SUMMARY_NOTICE, words, tone=Tone.HINT))

    def stop(self) -> None:
        """Give it up; `stopped` will tell."""
        if self._going is not None:
            self._link.cancel(self._going.request)

    def leave(self) -> None:
        """Give it up, and hear no more of it."""
        self.stop()
        self._going = None
        self.notice_withdrawn.emit(SUMMARY_NOTICE)

    def on_events(self, events: Sequence[Event], is_engine_ready: bool) -> None:
        """Take what belongs to the summary."""
        going = self._going
        mine = [each for each in events if going and not isinstance(each, Ready) and each.id == going.request]
        if going is None or not mine:
            return
        self._going = going = going.after(mine)
        ending = mine[-1]
        if not isinstance(ending, Finished | Failed):
            return
        self._going = None
        self.notice_withdrawn.emit(SUMMARY_NOTICE)
        if isinstance(ending, Finished):
            if ending.reason == "cancelled":
                self.stopped.emit()
            else:
                self.written.emit(going.first, going.summary)
        elif is_engine_ready:
            words = tr("The oldest turns could not be summarised; they are left out.")
            self.notice_raised.emit(Notice(SUMMARY_NOTICE, words, ending.message))
            self.written.emit(going.first, "")
        else:
            self.lost.emit()
