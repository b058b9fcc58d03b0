"""The downloads as lines of a list: what each is doing, in words and as a bar."""

import time
from dataclasses import replace

from PySide6.QtCore import QAbstractListModel, QObject, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyleOptionViewItem

from app.downloads.progress import Progress, State
from app.i18n.number_text import share_text, size_text
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.i18n.units import time_text
from app.i18n.wording import mark
from app.library.picker.choice_list import ROOT, Index, LineDelegate, bold
from app.library.picker.entry import Tone
from app.library.picker.entry_list import tone_color

PROGRESS = Qt.ItemDataRole.UserRole
_SIDE, _ABOVE, _BETWEEN, _BAR = 14, 10, 6, 6
_TONES = {
    State.DONE: Tone.GOOD,
    State.DOWNLOADING: Tone.GOOD,
    State.STALLED: Tone.SLOW,
    State.WAITING: Tone.SLOW,
    State.FAILED: Tone.BAD,
}
_WORDS = {
    State.QUEUED: mark("Waiting for its turn"),
    State.CHECKING: mark("Asking the hub"),
    State.DOWNLOADING: mark("Downloading"),
    State.STALLED: mark("Stalled: nothing arrives"),
    State.WAITING: mark("Waiting to try again"),
    State.VERIFYING: mark("Comparing checksums"),
    State.PAUSED: mark("Paused"),
    State.DONE: mark("Done"),
    State.FAILED: mark("Failed"),
    State.CANCELLED: mark("Cancelled"),
}


class DownloadList(QAbstractListModel):
    """What the queue lists, newest first. One that has not grown for `still_seconds` is shown as stalled.

    The queue itself waits longer before it gives a connection up.
    """

    still_seconds = 3.0

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._downloads: list[Progress] = []
        self._grown: dict[int, tuple[int, float]] = {}

    def rowCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        """All of them."""
        return 0 if parent.isValid() else len(self._downloads)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """A download, or its words."""
        progress = self.progress(index.row())
        if progress is None:
            return None
        words = f"{progress.request.source}: {describe(progress)}"
        texts = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole)
        tip = "\n".join(filter(None, (progress.request.source, describe(progress), progress.file)))
        return progress if role == PROGRESS else words if role in texts else tip if role == _TIP else None

    def progress(self, row: int) -> Progress | None:
        """The download in a line."""
        return self._downloads[row] if 0 <= row < len(self._downloads) else None

    def show(self, downloads: tuple[Progress, ...]) -> None:
        """Follow the queue; lines stay where they are as long as no download comes or goes."""
        newest = [self._judged(each) for each in reversed(downloads)]
        if [each.id for each in newest] != [each.id for each in self._downloads]:
            self.beginResetModel()
            self._downloads = newest
            self.endResetModel()
        elif newest:
            self._downloads = newest
            self.dataChanged.emit(self.index(0), self.index(len(newest) - 1))

    def _judged(self, progress: Progress) -> Progress:
        now = time.monotonic()
        count, since = self._grown.get(progress.id, (-1, now))
        if count != progress.bytes_done or progress.state is not State.DOWNLOADING:
            since = now
        self._grown[progress.id] = (progress.bytes_done, since)
        return replace(progress, state=State.STALLED) if now - since >= self.still_seconds else progress

    def row_of(self, number: int) -> int:
        """The line of a download; -1 if it is not listed."""
        return next((row for row, each in enumerate(self._downloads) if each.id == number), -1)


_TIP = Qt.ItemDataRole.ToolTipRole


class DownloadDelegate(LineDelegate):
    """A name, a bar, and what is going on."""

    rows, room = 2, 2 * _ABOVE + 2 * _BETWEEN + _BAR

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """One download."""
        progress = index.data(PROGRESS)
        if not isinstance(progress, Progress):
            return
        rect: QRect = option.rect
        painter.save()
        self.begin(painter, option)
        height = QFontMetrics(option.font).lineSpacing()
        line = QRect(rect.left() + _SIDE, rect.top() + _ABOVE, rect.width() - 2 * _SIDE, height)
        self._paint_name(painter, option.font, line, progress)
        bar = QRectF(line.left(), line.bottom() + _BETWEEN, line.width(), _BAR)
        self._paint_bar(painter, bar, progress)
        painter.setFont(option.font)
        tone = _TONES.get(progress.state, Tone.QUIET)
        color = self.colors.muted if tone in (Tone.QUIET, Tone.GOOD) else tone_color(self.colors, tone)
        self.write(painter, line.translated(0, height + 2 * _BETWEEN + _BAR), describe(progress), color)
        painter.restore()

    def _paint_name(self, painter: QPainter, plain: QFont, line: QRect, progress: Progress) -> None:
        painter.setFont(bold(plain))
        share = share_text(progress.fraction) if progress.bytes_total else ""
        width = painter.fontMetrics().horizontalAdvance(share_text(1)) + 8
        self.write(painter, line.adjusted(0, 0, -width, 0), progress.request.source, self.colors.text)
        painter.drawText(line, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, share)

    def _paint_bar(self, painter: QPainter, bar: QRectF, progress: Progress) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self.colors.border))
        painter.drawRoundedRect(bar, _BAR / 2, _BAR / 2)
        if progress.fraction > 0:
            painter.setBrush(QColor(tone_color(self.colors, _TONES.get(progress.state, Tone.QUIET))))
            bar.setWidth(max(_BAR, bar.width() * progress.fraction))
            painter.drawRoundedRect(bar, _BAR / 2, _BAR / 2)


def describe(progress: Progress) -> str:
    """What it is doing, such as `Downloading: 1.2 GB of 3.1 GB, 24.1 MB/s, 1 min 15 s left`."""
    state = progress.state
    parts = []
    if progress.bytes_total and state is State.DONE:
        parts.append(size_text(progress.bytes_total))
    elif progress.bytes_total:
        parts.append(
            tr("{done} of {total}").format(done=size_text(progress.bytes_done), total=size_text(progress.bytes_total))
        )
    if state is State.DOWNLOADING:
        parts.append(f"{size_text(progress.bytes_per_second)}/s")
        if progress.seconds_left is not None:
            parts.append(tr("{time} left").format(time=time_text(progress.seconds_left)))
    if progress.seconds_to_retry:
        parts.append(tr("again in {time}").format(time=time_text(progress.seconds_to_retry)))
    if progress.message:
        parts.append(translated(progress.message, progress.hint))
    return ": ".join(filter(None, (tr(_WORDS[state]), ", ".join(parts))))
