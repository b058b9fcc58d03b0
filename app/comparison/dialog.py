"""The window that shows two answers side by side."""

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPushButton, QSizePolicy, QSplitter, QWidget

from app.comparison.column import AnswerColumn, Running
from app.comparison.figures_table import FiguresTable
from app.comparison.playback import Playback
from app.comparison.race_bar import RaceBar
from app.comparison.session import ComparisonSession
from app.comparison.transcript import Parting, Transcript, aligned, parting
from app.comparison.words import NAMES, as_text, difference_words, figure_rows, speed_words, token_words
from app.engine.token_times import TokenTimes
from app.i18n.number_text import Number
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.ui.colors import Colors
from app.ui.throttle import Throttle
from app.ui.widgets import copy_text, fill, fit_screen, label, offer

_SIZE = QSize(1040, 780)
_ABOVE = 0.3  # of the height of a text that stands above what was sought
_HEAD = 0.8  # of the height, at which the newest token of a race is kept


class ComparisonDialog(QDialog):
    """Shows a session: columns that scroll together by token, what is said of them, a race, and figures."""

    def __init__(self, session: ComparisonSession, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._parting: Parting | None = None
        self._transcripts: tuple[Transcript | None, ...] = (None, None)  # as they are shown: tokens agree
        self._pointed = -1
        self.setWindowTitle(tr("Compare answers"))
        self.playback = Playback(self)
        self.columns = tuple(AnswerColumn(name, colors, self) for name in NAMES)
        self.speed = label("option-title", "", self)
        self.difference = label("", "", self)
        self.token = label("quiet-text", "", self)
        self.to_difference = QPushButton(tr("First difference"), self)
        self.race = RaceBar(self.playback, self)
        self.figures = FiguresTable(self)
        self.copy = QPushButton(tr("Copy as text"), self)
        self.close_button = QPushButton(tr("Close"), self)
        self._throttle = Throttle(self._refresh, parent=self)
        self._lay_out()
        self._connect()

    def _lay_out(self) -> None:
        splitter = QSplitter(Qt.Orientation.Horizontal, self)
        splitter.setChildrenCollapsible(False)
        for each in self.columns:
            splitter.addWidget(each)
            splitter.setStretchFactor(splitter.indexOf(each), 1)
        splitter.setSizes([_SIZE.width() // 2] * 2)
        said = QHBoxLayout()
        said.setContentsMargins(12, 0, 12, 0)
        said.setSpacing(12)
        said.addWidget(self.difference, 1)
        said.addWidget(self.to_difference, 0, Qt.AlignmentFlag.AlignTop)
        below = QHBoxLayout()
        below.setContentsMargins(12, 0, 12, 0)
        below.addWidget(self.token, 1)
        for button in (self.copy, self.close_button):
            button.setAutoDefault(False)
            below.addWidget(button)
        self.to_difference.setAutoDefault(False)
        self.speed.setContentsMargins(12, 0, 12, 0)
        fill(self, (splitter, self.speed, said, self.race, self.figures, below), 8, 4, 4, 4, 12)
        splitter.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        fit_screen(self, _SIZE)

    def _connect(self) -> None:
        session = self._session
        for number, column in enumerate(self.columns):
            column.chosen.connect(lambda each, number=number: session.choose(number, each))
            column.start_wanted.connect(lambda number=number: session.start(number))
            column.cancel_wanted.connect(session.cancel)
            column.pane.scrolled.connect(lambda number=number: self._follow(number))
            column.pane.pointed.connect(self._point)
        session.opened.connect(self._on_opened)
        session.changed.connect(self._throttle.request)
        session.closed.connect(self.close)
        self.playback.changed.connect(self._show_time)
        self.to_difference.clicked.connect(self.show_difference)
        self.copy.clicked.connect(self._on_copy)
        self.close_button.clicked.connect(self.close)

    # ---- what a person does -----------------------------------------------------------------------------------------

    def show_difference(self) -> None:
        """Bring the place where the texts part into view."""
        if self._parting is not None:
            for column, token in zip(self.columns, self._parting.tokens, strict=True):
                column.pane.go_to(token, _ABOVE)

    @property
    def text(self) -> str:
        """The comparison as text, as far as it is there."""
        sides = self._session.sides
        transcripts = [side.transcript or Transcript("", TokenTimes()) for side in sides]
        words = (self.speed.text(), self.difference.text())
        return as_text([side.title for side in sides], transcripts, words)

    def set_colors(self, colors: Colors) -> None:
        """Draw the marks in other colours."""
        for column in self.columns:
            column.pane.set_colors(colors)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Nothing is replayed for a window that nobody sees, nor written for one that is closed."""
        super().hideEvent(event)
        self.playback.pause()
        if not event.spontaneous():  # it is closed, and not only minimised
            self._session.cancel()

    def _on_copy(self) -> None:
        copy_text(self.text, self.copy)

    # ---- what is shown ----------------------------------------------------------------------------------------------

    def _on_opened(self) -> None:
        self.playback.pause()
        for column in self.columns:
            column.show_candidates(self._session.candidates)
        self._refresh()

    def _refresh(self) -> None:
        session = self._session
        if not session.sides:
            return
        session.catch_up()
        one, other = (side.transcript for side in session.sides)
        if one and other:
            one, other = aligned(one, other)
        self._transcripts = (one, other)
        for column, side, shown in zip(self.columns, session.sides, self._transcripts, strict=True):
            if column.candidates != session.candidates:
                column.show_candidates(session.candidates)
            refusal = translated(session.refusal(side.candidate))
            now = Running(session.tokens, session.total, refusal, session.has_same_seed, session.reading)
            column.show_side(replace(side, transcript=shown), now)
        running = any(side.is_running for side in session.sides)
        self.figures.show_rows(figure_rows(one, other))
        self._show_words(one, other, running)
        self.playback.set_duration(0.0 if running else max((each.seconds for each in (one, other) if each), default=0))
        waits = tr("An answer is being written: wait for its end, or cancel it.") if running else ""
        offer(self.copy, tr("Copy both answers with their figures"), waits)
        self._point(self._pointed)

    def _show_words(self, one: Transcript | None, other: Transcript | None, running: bool) -> None:
        both = one is not None and other is not None and bool(one.text and other.text) and not running
        self._parting = parting(one, other) if both and one and other else None
        speed = speed_words(one, other) if both and one and other else ""
        difference = difference_words(one, other, self._session.temperature) if both and one and other else ""
        self.speed.setText(speed)
        self.difference.setText(difference)
        for words in (self.speed, self.difference):
            words.setVisible(bool(words.text()))
        self.to_difference.setVisible(self._parting is not None)
        tokens: Sequence[int | None] = self._parting.tokens if self._parting else (None, None)
        for column, token in zip(self.columns, tokens, strict=True):
            column.pane.show_difference(token)

    def _show_time(self) -> None:
        playback = self.playback
        for column in self.columns:
            column.show_time(playback.seconds if playback.duration else None)
            if playback.is_playing and column.newest is not None:
                column.pane.go_to(column.newest, _HEAD)

    # ---- together ---------------------------------------------------------------------------------------------------

    def _follow(self, number: int) -> None:
        """The other text goes along, so that the same token is at the top."""
        if not self.playback.is_playing:
            self.columns[1 - number].pane.go_to(self.columns[number].pane.top_token)

    def _point(self, token: int) -> None:
        """Mark a token in both texts, and say when it was there."""
        self._pointed, said = token, []
        if not self._session.sides:
            return  # the mouse leaves a text of a comparison that was closed
        for column, shown in zip(self.columns, self._transcripts, strict=True):
            column.pane.point_at(token)
            if shown is not None and 0 <= token < shown.times.count and shown.times.duration:
                words = tr("{column}: {token} after {seconds:.2f} s")
                seconds = Number(shown.times.seconds_of(token))
                said.append(words.format(column=column.name, token=token_words(shown, token) or "–", seconds=seconds))
        head = tr("Token {number}").format(number=f"{Number(token + 1):,}")
        self.token.setText(" · ".join((head, *said)) if said else "")
