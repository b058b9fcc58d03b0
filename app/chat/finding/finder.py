"""Looks for what the bar says in the conversation that is shown, and goes from hit to hit."""

from PySide6.QtCore import QObject, QTimer

from app.chat.finding.bar import FindBar
from app.chat.finding.hits import Place
from app.chat.finding.marks import HitMarks
from app.chat.finding.needle import Wanted
from app.chat.finding.search import Search
from app.chat.generation.controller import ChatController
from app.chat.history.conversation import Conversation
from app.chat.history.message import THOUGHT, Message
from app.chat.typesetting.layout_cost import Budget
from app.chat.view.conversation_view import ConversationView

_GROWN_MS = 200  # between two looks at an answer that grows
_SLICE_SECONDS = 0.010  # of a turn of the event loop


class Finder(QObject):
    """Searches the messages, not their views: most of them have none. What comes meanwhile is searched too."""

    def __init__(self, chat: ChatController, view: ConversationView, bar: FindBar) -> None:
        super().__init__(bar)
        self._chat = chat
        self._view = view
        self._bar = bar
        self._search = Search()
        self._marks = HitMarks(view)
        self._current: Place | None = None
        self._from = Place((0, THOUGHT, 0))  # the first hit that is shown is the first one from here
        self._goes_there = False  # a person wants to see it
        self._turn = QTimer(self, singleShot=True, interval=0)
        self._turn.timeout.connect(self._work)
        self._answer: Message | None = None  # as it is by now
        self._grown = QTimer(self, singleShot=True, interval=_GROWN_MS)
        self._grown.timeout.connect(self._on_grown)
        bar.wanted_changed.connect(self._on_wanted)
        bar.step_wanted.connect(self.step)
        bar.closed.connect(self._on_closed)
        chat.conversation_replaced.connect(self._on_replaced)
        chat.path_changed.connect(self._on_path_changed)
        chat.turn_added.connect(self._on_path_changed)
        chat.answer_changed.connect(self._on_answer_changed)

    @property
    def is_at_work(self) -> bool:
        """Whether some messages are still to be searched."""
        return self._turn.isActive()

    def begin(self, words: str = "") -> None:
        """Open the bar; the first hit is the first one from where the reader is."""
        self._from = Place((self._view.top_message, THOUGHT, 0))
        self._bar.begin(words)

    def begin_at(self, words: str, message: int) -> None:
        """Show the first hit in a message, or of the conversation where that is not shown; the focus stays."""
        ids = [each.id for each in self._view.column.messages]
        self._from = Place((ids.index(message) if message in ids else 0, THOUGHT, 0))
        self._current = None  # also where the same words were looked for before
        self._goes_there = True
        self._bar.show_words(words)

    def step(self, step: int) -> None:
        """Go to the next hit, or with -1 to the one before; behind the last one comes the first."""
        self._bar.flush()
        hits = self._search.hits
        if not self._bar.is_open or not hits.count:
            return
        number = hits.number_from(self._current) + step if self._current else 0
        self._go_to(hits.place(number % hits.count))

    def set_theme(self) -> None:
        """Mark in other colours."""
        self._marks.recolor()

    # ---- what happens -----------------------------------------------------------------------------------------------

    def _on_wanted(self, wanted: Wanted) -> None:
        if wanted != self._search.needle.wanted:
            self._start(wanted, goes_there=True)
        elif self._current is None:
            self._work()

    def _on_closed(self) -> None:
        self._turn.stop()
        self._grown.stop()
        self._search.forget()
        self._current = None
        self._marks.show(None, None)

    def _on_replaced(self, _conversation: Conversation) -> None:
        self._bar.end()

    def _on_path_changed(self, *_: object) -> None:
        """Other messages are shown: what is looked at stays where it is."""
        if self._bar.is_open:
            self._start(self._bar.wanted, goes_there=False)

    def _on_answer_changed(self, answer: Message, _added: str) -> None:
        if self._bar.is_open and not self._is_empty:
            self._answer = answer
            if not self._grown.isActive():
                self._grown.start()

    def _on_grown(self) -> None:
        if self._answer is not None:
            self._search.change_last(self._answer)
            self._turn.start()

    # ---- the search -------------------------------------------------------------------------------------------------

    @property
    def _is_empty(self) -> bool:
        return not self._search.needle.wanted.words

    @property
    def _is_in_other_versions(self) -> bool:
        """Whether it stands, as it was written, in messages that are not shown."""
        needle = self._search.needle
        return any(needle.count(each.text) for each in self._chat.conversation.hidden)

    def _start(self, wanted: Wanted, goes_there: bool) -> None:
        self._current = None
        self._goes_there = goes_there
        self._search.begin(wanted, self._view.column.messages)
        self._work()

    def _work(self) -> None:
        if not self._search.work(Budget(_SLICE_SECONDS)):
            self._turn.start()
        hits = self._search.hits
        if self._current is None and hits.count:
            number = hits.number_from(self._from)
            if number < hits.count or self._search.is_done:
                self._choose(hits.place(number % hits.count))
        self._show()
        if self._search.is_done and self._goes_there:
            self._goes_there = False
            self._bar.announce()

    def _choose(self, place: Place) -> None:
        if self._goes_there:
            self._go_to(place)
        else:
            self._current = place

    def _go_to(self, place: Place) -> None:
        self._current = place
        self._from = Place(place.section)
        self._show()
        self._marks.seek_current()
        if self._search.is_done and not self._goes_there:
            self._bar.announce()

    def _show(self) -> None:
        hits = self._search.hits
        number = min(hits.number_from(self._current), hits.count - 1) + 1 if self._current and hits.count else 0
        is_elsewhere = self._search.is_done and not hits.count and self._is_in_other_versions
        self._bar.show_count(number, hits.count, self._search.is_done, is_elsewhere)
        self._marks.show(None if self._is_empty else self._search.needle, self._current)
