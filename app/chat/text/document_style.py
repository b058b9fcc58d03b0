"""How the paragraphs, headings and code of an answer look."""

from PySide6.QtGui import QTextBlock, QTextBlockFormat, QTextCharFormat, QTextCursor

from app.ui.theme import Colors, monospace_family

_LINE_HEIGHT_PERCENT = 125


def squash(cursor: QTextCursor) -> None:
    """A document keeps an empty paragraph around every frame: make it so low that nobody sees it."""
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
        a {{ color: {colors.link}; }}
    """


def is_code(block: QTextBlock) -> list[tuple[int, int]]:
    """The stretches of a paragraph that are code: where they begin, and how long they are."""
    mono = monospace_family()
    return [(each.start, each.length) for each in block.textFormats() if mono in (each.format.fontFamilies() or [])]
