"""Says whether a tree pays for the chosen pair and what would be faster; the figures of all ways on demand."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QToolButton, QWidget

from app.i18n.number_text import Number, short_time
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.estimates import rate_text
from app.system.plain_text import tip
from app.ui.widgets import fill, label
from engine.protocol.messages import Appraised, WayTold

_SHOWN = "answers"  # of the ways as asked: what really came, if that is known
_AS_ASKED = ("plain", "small", "tree", "experts", _SHOWN)
_WHY = mark(
    "Seconds of a pass are computed from what was measured of this machine: memory, links, disk and the processor or "
    "GPU. Where nothing was measured, figures are assumed; loading a model measures them."
)


class WaysBox(QWidget):
    """Hidden as long as there is nothing to tell."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.words = label("quiet-text", "", self)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.toggle = QToolButton(self, autoRaise=True)
        self.toggle.setCheckable(True)
        self.toggle.setText(tr("Every way to run it"))
        self.toggle.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.toggle.setArrowType(Qt.ArrowType.RightArrow)
        self.table = QWidget(self)
        self.basis = label("quiet-text", "", self.table)
        self.basis.setToolTip(tip(tr(_WHY)))
        self._rows = QGridLayout(self.table)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setHorizontalSpacing(14)
        self._rows.setVerticalSpacing(2)
        self._shown: Appraised | None = None
        fill(self, (self.words, self.toggle, self.table), 4)
        self.toggle.toggled.connect(self._on_toggled)
        self.show_ways(None)

    def show_ways(self, found: Appraised | None) -> None:
        """Show what the engine said of a pair, or nothing."""
        if found is not None and found == self._shown:
            return
        self._shown = found
        ways = found.ways if found else ()
        sentences = [translated(each) for each in (found.trees, *found.advice) if each] if found else []
        self.words.setText("\n".join(sentences))
        self.words.setVisible(bool(sentences))
        self.setVisible(bool(ways))
        self.toggle.setVisible(bool(ways))
        self._fill(ways)
        self.basis.setText(_basis(found) if found else "")
        self._on_toggled(self.toggle.isChecked())

    def cells(self) -> list[list[str]]:
        """What the table says, row by row."""
        return [
            [_text_at(self._rows, row, column) for column in range(_COLUMNS)]
            for row in range(len(self._shown.ways) if self._shown else 0)
        ]

    def _on_toggled(self, is_open: bool) -> None:
        self.toggle.setArrowType(Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow)
        self.table.setVisible(is_open)

    def _fill(self, ways: tuple[WayTold, ...]) -> None:
        while self._rows.count():
            item = self._rows.takeAt(0)
            widget = item.widget() if item else None
            if widget is not None and widget is not self.basis:
                widget.deleteLater()
        asked = [way for way in ways if way.name in _AS_ASKED]
        best = max(asked, key=lambda way: (way.name == _SHOWN, way.tokens_per_second), default=None)
        for row, way in enumerate(ways):
            explained = _explained(way)
            for column, text in enumerate(_row(way)):
                cell = label("quiet-text", text, self.table)
                cell.setWordWrap(column == _COLUMNS - 1)
                cell.setToolTip(tip(explained))
                if way is best:
                    cell.setStyleSheet("font-weight: 600")
                self._rows.addWidget(cell, row, column)
        self._rows.addWidget(self.basis, len(ways), 0, 1, _COLUMNS)
        self._rows.setColumnStretch(_COLUMNS - 1, 1)


_COLUMNS = 4


def _row(way: WayTold) -> tuple[str, str, str, str]:
    size = tr("%n nodes", n=way.nodes) if way.nodes else ""
    bound = translated(way.bound_words)
    return (
        translated(way.words),
        rate_text(way.tokens_per_second),
        size,
        tr("bound by {bound}").format(bound=bound) if way.is_measured else tr("assumed: {bound}").format(bound=bound),
    )


def _explained(way: WayTold) -> str:
    device, ram, ssd = way.tiers
    words = tr(
        "Of its layers, {device} stay where they are computed, {ram} come from RAM and {ssd} from SSD. A pass and its "
        "drafting take {time} and give {count:.1f} tokens."
    )
    time = short_time(way.seconds)
    return words.format(device=device, ram=ram, ssd=ssd, time=time, count=Number(way.tokens_per_pass))


def _basis(found: Appraised) -> str:
    rates = (
        tr("Rates were measured here on {date}.").format(date=found.measured_at[:10])
        if found.measured_at
        else tr("Rates are assumed: this machine was not measured with such weights yet.")
    )
    return " ".join(filter(None, (rates, translated(found.basis))))


def _text_at(rows: QGridLayout, row: int, column: int) -> str:
    item = rows.itemAtPosition(row, column)
    widget = item.widget() if item else None
    return widget.text() if isinstance(widget, QLabel) else ""
