"""The line above a code block: its language, and the way to copy it by mouse or key."""

from html import escape

from PySide6.QtCore import QUrl
from PySide6.QtGui import QTextFormat

from app.theme import Colors

# Properties of a block's frame.
CODE = QTextFormat.Property.UserProperty.value + 20  # that it holds code
JOINT = CODE + 1  # it goes on where the frame before it was cut: what stands between the two

_SCHEME = "coppice-copy"


def header_html(language: str, number: int, colors: Colors) -> str:
    """The line for a document; the link, which names the block, is reached with Tab like any other."""
    words = f"{escape(language)}&nbsp;&nbsp;·&nbsp;&nbsp;" if language else ""
    style = f"color: {colors.muted}; text-decoration: none; font-size: small"
    return (
        f'<p align="right" style="{style}; line-height: 100%; margin-bottom: 4px">'
        f'<span style="{style}">{words}</span>'
        f'<a href="{_SCHEME}:{number}" style="{style}">Copy</a></p>'
    )


def code_number(url: QUrl) -> int | None:
    """The number of the block whose code a link copies; None if it does something else."""
    number = url.path()
    return int(number) if url.scheme() == _SCHEME and number.isascii() and number.isdigit() else None


def is_header_link(address: str) -> bool:
    """Whether an address is that of the link in such a line."""
    return address.startswith(f"{_SCHEME}:")
