"""The side bar: a search field, the list of conversations, and the menu of each."""

import time
from collections.abc import Callable, Iterable, Sequence

from PySide6.QtCore import QEvent, QItemSelectionModel, QModelIndex, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QMouseEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QInputDialog,
    QLineEdit,
    QListView,
    QMenu,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.history.records import ConversationRecord, SearchHit
from app.chat.sidebar.delegate import ConversationDelegate
from app.chat.sidebar.model import ConversationModel
from app.chat.sidebar.rows import ChatRow, HeaderRow, Row, found_words, hit_rows, rows_of
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip
from app.ui.theme import Colors
from app.ui.widgets import claims_escape, label

_SEARCH_MS = 120
_EMPTY = mark("Your conversations will be listed here.")
_NOTHING_FOUND = mark("Nothing was found.")


class ConversationsPanel(QWidget):
    """Shows the given records, and emits a signal with the conversation's id for every action of a person."""

    opened = Signal(object)
    hit_opened = Signal(object, str, object)  # before `opened`: the same, words that were found, and in which message
    renamed = Signal(object, str)
    pinned = Signal(object, bool)
    moved = Signal(object, str)
    folder_renamed = Signal(str, str)  # a folder, and what it is to be called; nothing: it is to go, its chats stay
    folders_closed = Signal(tuple)  # names of all folders whose chats are not shown
    duplicated = Signal(object)
    deleted = Signal(object)
    exported = Signal(object)
    window_wanted = Signal(object)  # another window for this conversation
    search_requested = Signal(str)
    choice_changed = Signal()  # another conversation is chosen in the list, or its focus has come or gone
    deleted_wanted = Signal()  # what was deleted is to be shown
    shown_wanted = Signal()  # a title is about to be written in the list

    def __init__(self, colors: Colors, parent: QWidget | None = None, now: Callable[[], float] = time.time) -> None:
        """`now`: seconds since 1970; the list is grouped by age."""
        super().__init__(parent)
        self._now = now
        self._records: Sequence[ConversationRecord] = ()
        self._current = 0
        self._closed: frozenset[str] = frozenset()
        self._awaits_found = self._opens_found = False  # a search is under way, and Return was pressed meanwhile
        self.setAccessibleName(tr("Conversations"))
        self.search = QLineEdit(self, placeholderText=tr("Search chats"), clearButtonEnabled=True)
        self.search.setAccessibleName(tr("Search conversations"))
        for button in self.search.findChildren(QAbstractButton):
            button.setAccessibleName(tr("Clear search"))
        self.model = ConversationModel(self)
        self.list = self._build_list(colors)
        self.empty = label("quiet-text", tr(_EMPTY), self)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 10, 10, 8)
        column.setSpacing(8)
        column.addWidget(self.search)
        column.addWidget(self.empty)
        column.addWidget(self.list, 1)
        column.addStretch(0)
        self.deleted_tool = QToolButton(self)
        self.deleted_tool.setObjectName("quiet-words")
        self.deleted_tool.setText(tr("Recently deleted…"))
        self.deleted_tool.setAccessibleName(tr("Recently deleted"))
        self.deleted_tool.clicked.connect(self.deleted_wanted)
        self.deleted_tool.hide()
        column.addWidget(self.deleted_tool)
        self._pause = QTimer(self, singleShot=True, interval=_SEARCH_MS)
        self._pause.timeout.connect(self._on_search_paused)
        self._edited = QTimer(self, singleShot=True, interval=0)
        self._edited.timeout.connect(self._refresh)
        self.search.textChanged.connect(self._on_search_edited)
        self.search.returnPressed.connect(self._on_search_accepted)
        self.model.renamed.connect(self.renamed)
        self.model.moved.connect(self.moved)
        self.model.pinned.connect(self.pinned)

    def _build_list(self, colors: Colors) -> QListView:
        view = QListView(self)
        view.setObjectName("conversations")
        view.setAccessibleName(tr("Conversations"))
        view.setModel(self.model)
        delegate = ConversationDelegate(colors, view)
        delegate.closeEditor.connect(lambda *_: self._edited.start())  # also while the list is destroyed
        view.setItemDelegate(delegate)
        view.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        view.setDragDropMode(QAbstractItemView.DragDropMode.DragDrop)
        view.setDefaultDropAction(Qt.DropAction.MoveAction)
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        view.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        view.setMouseTracking(True)
        view.customContextMenuRequested.connect(self._on_menu_requested)
        view.clicked.connect(self._on_clicked)
        view.activated.connect(self._on_chosen)
        view.selectionModel().currentChanged.connect(lambda *_: self.choice_changed.emit())
        view.installEventFilter(self)
        view.viewport().installEventFilter(self)
        return view

    # ---- what is shown ----------------------------------------------------------------------------------------------

    def show_conversations(self, records: Sequence[ConversationRecord]) -> None:
        """Show these, newest first, unless a search is shown, or a title is being written: that is waited for."""
        before, self._records = self._records, records
        if self.search.text().strip() and _found_of(before) != _found_of(records):
            self._pause.start()  # what was found may be gone, be named otherwise, or stand elsewhere
        if self.list.state() != QAbstractItemView.State.EditingState:
            self._refresh()

    def show_found(self, hits: Sequence[SearchHit]) -> None:
        """Show what a search found, if it is still wanted."""
        self._awaits_found = self._pause.isActive()
        if self.search.text().strip():
            self._show_rows(hit_rows(hits), tr(_NOTHING_FOUND))
            if self._opens_found and not self._awaits_found:
                self._on_search_accepted()

    def show_closed(self, folders: Iterable[str]) -> None:
        """Show of these folders nothing but their names."""
        self._closed = frozenset(folders)
        self._refresh()

    def offer_deleted(self, deleted: Sequence[object]) -> None:
        """Offer to show what was deleted, if there is anything."""
        self.deleted_tool.setVisible(bool(deleted))

    def show_current(self, conversation: int) -> None:
        """Mark the conversation that the window shows."""
        self._current = conversation
        self._mark_current()

    def set_theme(self, colors: Colors) -> None:
        """Draw everything in other colours."""
        delegate = self.list.itemDelegate()
        assert isinstance(delegate, ConversationDelegate)
        delegate.colors = colors
        self.list.viewport().update()

    def event(self, event: QEvent) -> bool:
        """Escape leaves a search, and stops no answer."""
        is_key = event.type() == QEvent.Type.ShortcutOverride
        is_searching = is_key and self.search.hasFocus() and bool(self.search.text())
        return (is_searching and claims_escape(event)) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Delete removes the chosen conversation, Down leads from the search into the list, Escape leaves a search."""
        if event.matches(QKeySequence.StandardKey.Delete) and (chosen := self.chosen):
            self.deleted.emit(chosen)
        elif event.key() == Qt.Key.Key_Down and self.search.hasFocus() and self.model.first.isValid():
            self.list.setFocus()
            self.list.setCurrentIndex(self.model.first)
        elif event.key() == Qt.Key.Key_Escape and self.search.text():
            self.search.clear()
        else:
            super().keyPressEvent(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Notice whether the list has the focus; a right click opens a menu, and chooses nothing; keys open folders."""
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self.choice_changed.emit()
        if isinstance(event, QMouseEvent) and event.button() == Qt.MouseButton.RightButton:
            return True  # what is marked is what the window shows, and what its commands concern
        row = self.model.row(self.list.currentIndex()) if isinstance(event, QKeyEvent) else None
        if isinstance(event, QKeyEvent) and isinstance(row, HeaderRow) and event.type() == QEvent.Type.KeyPress:
            return self._press(row, event.key())
        return super().eventFilter(watched, event)

    @property
    def chosen(self) -> int:
        """The conversation that is chosen while the list has the focus, else 0."""
        row = self.model.row(self.list.currentIndex())
        return row.record.id if self.list.hasFocus() and isinstance(row, ChatRow) else 0

    def begin_rename(self, conversation: int) -> None:
        """Let the title be written in the list."""
        if not self.model.index_of(conversation).isValid():
            self.search.clear()
            self._open_folder_of(conversation)
        index = self.model.index_of(conversation)
        if index.isValid():
            self.shown_wanted.emit()
            is_edited = self.list.state() == self.list.State.EditingState and self.list.currentIndex() == index
            self.list.setCurrentIndex(index)
            if not is_edited:  # as it is where the keys are pressed twice
                self.list.edit(index)

    def ask_folder(self, conversation: int) -> None:
        """Ask for the folder of a conversation, among those that there are and any other; an empty name is none."""
        record = next((each for each in self._records if each.id == conversation), None)
        if record is None:
            return
        folders = ["", *self._folders()]
        words = tr("Folder of “{title}”: a new name makes a folder, none takes it out.")
        name, accepted = QInputDialog.getItem(
            self, tr("Move to folder"), words.format(title=record.shown_title.replace("&", "&&")), folders,
            folders.index(record.folder), editable=True,
        )  # fmt: skip
        if accepted:
            self.moved.emit(conversation, name)

    def menu_of(self, row: ChatRow) -> QMenu:
        """What can be done with a conversation."""
        record, identity = row.record, row.record.id
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        other = _add(menu, tr("Open in new window"), "", lambda: self.window_wanted.emit(identity))
        if identity == self._current:
            other.setEnabled(False)
            other.setToolTip(tip(tr("This chat is shown in this window.")))
            menu.setToolTipsVisible(True)
        _add(menu, tr("Rename"), "F2", lambda: self.list.edit(self.model.index_of(identity)))
        _add(
            menu,
            tr("Unpin") if record.is_pinned else tr("Pin"),
            "",
            lambda: self.pinned.emit(identity, not record.is_pinned),
        )
        folders = menu.addMenu(tr("Move to folder"))
        for folder in self._folders():
            action = _add(
                folders, folder.replace("&", "&&"), "", lambda _=0, name=folder: self.moved.emit(identity, name)
            )
            action.setCheckable(True)
            action.setChecked(folder == record.folder)
        folders.addSeparator()
        _add(folders, tr("New folder…"), "", lambda: self._on_new_folder(identity))
        if record.folder:
            _add(folders, tr("Out of folder"), "", lambda: self.moved.emit(identity, ""))
        _add(menu, tr("Duplicate"), "", lambda: self.duplicated.emit(identity))
        _add(menu, tr("Export…"), "", lambda: self.exported.emit(identity))
        menu.addSeparator()
        _add(menu, tr("Delete"), "Del", lambda: self.deleted.emit(identity))
        return menu

    def menu_of_folder(self, row: HeaderRow) -> QMenu:
        """What can be done with a folder."""
        folder = row.folder
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        _add(menu, tr("Expand folder") if row.is_closed else tr("Collapse folder"), "", lambda: self._toggle(folder))
        _add(menu, tr("Rename folder…"), "", lambda: self._on_rename_folder(folder))
        _add(menu, tr("Remove folder, keep its chats"), "", lambda: self.folder_renamed.emit(folder, ""))
        return menu

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _folders(self) -> list[str]:
        return sorted({each.folder for each in self._records if each.folder}, key=str.casefold)

    def _refresh(self) -> None:
        """While an answer grows this comes twice a second."""
        if not self.search.text().strip():
            self._show_rows(rows_of(self._records, self._now(), self._closed), tr(_EMPTY))

    def _show_rows(self, rows: Sequence[Row], words: str) -> None:
        """Show these, or `words` where there are none; who goes through the list stays where they are."""
        chosen, bar = self.chosen, self.list.verticalScrollBar()
        place = bar.value()
        self.list.setUniformItemSizes(not any(isinstance(row, ChatRow) and row.excerpt for row in rows))
        self.model.show_rows(rows)
        self._show_empty(words)
        index = self.model.index_of(chosen or self._current)
        if not (self.list.hasFocus() and isinstance(self.model.row(self.list.currentIndex()), HeaderRow)):
            self.list.setCurrentIndex(index if index.isValid() else self.model.index_of(self._current))
        bar.setValue(place)

    def _show_empty(self, words: str) -> None:
        is_empty = self.model.rowCount() == 0
        self.empty.setText(words)
        self.empty.setVisible(is_empty)
        self.list.setVisible(not is_empty)

    def _mark_current(self) -> None:
        self.list.setCurrentIndex(self.model.index_of(self._current))

    def _on_clicked(self, index: QModelIndex) -> None:
        """Once for every click, unlike what activates a row, which differs between desktops."""
        row = self.model.row(index)
        if isinstance(row, HeaderRow) and row.folder:
            self._toggle(row.folder)
        else:
            self._on_chosen(index)

    def _on_chosen(self, index: QModelIndex) -> None:
        row = self.model.row(index)
        if isinstance(row, ChatRow):
            if row.message and (words := found_words(self.search.text(), row.excerpt)):
                self.hit_opened.emit(row.record.id, words, row.message)
            self.opened.emit(row.record.id)

    def _on_search_edited(self, words: str) -> None:
        self._opens_found, self._awaits_found = False, bool(words.strip())
        if words.strip():
            self._pause.start()
        else:
            self._pause.stop()
            self._refresh()
            self._mark_current()

    def _on_search_paused(self) -> None:
        self.search_requested.emit(self.search.text())

    def _on_search_accepted(self) -> None:
        """Open the first that was found; what is not found yet is waited for."""
        self._opens_found = self._awaits_found
        if self._pause.isActive():
            self._pause.stop()
            self._on_search_paused()
        elif self.search.text().strip() and not self._awaits_found:
            self._on_chosen(self.model.first)

    def _on_menu_requested(self, place: QPoint) -> None:
        row = self.model.row(self.list.indexAt(place))
        if isinstance(row, ChatRow):
            self.menu_of(row).popup(self.list.viewport().mapToGlobal(place))
        elif isinstance(row, HeaderRow) and row.folder:
            self.menu_of_folder(row).popup(self.list.viewport().mapToGlobal(place))

    def _toggle(self, folder: str) -> None:
        """Close a folder, or open it; what the window shows stays marked, and the keyboard at the folder."""
        self._closed = self._closed ^ {folder}
        self._refresh()
        self.list.setCurrentIndex(self.model.index_of(self._current))
        header = self.model.index_of_folder(folder)
        self.list.selectionModel().setCurrentIndex(header, QItemSelectionModel.SelectionFlag.NoUpdate)
        self._tell_closed()

    def _tell_closed(self) -> None:
        self.folders_closed.emit(tuple(sorted(self._closed.intersection(self._folders()))))

    def _press(self, header: HeaderRow, key: int) -> bool:
        """Keys of a tree, at a folder; returns whether it was one of them."""
        close, open_ = (Qt.Key.Key_Left, Qt.Key.Key_Right)[:: -1 if self.isRightToLeft() else 1]
        toggles = key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space, open_ if header.is_closed else close)
        if header.folder and toggles:
            self._toggle(header.folder)
        return bool(header.folder) and toggles

    def _open_folder_of(self, conversation: int) -> None:
        folder = next((each.folder for each in self._records if each.id == conversation), "")
        if folder in self._closed:
            self._toggle(folder)

    def _on_rename_folder(self, folder: str) -> None:
        name, accepted = QInputDialog.getText(self, tr("Rename folder"), tr("Name of the folder"), text=folder)
        name = " ".join(name.split())
        if accepted and name and name != folder:
            if folder in self._closed:
                self._closed |= {name}
            self.folder_renamed.emit(folder, name)
            self._tell_closed()

    def _on_new_folder(self, conversation: int) -> None:
        name, accepted = QInputDialog.getText(self, tr("New folder"), tr("Name of the folder"))
        if accepted and name.strip():
            self.moved.emit(conversation, name)


def _found_of(records: Sequence[ConversationRecord]) -> dict[int, tuple[str, str, str, bool]]:
    """What a search shows of each, as it is kept: to make thousands of titles fit to be shown takes too long."""
    return {each.id: (each.title, each.auto_title, each.folder, each.is_pinned) for each in records}


def _add(menu: QMenu, text: str, shortcut: str, action: object) -> QAction:
    """The shortcut is shown only: the list itself answers to it, and only while it has the focus."""
    keys = QKeySequence(shortcut).toString(QKeySequence.SequenceFormat.NativeText)
    added = menu.addAction(f"{text}\t{keys}" if shortcut else text)
    added.triggered.connect(action)
    return added
