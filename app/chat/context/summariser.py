"""Has the turns summarised that have no room in the context any more, and says so while it lasts."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from app.chat.history.conversation import Conversation
from app.chat.history.summary import Summarising, summary_chat, summary_options
from app.engine.link import EngineLink
from app.i18n.translation import tr
from app.ui.notices import Notice, Tone
from engine.protocol.messages import Event, Failed, Finished, Ready
from engine.protocol.options import GenerateOptions

SUMMARY_NOTICE = "summarising"


class Summariser(QObject):
    """One summary at a time, by the model that is loaded. Each ends in one of `written`, `stopped` and `lost`."""

    written = Signal(int, str)  # the turn to read from on, and the summary; empty where there is none
    stopped = Signal()
    lost = Signal()  # the engine is gone
    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)

    def __init__(self, link: EngineLink, parent: QObject) -> None:
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
