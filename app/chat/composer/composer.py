"""Where a person writes: the field, attached files, how the answer begins, the context's meter, and the send button."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent, QTextCursor
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QSizePolicy,
    QStyle,
    QStyleOption,
    QToolButton,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from app.chat.composer.attachment_tray import AttachmentTray, Hindrance
from app.chat.composer.fields import BeginningRow, QuestionField
from app.chat.composer.pictures import file_kinds
from app.chat.composer.tools_button import ToolsButton
from app.chat.generation.constraint_state import ConstraintState
from app.chat.generation.context_use import ContextUse, Level
from app.chat.generation.speculation_state import SpeculationState
from app.chat.history.unsent import Unsent
from app.i18n.translation import tr
from app.settings.generation import GenerationSettings
from app.system.plain_text import tip
from app.tools.toolbox import OfferedTool
from app.ui.file_dialogs import ask_for_files
from app.ui.theme import Colors, icon
from app.ui.widgets import announce, quiet_tool

_METER_WIDTH = 40
_LEAST_WORDS = 88  # pixels; "1,200 of 4,096 tokens" on two lines
_LEAST_TOOL = 36  # pixels: its icon
_BESIDE_WORDS = 250  # pixels of the composer that are not for tools with words
_METER_STEPS = 1000

_BUTTON_SIZE = 34
_TONES = {Level.OK: "", Level.NEAR: "near", Level.CUT: "warning", Level.FULL: "error"}


class ContextMeter(QAbstractButton):
    """Shows a `ContextUse` as a bar and in words, and tells what will give way before it does; a click is `clicked`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("meter")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._told = Level.OK
        self.bar = QProgressBar(self)
        self.bar.setObjectName("context")
        self.bar.setTextVisible(False)
        self.bar.setRange(0, _METER_STEPS)
        self.bar.setFixedWidth(_METER_WIDTH)
        self.bar.setAccessibleName(tr("Context used"))
        self.words = QLabel(self)
        self.words.setObjectName("figure")
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setWordWrap(True)  # a narrow window must not hide what is about to happen
        self.words.setMinimumWidth(_LEAST_WORDS)
        self.words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.words.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row = QHBoxLayout(self)
        row.setContentsMargins(6, 2, 6, 2)
        row.setSpacing(8)
        row.addWidget(self.words, 1)
        row.addWidget(self.bar)
        for part in (self.words, self.bar):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.show_use(ContextUse())

    def show_use(self, use: ContextUse) -> None:
        """Show how much is taken; nothing without a model."""
        self.words.setText(use.words)
        self.words.setAccessibleName(tr("Context: {words}").format(words=use.words))
        self.setAccessibleName(self.words.accessibleName())
        self.setAccessibleDescription(use.explanation)
        self.setToolTip(tip(use.explanation))
        self.bar.setValue(round(use.share * _METER_STEPS))
        for widget in (self.words, self.bar):
            widget.setProperty("tone", _TONES[use.level])
            widget.style().unpolish(widget)
            widget.style().polish(widget)
        self.setVisible(bool(use.context_tokens))
        if use.level is not self._told:
            self._told = use.level
            if use.consequence:
                announce(self, use.words)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """The ground, as the style sheet has it; the parts paint themselves."""
        option = QStyleOption()
        option.initFrom(self)
        self.style().drawPrimitive(QStyle.PrimitiveElement.PE_Widget, option, QPainter(self), self)


class Composer(QFrame):
    """Emits `sent` with the question, its attachments and the answer's beginning, and clears all three."""

    sent = Signal(str, tuple, str)
    engine_missed = Signal()  # a question was to be sent, and there is no engine or no model
    stop_requested = Signal()
    continue_requested = Signal()
    speculation_chosen = Signal(bool)
    draft_changed = Signal(str, tuple, str)  # the question as it stands, its attachments, and the answer's beginning

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self._answering = False
        self._can_ask = True
        self._can_continue = False
        self.tray = AttachmentTray(self)
        self.hindrance = Hindrance(self.tray, self)
        self.beginning = BeginningRow(self)
        self.field = QuestionField(self)
        self.button = QToolButton(self)
        self.button.setObjectName("send")
        self.button.setFixedSize(QSize(_BUTTON_SIZE, _BUTTON_SIZE))
        self.button.setIconSize(QSize(20, 20))
        self.attach_tool = quiet_tool(self, tr("Attach files or pictures (Ctrl+Shift+A)"), self.choose_files)
        self.begin_tool = quiet_tool(self, tr("Start the answer with… (Ctrl+Shift+B)"), self.beginning.toggle)
        self.speculation = self._words_tool(lambda: self.speculation_chosen.emit(self.speculation.isChecked()))
        self.speculation.setCheckable(True)
        self.constraint = self._words_tool(lambda: None)  # who has the settings connects it
        self._constraint = ConstraintState()
        self.tools = ToolsButton(self)
        self.tools.setMinimumWidth(_LEAST_TOOL)
        self.resume = self._words_tool(self.continue_requested.emit)
        self.meter = ContextMeter(self)
        self._lay_out()
        self._connect()
        self.set_theme(colors)
        self.set_can_continue(False)
        self.show_speculation(SpeculationState(True, True, ""))
        self.show_constraint(ConstraintState())

    def _lay_out(self) -> None:
        write, foot = QHBoxLayout(), QHBoxLayout()
        write.setSpacing(8)
        write.addWidget(self.field, 1, Qt.AlignmentFlag.AlignVCenter)
        write.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        foot.setSpacing(4)
        for widget in (self.attach_tool, self.begin_tool, self.speculation, self.tools, self.constraint, self.resume):
            foot.addWidget(widget)
        policy = self.meter.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # without an engine there is nothing to show, and the tools stay together
        self.meter.setSizePolicy(policy)
        foot.addWidget(self.meter, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 8, 8, 6)
        column.setSpacing(6)
        column.addWidget(self.tray)
        column.addWidget(self.hindrance)
        column.addWidget(self.beginning)
        column.addLayout(write)
        column.addLayout(foot)

    def setFocus(self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> None:  # noqa: N802
        """Write. A focus proxy instead would catch Tab: it would lead back to the field from the last button."""
        self.field.setFocus(reason)

    def _connect(self) -> None:
        self.field.submitted.connect(self._send)
        self.beginning.submitted.connect(self._send)
        self.beginning.closed.connect(self.field.setFocus)
        self.field.files_given.connect(self.attach)
        self.field.text_given.connect(self.tray.add_text)
        self.field.picture_given.connect(self.tray.add_picture)
        self.button.clicked.connect(self._on_clicked)
        for changed in (self.field.textChanged, self.tray.changed):
            changed.connect(self._show_button)
        self.tray.changed.connect(self._order_chips)
        for changed in (self.field.textChanged, self.tray.changed, self.beginning.field.textChanged):
            changed.connect(self._tell_draft)

    # ---- what is to be shown ----------------------------------------------------------------------------------------

    def set_answering(self, answering: bool) -> None:
        """While an answer is under way the button stops it; writing goes on."""
        self._answering = answering
        self._show_button()
        self.set_can_continue(self._can_continue)

    def set_can_ask(self, can_ask: bool) -> None:
        """Without an engine or a model no question can be asked."""
        self._can_ask = can_ask
        self._show_button()
        self.set_can_continue(self._can_continue)

    def set_can_continue(self, can_continue: bool) -> None:
        """Whether the last answer was cut off, and can go on."""
        self._can_continue = can_continue
        self.resume.setVisible(can_continue and self._can_ask and not self._answering)
        self._fit_words()

    def show_speculation(self, state: SpeculationState) -> None:
        """Show whether the draft guesses ahead, and why not if not."""
        self.speculation.setText(state.words)
        self.speculation.setChecked(state.is_on)
        hint = tr("Click to change it for this chat (Ctrl+Shift+P).")
        self.speculation.setToolTip(tip(f"{state.reason}\n{hint}".strip()))
        self.speculation.setAccessibleName(f"{state.words}. {state.reason}")
        self._color_tools()
        self._fit_words()

    def show_constraint(self, state: ConstraintState) -> None:
        """Show what answers are held to; nothing while they are free."""
        self._constraint = state
        self.constraint.setVisible(bool(state.words))
        self.constraint.setText(state.words)
        self.constraint.setToolTip(tip("\n".join((state.explanation, tr("Click to see and change it.")))))
        self.constraint.setAccessibleName(f"{state.words}. {state.explanation}")
        self._color_tools()
        self._fit_words()

    def show_tools(self, offered: Sequence[OfferedTool], generation: GenerationSettings) -> None:
        """Show how many tools answers may call; nothing where there are none."""
        self.tools.show_tools(offered, generation)
        self._color_tools()
        self._fit_words()

    def show_drop(self, drops: bool) -> None:
        """Show whether files that are dragged would come here."""
        self.setProperty("drops", drops)
        self.style().polish(self)

    def set_theme(self, colors: Colors) -> None:
        """Draw the buttons in other colours."""
        self._colors = colors
        self.resume.setText(tr("Continue"))
        self.resume.setAccessibleName(tr("Continue answer"))
        self.resume.setToolTip(tr("The answer was cut off: let it go on (Ctrl+J)"))
        self.beginning.set_theme(colors)
        self._color_tools()
        self._show_button()

    # ---- what is written --------------------------------------------------------------------------------------------

    @property
    def unsent(self) -> Unsent:
        """All that is written and not sent."""
        return Unsent(self.field.toPlainText(), self.tray.attachments, self.beginning.words, self.tray.unread)

    def show_unsent(self, unsent: Unsent) -> None:
        """Go on writing this, and nothing that was written before."""
        self.field.setPlainText(unsent.text)
        self.field.moveCursor(QTextCursor.MoveOperation.End)
        self.tray.show_attachments(unsent.attachments)
        self.beginning.show_words(unsent.beginning)
        self.attach([Path(each) for each in unsent.unread])

    # ---- what a person does -----------------------------------------------------------------------------------------

    def choose_files(self) -> None:
        """Ask for files, and attach them."""
        self.attach(ask_for_files(self.window(), tr("Attach files or pictures"), file_kinds()))

    def attach(self, paths: Sequence[Path]) -> None:
        """Read files, to send them with the question."""
        self.tray.add_files(paths)

    def _on_clicked(self) -> None:
        if self._answering:
            self.stop_requested.emit()
        else:
            self._send()

    def _send(self) -> None:
        if not self._can_ask and self._has_words:
            self.engine_missed.emit()
        if not self._can_send:
            self._tell_why_not()
            return
        text, attachments, beginning = self.field.toPlainText().strip(), self.tray.attachments, self.beginning.text
        self.field.clear()
        self.tray.take_all()
        self.beginning.close_row()
        self.sent.emit(text, attachments, beginning)

    def _tell_why_not(self) -> None:
        words = tr("A file is still being read") if self.tray.is_reading else self.tray.hindrance
        if self._answering and self._has_words:
            words = tr("An answer is under way: wait for its end, or stop it.")
        if words:
            QToolTip.showText(self.button.mapToGlobal(self.button.rect().topLeft()), tip(words), self.button)
            announce(self.button, words)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _tell_draft(self) -> None:
        self.draft_changed.emit(self.field.toPlainText(), self.tray.attachments, self.beginning.text)

    def _order_chips(self) -> None:
        """Tab comes to them behind the button that sends them, not behind all of the window."""
        ways = (self.button, *(part for each in self.tray.chips for part in each.parts))
        for before, after in pairwise(ways):
            QWidget.setTabOrder(before, after)

    @property
    def _has_words(self) -> bool:
        return bool(self.field.toPlainText().strip() or self.tray.attachments)

    @property
    def _can_send(self) -> bool:
        is_whole = self._has_words and not self.tray.is_reading and not self.tray.hindrance
        return is_whole and self._can_ask and not self._answering

    def _words_tool(self, act: Callable[[], None]) -> QToolButton:
        tool = QToolButton(self)
        tool.setObjectName("quiet-words")
        tool.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        tool.setIconSize(QSize(16, 16))
        tool.setMinimumWidth(_LEAST_TOOL)
        tool.clicked.connect(act)
        return tool

    def _color_tools(self) -> None:
        self.attach_tool.setIcon(icon("attach", self._colors.muted))
        self.begin_tool.setIcon(icon("begin", self._colors.muted))
        self.resume.setIcon(icon("continue", self._colors.accent))
        tone = self._colors.error if self._constraint.is_wrong else self._colors.accent
        self.constraint.setIcon(icon("structure", tone))
        self.tools.set_theme(self._colors)
        on = self.speculation.isChecked()
        self.speculation.setIcon(icon("tree", self._colors.accent if on else self._colors.muted))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Have words as far as there is room."""
        super().resizeEvent(event)
        self._fit_words()

    def _fit_words(self) -> None:
        """Where there is no room for all words, the icons stand alone: words must not widen the window."""
        styles = Qt.ToolButtonStyle
        words = (self.speculation, self.tools, self.constraint, self.resume)
        tools = [each for each in words if not each.isHidden()]
        for each in tools:
            each.setToolButtonStyle(styles.ToolButtonTextBesideIcon)
        if sum(each.sizeHint().width() for each in tools) > self.width() - _BESIDE_WORDS:
            for each in tools:
                each.setToolButtonStyle(styles.ToolButtonIconOnly)

    def _show_button(self) -> None:
        self.button.setEnabled(self._answering or self._can_send)
        keys = tr("Ctrl+Enter") if self.field.sends_with_ctrl else tr("Enter")
        name = tr("Stop (Esc)") if self._answering else tr("Send ({keys})").format(keys=keys)
        if not (self._has_words or self._answering):
            name = f"{name}\n{tr('Write something first.')}"
        if self.tray.is_reading and not self._answering:
            name = tr("A file is still being read")
        if self.tray.hindrance and not self._answering:
            name = self.tray.hindrance
        if not (self._answering or self._can_ask):
            name = tr("There is no model to ask")
        self.button.setToolTip(tip(name))
        self.button.setAccessibleName(tr("Stop") if self._answering else tr("Send"))
        color = self._colors.on_accent if self.button.isEnabled() else self._colors.muted
        self.button.setIcon(icon("stop" if self._answering else "send", color))
