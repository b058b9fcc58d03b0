"""Where a link leads, in words that cannot pretend to be another place; opens it in the person's browser.

It is asked first where the text of a link says something else than its address.
"""

import re

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QMessageBox, QWidget

from app.i18n.translation import tr
from app.system.plain_text import marked

SCHEMES = ("http", "https")
_LONGEST = 300
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
# What could be a host by itself; names of files are the ones below.
_HOST = re.compile(r"(?:[\w-]+\.)+[^\W\d_]{2,}(?:[:/?#]\S*)?")
_FILES = frozenset(
    ("c", "cc", "cpp", "cs", "go", "h", "html", "ini", "java", "js", "json", "log", "md", "pdf", "pl", "py", "rb", "rs",
     "sh", "sql", "toml", "ts", "txt", "xml", "yml")
)  # fmt: skip

_LONGEST_TEXT = 200


def may_open(url: QUrl) -> bool:
    """Whether it is a web address; nothing else is ever opened from a text."""
    return url.isValid() and url.scheme().lower() in SCHEMES and bool(url.host())


def shown_address(url: QUrl) -> str:
    """The whole address in ASCII, so that no letter, direction or space in it looks like another.

    A host that people read in other letters follows in those.
    """
    address = bytes(url.toEncoded().data()).decode("ascii", "replace")
    if len(address) > _LONGEST:
        address = f"{address[: _LONGEST - 60]}…{address[-60:]}"
    read = url.host(QUrl.ComponentFormattingOption.PrettyDecoded)
    return address if read.isascii() else f"{address} ({read})"


def is_misleading(text: str, url: QUrl) -> bool:
    """Whether the text of a link looks like another address than the one that it leads to.

    An address with a name before its host (`https://bank.example@other.example`) always does.
    """
    if url.userInfo():
        return True
    target = _host(url)
    return any(_is_elsewhere(_host(QUrl.fromUserInput(each)), target) for each in _addresses(text.strip()))


def _addresses(text: str) -> list[str]:
    """What looks like an address in the text."""
    found: list[str] = [each.rstrip(".,;:!?)") for each in _ADDRESS.findall(text)]
    if not found and _HOST.fullmatch(text):
        host = re.split(r"[:/?#]", text)[0]
        if host.rpartition(".")[2].casefold() not in _FILES or host != text:
            found.append(f"http://{text}")
    return found


def _host(url: QUrl) -> str:
    return url.host(QUrl.ComponentFormattingOption.FullyEncoded).casefold().removeprefix("www.").rstrip(".")


def _is_elsewhere(shown: str, target: str) -> bool:
    """A part of what is shown, such as `docs.example.org` for `example.org`, is no other place."""
    return shown != target and not target.endswith(f".{shown}")


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
