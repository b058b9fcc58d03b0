"""How the text of messages looks: what a person chose, the style of a document, and the line above code."""

from dataclasses import dataclass
from html import escape

from PySide6.QtGui import QTextBlock, QTextBlockFormat, QTextCharFormat, QTextCursor, QTextFormat

from app.i18n.translation import tr
from app.settings.preferences import TINT_OFF
from app.ui.theme import Colors, monospace_family

SMALLEST, LARGEST, STEP = 60, 240, 10

_LINE_HEIGHT_PERCENT = 125

# Properties of a block's frame.
CODE = QTextFormat.Property.UserProperty.value + 20  # that it holds code
JOINT = CODE + 1  # it goes on where the frame before it was cut: what stands between the two
# Property of the characters of the link in such a line: the number of the block that it copies. Only this makes a link
# one that copies: nothing that Markdown can write has it.
_COPIES = CODE + 2
_ADDRESS = "#copy"  # makes the characters a link, which Tab reaches; means nothing


@dataclass(frozen=True, slots=True)
class Look:
    """Colours, size in percent, whether text comes evenly, and what the ground of its tokens shows.

    `points` is the size of letters at 100 percent, which Preferences can change.
    """

    colors: Colors
    zoom: int = 100
    smooth: bool = True
    tint: str = TINT_OFF
    points: float = 0.0

    @property
    def writing(self) -> tuple[Colors, int, float]:
        """What a text has to be written anew for when it changes."""
        return self.colors, self.zoom, self.points


def squash(cursor: QTextCursor) -> None:
    """Give the empty paragraph that a document keeps around every frame a height of 0."""
    low, tiny = QTextBlockFormat(), QTextCharFormat()
    low.setLineHeight(0, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
    tiny.setFontPointSize(1)
    cursor.setBlockFormat(low)
    cursor.setBlockCharFormat(tiny)


def is_squashed(block: QTextBlock) -> bool:
    """Whether a paragraph is one of those."""
    return block.blockFormat().lineHeightType() == QTextBlockFormat.LineHeightTypes.FixedHeight.value


def style_sheet(colors: Colors) -> str:
    """The style sheet of a text document in the colours of a theme."""
    mono = monospace_family()
    return f"""
        p, li {{ line-height: {_LINE_HEIGHT_PERCENT}%; }}
        p, ul, ol, pre, blockquote, table {{ margin-top: 0; margin-bottom: 0; }}
        h1, h2, h3, h4, h5, h6 {{ margin-top: 0; margin-bottom: 0; font-weight: 600; }}
        h1 {{ font-size: x-large; }}
        h2 {{ font-size: large; }}
        h3, h4, h5, h6 {{ font-size: medium; }}
        code, pre {{ font-family: '{mono}', monospace; }}
        pre {{ white-space: pre-wrap; }}
        code {{ background-color: {colors.code}; }}
        blockquote {{ color: {colors.muted}; margin-left: 16px; }}
        hr {{ background-color: {colors.border}; }}
        a {{ color: {colors.link}; }}
    """


def code_stretches(block: QTextBlock) -> list[tuple[int, int]]:
    """The stretches of a paragraph that are code: where they begin, and how long they are."""
    mono = monospace_family()
    return [(each.start, each.length) for each in block.textFormats() if mono in (each.format.fontFamilies() or [])]


def header_html(language: str, colors: Colors) -> str:
    """The line for a document; `mark_header` makes its link one that copies."""
    words = f"{escape(language)}&nbsp;&nbsp;·&nbsp;&nbsp;" if language else ""
    style = f"color: {colors.muted}; text-decoration: none; font-size: small"
    return (
        f'<p align="right" style="{style}; line-height: 100%; margin-bottom: 4px">'
        f'<span style="{style}">{words}</span>'
        f'<a href="{_ADDRESS}" style="{style}">{escape(tr("Copy"))}</a></p>'
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
