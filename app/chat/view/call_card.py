"""A call of a tool as it is shown: which tool, with what, how it stands, and what came of it."""

from typing import Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.history.calls import Call, CallState, Decision
from app.chat.text.document_style import Look
from app.i18n.translation import tr
from app.i18n.units import time_text
from app.i18n.wording import mark
from app.system import json_text as json
from app.system.json_text import parse_json
from app.system.plain_text import marked, tip, unsteered
from app.ui.theme import code_font, icon
from app.ui.widgets import CutLabel, announce, label, make_room

_MOST_LINES = 18  # of a text that are seen at once
_FRAME = 14  # pixels above and below a text's lines
_INDENT = "    "
_QUICK_SECONDS = 1.0
_LONGEST_DESCRIPTION = 300  # characters; its rest is in the tooltip
_STATES = {
    CallState.WRITING: mark("Is being written…"),
    CallState.WAITING: mark("Asks for permission"),
    CallState.RUNNING: mark("Running…"),
    CallState.FAILED: mark("Failed"),
    CallState.DENIED: mark("Declined"),
    CallState.STOPPED: mark("Stopped"),
}
_TONES = {CallState.FAILED: "error", CallState.WAITING: "near"}


def readable_arguments(arguments: str) -> str:
    """Arguments line by line: `name: value`, longer texts indented below their names. What is no object stays as it is.

    Nothing in a value can look like another argument: only names stand at the beginning of a line.
    """
    try:
        found = parse_json(arguments.encode("utf-8", "replace"))
    except ValueError:
        return marked(arguments)
    if not isinstance(found, dict):
        return marked(arguments)
    return "\n".join(marked(f"{' '.join(name.split())}: {_value(value)}") for name, value in found.items())


def _value(value: Any) -> str:
    if not isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) < 60 else _indented(json.dumps(value, ensure_ascii=False, indent=2))
    return _indented(value) if len(value.splitlines()) > 1 else value


def _indented(text: str) -> str:
    return "".join(f"\n{_INDENT}{line}" for line in text.splitlines())


class PlainField(QPlainTextEdit):
    """A text that can be read and copied, as it is, as high as its lines up to a limit."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("call-text")
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setTabChangesFocus(True)
        self.setAccessibleName(name)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.document().setDocumentMargin(0)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)

    def show_text(self, text: str, zoom: int) -> None:
        """Show this, in another size perhaps."""
        font = code_font()
        if font.pointSizeF() > 0:
            font.setPointSizeF(font.pointSizeF() * zoom / 100)
        self.setFont(font)
        if text != self.toPlainText():
            self.setPlainText(text)
        self._fit()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """The list of messages scrolls on where there is nothing to scroll here."""
        bar = self.verticalScrollBar()
        down = event.angleDelta().y() < 0
        if bar.value() == (bar.maximum() if down else bar.minimum()):
            event.ignore()
        else:
            super().wheelEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Another width breaks other lines."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        lines = max(1, min(_MOST_LINES, round(self.document().size().height())))
        self.setFixedHeight(lines * self.fontMetrics().lineSpacing() + _FRAME)


class CallCard(QFrame):
    """One call. While it waits, its arguments are shown in full, and a person decides; later they are folded."""

    decided = Signal(int, Decision)  # where the call begins in the answer

    def __init__(self, look: Look, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("call")
        self._look = look
        self._call: Call | None = None
        self._asks = False
        self.header = QToolButton(self)
        self.header.setObjectName("call-header")
        self.header.setCheckable(True)
        self.header.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.header.setIconSize(QSize(16, 16))
        self.header.toggled.connect(self._show_details)
        self.server = CutLabel(self)
        self.server.setObjectName("figure")
        self.state = QLabel(self)
        self.state.setObjectName("figure")
        self.question = label("call-question", "", self)
        self.description = label("figure", "", self)
        self.arguments_title = label("figure", tr("Arguments"), self)
        self.arguments = PlainField(tr("Arguments"), self)
        self.result_title = label("figure", tr("Result"), self)
        self.result = PlainField(tr("Result"), self)
        self.allow = QPushButton(tr("Allow once"), self)
        self.always = QPushButton(tr("Always allow this tool"), self)
        self.deny = QPushButton(tr("Deny"), self)
        buttons = {self.allow: Decision.ONCE, self.always: Decision.ALWAYS, self.deny: Decision.DENY}
        for button, decision in buttons.items():
            button.setAutoDefault(False)
            button.clicked.connect(lambda _checked, decision=decision: self._decide(decision))
        always = tr("It is called without asking from now on, in every chat, until you change that in Preferences.")
        self.always.setToolTip(tip(always))
        self.deny.setToolTip(tip(tr("The model is told that you declined, and goes on.")))
        make_room(*buttons)
        self._lay_out()

    def _lay_out(self) -> None:
        head, buttons, column = QHBoxLayout(), QHBoxLayout(), QVBoxLayout(self)
        head.setSpacing(4)
        head.addWidget(self.header)
        head.addWidget(self.server, 1)
        head.addWidget(self.state)
        buttons.setSpacing(8)
        self._buttons = QWidget(self)
        self._buttons.setLayout(buttons)
        buttons.setContentsMargins(0, 2, 0, 4)
        for each in (self.allow, self.always, self.deny):
            buttons.addWidget(each)
        buttons.addStretch(1)
        column.setContentsMargins(6, 4, 12, 4)
        column.setSpacing(4)
        column.addLayout(head)
        self._details = QWidget(self)
        inner = QVBoxLayout(self._details)
        inner.setContentsMargins(8, 0, 0, 6)
        inner.setSpacing(4)
        asked = (self.question, self.description, self.arguments_title, self.arguments, self._buttons)
        for widget in (*asked, self.result_title, self.result):
            inner.addWidget(widget)
        column.addWidget(self._details)

    def show_call(self, call: Call, is_open: bool) -> None:
        """Show how it stands; `is_open`: the answer is under way, so that a person can decide."""
        asks = is_open and call.state is CallState.WAITING
        if (call, asks) == (self._call, self._asks):
            return
        is_new = self._call is None
        if asks != self._asks or is_new:
            self.header.setChecked(asks)
        self._call, self._asks = call, asks
        self.header.setText(call.title)
        self.server.setText(unsteered(call.server))
        words = self._words(call, asks)
        self.state.setText(words)
        self.state.setProperty("tone", _TONES.get(call.state, "") if asks or call.state.is_final else "")
        self.state.style().unpolish(self.state)
        self.state.style().polish(self.state)
        name = tr("Tool {tool}: {state}").format(tool=self.header.text(), state=words)
        self.header.setAccessibleName(name)
        self._show_texts()
        self._show_details()
        if asks:
            announce(self, name)

    def set_look(self, look: Look) -> None:
        """Show it in other colours or another size."""
        self._look = look
        if self._call is not None:
            self._show_texts()

    def set_marked(self, is_marked: bool) -> None:
        """Whether the round that is marked wrote some of the call."""
        if is_marked != bool(self.property("marked")):
            self.setProperty("marked", is_marked)
            self.style().unpolish(self)
            self.style().polish(self)

    @property
    def call(self) -> Call | None:
        """What is shown."""
        return self._call

    def _words(self, call: Call, asks: bool) -> str:
        if call.state is CallState.WAITING and not asks:
            return tr("Not called")
        if call.state is CallState.DONE:
            is_quick = call.seconds < _QUICK_SECONDS
            return tr("Done") if is_quick else tr("Done in {time}").format(time=time_text(call.seconds))
        if call.state is CallState.RUNNING and call.progress:
            return tr("Running: {progress}").format(progress=call.progress)
        return tr(_STATES[call.state])

    def _show_texts(self) -> None:
        assert self._call is not None, "there is something to show"
        call, zoom = self._call, self._look.zoom
        self.header.setIcon(icon("tools", self._look.colors.accent if self._asks else self._look.colors.muted))
        arguments = readable_arguments(call.arguments)
        told = tr("The model wants to call this tool of the server “{server}” without arguments.")
        if arguments:
            told = tr("The model wants to call this tool of the server “{server}” with:")
        self.question.setText(told.format(server=unsteered(call.server)))
        self._describe(call)
        self.arguments.show_text(arguments, zoom)
        self.result.show_text(marked(call.result.rstrip("\r\n")), zoom)

    def _describe(self, call: Call) -> None:
        """What the server says of the tool."""
        words = unsteered(" ".join(call.description.split()))
        is_long = len(words) > _LONGEST_DESCRIPTION
        harmless = tr("The server says that it changes nothing.") if call.changes_nothing else ""
        shown = f"{words[:_LONGEST_DESCRIPTION]}…" if is_long else words
        self.description.setText("\n".join(filter(None, (shown, harmless))))
        self.description.setToolTip(tip(words) if is_long else "")

    def _show_details(self) -> None:
        call, is_open = self._call, self.header.isChecked()
        if call is None:
            return
        is_written = call.state is not CallState.WRITING
        self.header.setEnabled(is_written)
        self.header.setToolTip(tip(tr("Hide the details") if is_open else tr("Show arguments and result")))
        has_arguments, has_result = bool(self.arguments.toPlainText()), bool(call.result)
        self.question.setVisible(self._asks)
        self.description.setVisible(self._asks and bool(self.description.text()))
        self.arguments_title.setVisible(not self._asks and has_arguments)
        self.arguments.setVisible(has_arguments)
        focus = QApplication.focusWidget()
        if not self._asks and focus is not None and self._buttons.isAncestorOf(focus):
            self.header.setFocus()  # a button that hides would give it to whatever comes next in the window
        self._buttons.setVisible(self._asks)
        self.result_title.setVisible(has_result)
        self.result.setVisible(has_result)
        self._details.setVisible(is_written and (is_open or self._asks))

    def _decide(self, decision: Decision) -> None:
        if self._call is not None:
            self.decided.emit(self._call.begin, decision)
