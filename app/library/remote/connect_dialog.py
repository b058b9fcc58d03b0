"""The dialog that connects to an engine elsewhere: its address, a key, a test, one of its models, and a name."""

from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QComboBox, QDialog, QFormLayout, QLineEdit, QProgressBar, QPushButton, QWidget

from app.engine.remote.addresses import host_of, key_warning, normalised, place_of
from app.engine.remote.failures import REFUSED_KEY, RemoteError
from app.engine.remote.keys import EngineKeys, checked
from app.engine.remote.servers import RemoteModel, Server, look_at
from app.engine.remote.wire import Wire
from app.i18n.number_text import Number
from app.i18n.sentences import error_text, translated
from app.i18n.translation import tr
from app.library.remote.engines import SavedEngine
from app.ui.jobs import Job, Jobs
from app.ui.widgets import fill, label, offer, row_of
from engine.errors import CoppiceError, InputError
from engine.protocol.sentences import say

_WIDTH = 520
_TESTS = 3  # at a time: connecting, and a keyring that asks its owner, go on for a while after they are cancelled
_EXAMPLE = "http://192.168.0.7:8000"


class ConnectDialog(QDialog):
    """`accepted_engine` carries the engine, a new key if there is one, and whether it is to be used at once."""

    accepted_engine = Signal(SavedEngine, str, bool)

    def __init__(self, keys: EngineKeys, engine: SavedEngine | None = None, parent: QWidget | None = None) -> None:
        """`engine`: the one to be changed; None for a new one."""
        super().__init__(parent)
        self._keys, self._engine = keys, engine
        self._jobs = Jobs(_TESTS, "remote engine", self)
        self._testing: Job | None = None
        self._address = ""
        self._server: Server | None = None
        self.setWindowTitle(tr("Connect to an engine") if engine is None else tr("Change the connection"))
        self.address = self._field(tr("Address"), _EXAMPLE)
        self.key = self._field(tr("Key"), tr("As it was") if engine and engine.has_key else tr("No key"))
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.test = QPushButton(tr("Test the connection"), self)
        self.stop = QPushButton(tr("Cancel the test"), self)
        self.progress = QProgressBar(self, maximum=0, textVisible=False)
        self.words = label("quiet-text", "", self)
        self.warning = label("quiet-text", "", self)
        self.model = QComboBox(self)
        self.name = self._field(tr("Name"), "")
        self.use = QPushButton(tr("Save and use"), self)
        self.save = QPushButton(tr("Save"), self)
        self.leave = QPushButton(tr("Cancel"), self)
        self._describe()
        self._lay_out()
        self._connect()
        self._fill()
        self._show()

    def _field(self, name: str, example: str) -> QLineEdit:
        field = QLineEdit(self, placeholderText=example)
        field.setAccessibleName(name)
        return field

    def _describe(self) -> None:
        self.address.setToolTip(
            tr("Of vLLM, SGLang, llama-server, LM Studio, Ollama, another Coppice, or any OpenAI-compatible API")
        )
        self.key.setToolTip(tr("It is kept in the system's keyring, and sent to this address alone."))
        self.progress.setAccessibleName(tr("Progress of the test"))
        self.words.setAccessibleName(tr("Result of the test"))
        self.model.setAccessibleName(tr("Model"))
        self.name.setToolTip(tr("What the engine is called in your list"))

    def _lay_out(self) -> None:
        form = QFormLayout()
        form.setHorizontalSpacing(12)
        form.setVerticalSpacing(8)
        form.addRow(tr("Address"), self.address)
        form.addRow(tr("Key"), self.key)
        form.addRow("", self.warning)
        form.addRow("", row_of((self.test, self.stop, self.progress, None), wide=self.progress))
        form.addRow("", self.words)
        form.addRow(tr("Model"), self.model)
        form.addRow(tr("Name"), self.name)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        for button in (self.leave, self.save, self.use, self.stop):
            button.setAutoDefault(False)
        fill(self, (form, None, row_of((None, self.leave, self.save, self.use))), 14, 18, 18, 18, 14)
        self.setMinimumWidth(_WIDTH)

    def _connect(self) -> None:
        for field in (self.address, self.key):
            field.textEdited.connect(self._on_edited)
        self.model.currentIndexChanged.connect(lambda _index: self._show())
        self.name.textEdited.connect(lambda _text: self._show())
        self.test.clicked.connect(self.begin_test)
        self.stop.clicked.connect(self.end_test)
        self.use.clicked.connect(partial(self._accept, True))
        self.save.clicked.connect(partial(self._accept, False))
        self.leave.clicked.connect(self.reject)

    def _fill(self) -> None:
        if self._engine is not None:
            self.address.setText(self._engine.place.address)
            self.name.setText(self._engine.name)
            self._show_key_warning()

    # ---- the test ---------------------------------------------------------------------------------------------------

    def begin_test(self) -> None:
        """Ask what is at the address."""
        self.end_test()
        try:
            address, key = normalised(self.address.text()), checked(self.key.text())
        except InputError as error:
            self._on_failed(error)
            return
        self._address, self._server = address, None
        uses_kept = self._has_kept_key and not key
        wire = Wire(address, lambda: self._keys.of(address) if uses_kept else key)
        self._testing = self._jobs.start(partial(look_at, wire))
        self._testing.done.connect(self._on_found)
        self._testing.failed.connect(self._on_failed)
        self.words.setText(tr("Asking {host}…").format(host=host_of(address)))
        self._show()

    @property
    def _has_kept_key(self) -> bool:
        """Whether the keyring has a key for the address, which was not changed."""
        engine = self._engine
        return engine is not None and engine.has_key and engine.place.address == self._address

    def end_test(self) -> None:
        """Cancel the test, if one is under way."""
        if self._testing is not None:
            self._testing.cancel()
            self._testing = None
            self.words.setText("")
            self._show()

    def _on_found(self, server: Server) -> None:
        self._testing, self._server = None, server
        kind = server.kind or tr("An OpenAI-compatible API")
        self.words.setText(
            tr("{engine} answers, with {count} models.").format(engine=kind, count=len(server.models))
            if len(server.models) != 1
            else tr("{engine} answers.").format(engine=kind)
        )
        wanted = self._engine.place.model if self._engine else ""
        self.model.clear()
        for each in server.models:
            self.model.addItem(_words_of(each), each.name)
        self.model.setCurrentIndex(max(0, self.model.findData(wanted)))
        if not self.name.text().strip():
            self.name.setText(host_of(self._address).rpartition(":")[0] or host_of(self._address))
        self._show()
        self.use.setFocus()

    def _on_failed(self, error: CoppiceError) -> None:
        self._testing = None
        if isinstance(error, RemoteError) and error.status in REFUSED_KEY:
            error = RemoteError(error.message, say("Give another key."))  # here, and not where the hint leads to
        self.words.setText(error_text(error))
        self._show()

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _on_edited(self) -> None:
        """What was found is not what is there now."""
        self.end_test()
        self._server = None
        self.model.clear()
        self.words.setText("")
        self._show_key_warning()
        self._show()

    def _show_key_warning(self) -> None:
        try:
            warning = key_warning(normalised(self.address.text()))
        except InputError:
            warning = None
        self.warning.setText(translated(warning) if warning else "")
        self.warning.setVisible(bool(self.warning.text()))

    def _show(self) -> None:
        testing, found = self._testing is not None, self._server is not None
        self.test.setVisible(not testing)
        lacks = "" if self.address.text().strip() else tr("Write the address of the engine first.")
        offer(self.test, tr("Asks the address what it is, and which models it has"), lacks)
        self.test.setDefault(not found)
        self.stop.setVisible(testing)
        self.progress.setVisible(testing)
        self.words.setVisible(bool(self.words.text()))
        self.warning.setVisible(bool(self.warning.text()))
        self.model.setEnabled(found)
        for button in (self.save, self.use):
            unknown = "" if found else tr("Test the connection first: its models have to be known")
            lacks = unknown or ("" if self.name.text().strip() else tr("Give it a name first."))
            offer(button, button.text().replace("&", ""), lacks)
        self.use.setDefault(found)
        self._make_room()

    def _make_room(self) -> None:
        """Become higher where words that wrap need it: the least size of a layout counts one line of them."""
        layout = self.layout()
        if layout is not None and self.isVisible():
            layout.activate()
            self.resize(self.width(), max(self.height(), layout.totalHeightForWidth(self.width())))

    def _accept(self, use: bool) -> None:
        assert self._server is not None
        model = self._server.model(self.model.currentData())
        assert model is not None
        place = place_of(self._address, self._server.kind, model)
        key = self.key.text().strip()
        self.accepted_engine.emit(
            SavedEngine(self.name.text().strip(), place, bool(key) or self._has_kept_key), key, use
        )
        self.accept()

    def done(self, result: int) -> None:
        """The dialog goes: its test ends too."""
        self.end_test()
        self._jobs.close()
        super().done(result)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """As above."""
        self.end_test()
        super().closeEvent(event)


def _words_of(model: RemoteModel) -> str:
    if not model.context_tokens:
        return model.name
    tokens = f"{Number(model.context_tokens):,}"
    return tr("{model} ({tokens} tokens of context)").format(model=model.name, tokens=tokens)


def connect_dialog(keys: EngineKeys, engine: SavedEngine | None, parent: QWidget) -> ConnectDialog:
    """A dialog that goes away when it is closed."""
    made = ConnectDialog(keys, engine, parent)
    made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return made
