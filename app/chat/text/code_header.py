"""The line above a code block: its language, and the way to copy it by mouse or key."""

from html import escape

from PySide6.QtGui import QTextBlock, QTextCursor, QTextFormat

from app.ui.theme import Colors

# Properties of a block's frame.
CODE = QTextFormat.Property.UserProperty.value + 20  # that it holds code
JOINT = CODE + 1  # it goes on where the frame before it was cut: what stands between the two
# Property of the characters of the link in such a line: the number of the block that it copies. Only this makes a link
# one that copies: nothing that Markdown can write has it.
_COPIES = CODE + 2

_ADDRESS = "#copy"  # makes the characters a link, which Tab reaches; means nothing


def header_html(language: str, colors: Colors) -> str:
    """The line for a document; `mark_header` makes its link one that copies."""
    words = f"{escape(language)}&nbsp;&nbsp;·&nbsp;&nbsp;" if language else ""
    style = f"color: {colors.muted}; text-decoration: none; font-size: small"
    return (
        f'<p align="right" style="{style}; line-height: 100%; margin-bottom: 4px">'
        f'<span style="{style}">{words}</span>'
        f'<a href="{_ADDRESS}" style="{style}">Copy</a></p>'
    )


def mark_header(line: QTextBlock, number: int) -> None:
    """Let the link in the line that was just written copy the code of the block with this number."""
    pieces = line.begin()
    while not pieces.atEnd():
        fragment = pieces.fragment()
        layout = fragment.charFormat()
        if layout.anchorHref() == _ADDRESS:
            layout.setProperty(_COPIES, number)
            cursor = QTextCursor(line)
            cursor.setPosition(fragment.position())
            cursor.setPosition(fragment.position() + fragment.length(), QTextCursor.MoveMode.KeepAnchor)
            cursor.setCharFormat(layout)
            return
        pieces += 1


def copied_block(layout: QTextFormat) -> int | None:
    """The number of the block whose code a link with this format copies; None if it does something else."""
    return int(layout.property(_COPIES)) if layout.hasProperty(_COPIES) else None
