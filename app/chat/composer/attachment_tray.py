"""The files attached to the question that is being written, as chips with their length in tokens."""

from collections.abc import Iterable
from itertools import count
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QWidget

from app.chat.composer.attachment_reader import AttachmentReader
from app.chat.history.message import Attachment, pictures_of
from app.chat.pictures.thumbnail import Thumbnail
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.system.plain_text import tip, unsteered
from app.ui.flow_layout import FlowLayout
from app.ui.widgets import announce

MOST_FILES = 20
_LONGEST_NAME = 36
_IN_ROW, _ALONE, _AMONG_FEW, _AMONG_MANY = QSize(72, 44), QSize(320, 240), QSize(200, 150), QSize(120, 90)
"""How wide and high a picture may be: while it waits to be sent, and then in a question with so many of them."""
_FEW = 4


class AttachmentTray(QWidget):
    """Reads files and keeps them until they are sent or taken away; takes no room while there is none."""

    changed = Signal()
    refused = Signal(str)  # which file, and why
    passed_on = Signal(object)  # the path of a model or a recording: it is not for the question

    def __init__(self, parent: QWidget | None = None, can_change: bool = True) -> None:
        """`can_change`: they are not sent yet."""
        super().__init__(parent)
        self._can_change = can_change
        self.setAccessibleName(tr("Attachments"))
        self._no_pictures = ""
        self._most = _IN_ROW
        self._row = FlowLayout(self, gap=6, line_gap=6)
        self._chips: list[AttachmentChip] = []
        self.reader = AttachmentReader(self)
        self.destroyed.connect(self.reader.close)
        self.reader.was_read.connect(self._on_read)
        self.reader.was_refused.connect(self._on_refused)
        self.reader.was_passed_on.connect(self._on_passed_on)
        self.hide()

    @property
    def chips(self) -> "tuple[AttachmentChip, ...]":
        """One for every file, in the order they were added."""
        return tuple(self._chips)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """What has been read."""
        return tuple(chip.attachment for chip in self._chips if chip.attachment)

    @property
    def text(self) -> str:
        """What is told of them, a line for each."""
        return "\n".join(chip.words.text() for chip in self._chips)

    @property
    def unread(self) -> tuple[str, ...]:
        """The paths of files that are still to come."""
        return tuple(str(chip.path) for chip in self._chips if chip.attachment is None and chip.is_file)

    @property
    def is_reading(self) -> bool:
        """Whether a file is still to come."""
        return any(chip.attachment is None for chip in self._chips)

    @property
    def hindrance(self) -> str:
        """Why what is attached cannot be sent, in a sentence; empty where it can."""
        return self._no_pictures if any(each.picture for each in self.attachments) else ""

    def set_no_pictures(self, why: str) -> None:
        """Know why what is loaded cannot be shown pictures; empty where it can."""
        if why != self._no_pictures:
            self._no_pictures = why
            self._on_changed()

    def fit_pictures(self, width: int) -> None:
        """Have no picture be wider than this."""
        for chip in self._chips:
            if chip.thumbnail is not None:
                chip.thumbnail.fit(width)

    def add_files(self, paths: Iterable[Path]) -> None:
        """Read files, one after the other."""
        for path in paths:
            self.add_file(path)

    def add_file(self, path: Path) -> None:
        """Read a file beside what the window does; one that is there already is not read twice."""
        if any(chip.path == path for chip in self._chips):
            return
        if self._add(path) is not None:
            self._on_changed()
            self.reader.read(path)

    def add_text(self, text: str) -> None:
        """Attach a text that was pasted: it is too long to be written in."""
        chip = self._add(Path(self._free_name(tr("Pasted text {number}"))))
        if chip is not None:
            chip.show_attachment(Attachment(chip.path.name, text))
            self._on_changed()

    def add_picture(self, picture: bytes | QImage) -> None:
        """Attach a picture that was pasted."""
        chip = self._add(Path(self._free_name(tr("Pasted picture {number}"))))
        if chip is not None:
            chip.is_file = False
            self._on_changed()
            self.reader.read_picture(chip.path, picture)

    def show_attachments(self, attachments: Iterable[Attachment]) -> None:
        """Hold these, which were read before, and no others."""
        for chip in self.chips:
            self._forget(chip)
        files = tuple(attachments)
        if not self._can_change:
            count = len(pictures_of(files))
            self._most = _ALONE if count == 1 else _AMONG_FEW if count <= _FEW else _AMONG_MANY
        for each in files:
            self._make(Path(each.name)).show_attachment(each)
        self._on_changed()

    def take_all(self) -> tuple[Attachment, ...]:
        """Give away what has been read, and be empty."""
        taken = self.attachments
        for chip in self.chips:
            self._forget(chip)
        self._on_changed()
        return taken

    def show_costs(self, tokens: tuple[int, ...]) -> None:
        """Show how many tokens each of `attachments` has; counts of others than these are passed over."""
        read = [chip for chip in self._chips if chip.attachment]
        if len(read) == len(tokens):
            for chip, tokens_of_one in zip(read, tokens, strict=True):
                chip.show_tokens(tokens_of_one)

    def _free_name(self, name: str) -> str:
        """A name that no chip has; `name` with a number."""
        names = (name.format(number=number) for number in count(1))
        return next(each for each in names if all(chip.path.name != each for chip in self._chips))

    def _add(self, path: Path) -> "AttachmentChip | None":
        if len(self._chips) >= MOST_FILES:
            words = tr("{name} was not attached: {count} files are the most for one question.")
            self.refused.emit(words.format(name=path.name, count=MOST_FILES))
            return None
        return self._make(path)

    def _make(self, path: Path) -> "AttachmentChip":
        chip = AttachmentChip(path, self._most, self)
        chip.removed.connect(lambda: self._remove(chip))
        self._chips.append(chip)
        self._row.addWidget(chip)
        return chip

    def _remove(self, chip: "AttachmentChip") -> None:
        self._forget(chip)
        self._on_changed()

    def _forget(self, chip: "AttachmentChip") -> None:
        self._chips.remove(chip)
        self._row.removeWidget(chip)
        chip.hide()
        chip.deleteLater()

    def _on_read(self, path: Path, attachment: Attachment) -> None:
        for chip in self.chips:
            if chip.path == path:
                chip.show_attachment(attachment)
                self._on_changed()

    def _on_passed_on(self, path: Path, opened: Path) -> None:
        for chip in self.chips:
            if chip.path == path:
                self._remove(chip)
                self.passed_on.emit(opened)

    def _on_refused(self, path: Path, reason: str) -> None:
        for chip in self.chips:
            if chip.path == path and chip.attachment is None:
                self._remove(chip)
                self._refuse(path.name, reason)

    def _refuse(self, name: str, reason: str) -> None:
        self.refused.emit(tr("{name} was not attached. {reason}").format(name=name, reason=reason))

    def _on_changed(self) -> None:
        pictures = [chip for chip in self._chips if chip.thumbnail]
        for chip in pictures if self._can_change else ():
            chip.show_words(len(pictures) <= _FEW)
        self.setVisible(bool(self._chips))
        self.changed.emit()


class Hindrance(QLabel):
    """Says below a tray why what is attached cannot be sent, and what to do; takes no room while it can."""

    def __init__(self, tray: AttachmentTray, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("figure")
        self.setProperty("tone", "near")
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self._tray = tray
        tray.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        why = self._tray.hindrance
        words = f"{why} {tr('Choose a model that reads pictures in Models (Ctrl+M), or remove the picture.')}"
        is_new = bool(why) and self.isHidden()
        self.setText(unsteered(words) if why else "")
        self.setVisible(bool(why))
        if is_new:
            announce(self, words)


class AttachmentChip(QFrame):
    """One file: its name and its length, a click shows its text; and a button that removes it.

    A picture is seen; one that was sent, without words beside it.
    """

    removed = Signal()

    def __init__(self, path: Path, most: QSize = _IN_ROW, parent: QWidget | None = None) -> None:
        """`most`: how wide and high a picture may be."""
        super().__init__(parent)
        self.setObjectName("chip")
        self._most = most
        self.thumbnail: Thumbnail | None = None
        self.path = path
        self.attachment: Attachment | None = None
        self.is_file = True  # and not what was pasted
        self.words = QToolButton(self)
        self.words.setObjectName("quiet-words")
        self.words.clicked.connect(self._show_text)
        self.remove = QToolButton(self)
        self.remove.setText("×")
        self.remove.setObjectName("dismiss")
        self.remove.setToolTip(tr("Do not attach this file"))
        self.remove.setAccessibleName(tr("Remove {name}").format(name=path.name))
        self.remove.clicked.connect(self.removed)
        self.remove.setVisible(most == _IN_ROW)
        self._row = row = QHBoxLayout(self)
        row.setContentsMargins(4, 2, 4, 2)
        row.setSpacing(4)
        row.addWidget(self.words)
        row.addWidget(self.remove)
        self._show(tr("reading…"))

    @property
    def parts(self) -> tuple[QWidget, ...]:
        """What the keyboard may come to, in its order."""
        return (*filter(None, (self.thumbnail,)), self.words, self.remove)

    def show_attachment(self, attachment: Attachment) -> None:
        """The file was read."""
        self.attachment = attachment
        if attachment.picture:
            self._show_picture(attachment)
        else:
            self._show(tr("{count:,} characters").format(count=Number(len(attachment.text))))

    def show_tokens(self, tokens: int) -> None:
        """The engine has counted it; 0 where there was none to count."""
        if tokens:
            self._show(tr("{count:,} tokens").format(count=Number(tokens)))

    def show_words(self, shows: bool) -> None:
        """Have words beside a picture, or where there are many pictures, none: then they are its tooltip."""
        self.words.setVisible(shows)
        if self.thumbnail is not None:  # words do the same when they are clicked
            self.thumbnail.setFocusPolicy(Qt.FocusPolicy.NoFocus if shows else Qt.FocusPolicy.TabFocus)

    def _show_picture(self, attachment: Attachment) -> None:
        self.thumbnail = Thumbnail(attachment.name, attachment.picture, self._most, self)
        self._row.insertWidget(0, self.thumbnail)
        self._show(self.thumbnail.size_words)
        if self._most != _IN_ROW:
            self.show_words(False)
            self.setObjectName("")
            self._row.setContentsMargins(0, 0, 0, 0)

    def _show_text(self) -> None:
        if self.thumbnail is not None:
            self.thumbnail.open_large()
        elif self.attachment is not None:
            from app.ui.text_dialog import TextDialog  # noqa: PLC0415

            TextDialog(self.attachment.name, self.attachment.text, self.window()).open()

    def _show(self, size: str) -> None:
        note = self.attachment.note if self.attachment else ""
        part = f" · {tr('in part')}" if note else ""
        self.words.setText(f"{shortened(self.path.name)} · {size}{part}".replace("&", "&&"))
        way = tr("Click to see its text.") if self.attachment and not self.thumbnail else ""
        way = tr("Click to see it large.") if self.thumbnail else way
        self.setToolTip(tip("\n".join(filter(None, (f"{self.path}: {note}" if note else str(self.path), way)))))
        self.setAccessibleName(
            tr("Attached: {name}, {size}").format(name=self.path.name, size=f"{size} {note}".rstrip())
        )


def shortened(name: str) -> str:
    """A name that shows what it is, with its middle left out where it is too long for a chip."""
    name = unsteered(name)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME // 2]}…{name[-_LONGEST_NAME // 2 + 1 :]}"
