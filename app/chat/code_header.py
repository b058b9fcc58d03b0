"""The line above a code block: its language, and the way to copy it by mouse or key."""

from html import escape

from PySide6.QtCore import QUrl
from PySide6.QtGui import QTextFormat

from app.theme import Colors

# Properties of a code block's frame.
CODE = QTextFormat.Property.UserProperty.value + 20  # its text
NUMBER = CODE + 1  # which code block of the document it is, from 1
GOES_ON = CODE + 2  # it is a further piece of the one before

_SCHEME = "coppice-copy"


def header_html(language: str, number: int, colors: Colors) -> str:
    """The line for a document; the link is reached with Tab like any other."""
    words = f"{escape(language)}&nbsp;&nbsp;·&nbsp;&nbsp;" if language else ""
    style = f"color: {colors.muted}; text-decoration: none; font-size: small"
    return (
        f'<p align="right" style="{style}; line-height: 100%; margin-bottom: 4px">'
        f'<span style="{style}">{words}</span>'
        f'<a href="{_SCHEME}:{number}" style="{style}">Copy</a></p>'
    )


def code_number(url: QUrl) -> int:
    """Which code block a link copies; 0 if it does something else."""
    number = url.path()
    return int(number) if url.scheme() == _SCHEME and number.isascii() and number.isdigit() else 0


def is_header_link(address: str) -> bool:
    """Whether an address is that of the link in such a line."""
    return address.startswith(f"{_SCHEME}:")
