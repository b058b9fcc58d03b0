"""Opens links in the person's browser, and asks first where the text of one says something else than its address."""

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QMessageBox, QWidget

from app.chat.text.link_address import is_misleading, may_open, shown_address
from app.i18n.translation import tr
from app.system.plain_text import marked

_LONGEST_TEXT = 200


def open_link(url: QUrl) -> None:
    """Open a web address in the person's browser; every other kind of address is ignored."""
    if may_open(url):
        QDesktopServices.openUrl(url)


def follow_link(url: QUrl, text: str, parent: QWidget) -> None:
    """The same for a link with this visible text, which may look like another address: then it is asked first."""
    if not may_open(url):
        return
    if is_misleading(text, url):
        _ask(url, text, parent)
    else:
        open_link(url)


def _ask(url: QUrl, text: str, parent: QWidget) -> None:
    box = QMessageBox(parent.window())
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setIcon(QMessageBox.Icon.Warning)
    box.setWindowTitle(tr("Open a link"))
    box.setTextFormat(Qt.TextFormat.PlainText)
    words = tr("The text of this link looks like an address, but the link leads to another one.")
    shown = marked(" ".join(text.split()))[:_LONGEST_TEXT]
    box.setText(words)
    leads = tr("It leads to: {address}").format(address=shown_address(url))
    box.setInformativeText(tr("It reads: {text}").format(text=shown) + "\n" + leads)
    opens = box.addButton(tr("Open anyway"), QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    opens.clicked.connect(lambda: open_link(url))
    box.open()
