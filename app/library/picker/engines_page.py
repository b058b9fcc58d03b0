"""The engines that can answer: the one on this computer and those elsewhere; connected to, renamed, removed."""

from dataclasses import replace
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QInputDialog, QLineEdit, QPushButton, QWidget

from app.engine.state import EngineState, Phase
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.picker.entry import UNKNOWN, Entry, Tone, Verdict, Where
from app.library.picker.entry_list import EntryList
from app.library.picker.entry_view import EntryView
from app.library.remote.connect_dialog import ConnectDialog, connect_dialog
from app.library.remote.engines import EngineChoice, SavedEngine, unused_name
from app.ui.flow_layout import flow_of
from app.ui.notices import Notice, NoticeStack
from app.ui.notices import Tone as NoticeTone
from app.ui.theme import Colors
from app.ui.widgets import fill, label, offer, row_of

UNDO = "undo"
_THIS_COMPUTER = ""  # the key of its line: no engine elsewhere has an empty name
_HINT = mark(
    "Engines elsewhere stand here once you have connected to them: vLLM, SGLang, llama-server, LM Studio, Ollama, "
    "another Coppice, or any other OpenAI-compatible API. Questions and answers go to the engine that you use; nothing "
    "is sent to the others."
)


class EnginesPage(QWidget):
    """Shows an `EngineChoice`, and tells it what a person wants."""

    used = Signal()
    """A person has chosen the engine that answers from now on."""

    def __init__(self, choice: EngineChoice, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._choice = choice
        self.dialog: ConnectDialog | None = None
        self.connect_ = QPushButton(tr("Connect to an engine…"), self)
        self.connect_.setToolTip(tr("Use an engine on another machine, or another program's on this one"))
        self.entries = EntryList(self)
        self.view = EntryView(self.entries, colors, tr("Engines"), self)
        self.hint = label("quiet-text", tr(_HINT), self)
        self.notices = NoticeStack(self)
        self.use = QPushButton(tr("Use"), self)
        self.change = QPushButton(tr("Change…"), self)
        self.rename = QPushButton(tr("Rename…"), self)
        self.remove = QPushButton(tr("Remove"), self)
        self._lay_out()
        self._connect()
        self._show_engines()

    def _lay_out(self) -> None:
        buttons = flow_of((self.use, self.change, self.rename, self.remove), 6, self)
        for button in (self.connect_, self.use, self.change, self.rename, self.remove):
            button.setAutoDefault(False)
        parts = (row_of((self.connect_, None)), self.notices, self.view, self.hint, buttons)
        fill(self, parts, 8, 14, 14, 14, 14, high=self.view)

    def _connect(self) -> None:
        self.connect_.clicked.connect(partial(self.open_dialog, None))
        self.view.chosen.connect(lambda _entry: self._show_buttons())
        self.view.opened.connect(lambda _entry: self._on_use())
        self.view.delete_requested.connect(lambda _entry: self._on_remove())
        self.use.clicked.connect(self._on_use)
        self.change.clicked.connect(lambda: self.open_dialog(self.current))
        self.rename.clicked.connect(self.ask_for_name)
        self.remove.clicked.connect(self._on_remove)
        self._choice.changed.connect(self._show_engines)
        self._choice.state_changed.connect(self._show_state)
        self._choice.notice_raised.connect(self.notices.add)
        self._choice.notice_withdrawn.connect(self.notices.dismiss)
        QShortcut(
            QKeySequence(Qt.Key.Key_F2), self, self.ask_for_name, context=Qt.ShortcutContext.WidgetWithChildrenShortcut
        )

    @property
    def current(self) -> SavedEngine | None:
        """The engine elsewhere that is pointed at, if one is."""
        entry = self.view.current
        return next((each for each in self._choice.saved if entry and each.name == entry.key), None)

    def set_theme(self, colors: Colors) -> None:
        """Paint in these colours."""
        self.view.set_theme(colors)

    def open_dialog(self, engine: SavedEngine | None) -> None:
        """Connect to another engine, or change the connection to this one."""
        self.dialog = connect_dialog(self._choice.keys, engine, self)
        self.dialog.accepted_engine.connect(partial(self._on_accepted, engine))
        self.dialog.open()

    def ask_for_name(self) -> None:
        """Have the chosen engine renamed."""
        engine = self.current
        if engine is None:
            return
        box = QInputDialog(self)
        box.setWindowTitle(tr("Rename engine"))
        box.setLabelText(tr("Name of the engine"))
        box.setTextValue(engine.name)
        box.setTextEchoMode(QLineEdit.EchoMode.Normal)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.textValueSelected.connect(partial(self._choice.rename, engine.name))
        box.open()

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _on_accepted(self, before: SavedEngine | None, engine: SavedEngine, key: str, use: bool) -> None:
        """A new name must not take the place of another engine; the one that was changed keeps its line."""
        taken = {each.name: each for each in self._choice.saved if before is None or each.name != before.name}
        engine = replace(engine, name=unused_name(engine.name, taken))
        if before is not None:
            self._choice.rename(before.name, engine.name)
        self._choice.save(engine, key)
        self.view.choose(engine.name)
        if use or (self._choice.chosen is not None and self._choice.chosen.name == engine.name):
            self._choice.use(engine.name)
            self.used.emit()

    def _on_use(self) -> None:
        """Enter and the button: use it, or connect to it again."""
        if (engine := self.current) is not None:
            self._choice.use(engine.name)
            self.used.emit()
        elif self.view.current is not None:
            self._choice.use_local()
            self.used.emit()

    def _on_remove(self) -> None:
        if (engine := self.current) is None:
            return
        put_back = self._choice.remove(engine.name)
        words = tr("{name} was removed; its key is forgotten when this dialog is closed.").format(name=engine.name)
        self.notices.add(Notice(UNDO, words, action=tr("Undo"), tone=NoticeTone.HINT, on_action=put_back))

    # ---- what is shown ----------------------------------------------------------------------------------------------

    def _show_engines(self) -> None:
        saved = self._choice.saved
        here = Entry(_THIS_COMPUTER, tr("This computer"), _THIS_COMPUTER, Where.HERE)
        self.entries.replace([here, *map(_entry, saved)])
        self.hint.setVisible(not saved)
        if self.view.current is None:
            self.view.choose(self._chosen_key)
        self._show_state(self._choice.state)

    @property
    def _chosen_key(self) -> str:
        return self._choice.chosen.name if self._choice.chosen else _THIS_COMPUTER

    def _show_state(self, state: EngineState) -> None:
        """How the chosen one stands; nothing is known of the others."""
        chosen = self._chosen_key
        self.entries.set_badges({chosen: tr("In use")})
        for key in (_THIS_COMPUTER, *(each.name for each in self._choice.saved)):
            self.entries.set_verdict(key, _verdict(state) if key == chosen else UNKNOWN)
        self._show_buttons()

    def _show_buttons(self) -> None:
        entry, engine = self.view.current, self.current
        is_chosen = entry is not None and entry.key == self._chosen_key
        lacks = tr("Choose an engine first.") if entry is None else ""
        self.use.setText(tr("Connect again") if is_chosen and engine else tr("Use"))
        offer(
            self.use,
            tr("Have this engine answer from now on, in all chats"),
            lacks or ("" if engine or not is_chosen else tr("It is in use.")),
        )
        lacks = lacks or ("" if engine else tr("It is this computer itself."))
        offer(self.change, tr("Another address, key or model"), lacks)
        offer(self.rename, tr("Give it another name (F2)"), lacks)
        offer(self.remove, tr("Take it off the list, and its key out of the keyring (Delete)"), lacks)


def _entry(engine: SavedEngine) -> Entry:
    return Entry(
        key=engine.name,
        name=engine.name,
        source=engine.place.address,
        where=Where.ELSEWHERE,
        format=engine.described,
        licence=engine.place.kind,
    )


def _verdict(state: EngineState) -> Verdict:
    tones = {Phase.READY: Tone.GOOD, Phase.STOPPED: Tone.BAD, Phase.EMPTY: Tone.QUIET}
    words = tr("Ready") if state.host and state.ready else state.words  # what it has stands above
    return Verdict(words, tones.get(state.phase, Tone.FAIR))
