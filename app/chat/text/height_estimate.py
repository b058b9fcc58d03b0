"""How much room a text will take on the screen, guessed before it is laid out."""

from app.chat.text.manuscript import Section

_LETTER_PIXELS, _LINE_PIXELS, _GAP_PIXELS = 8, 24, 12


def estimated_height(section: Section, width: int, zoom: int) -> int:
    """The height of a section in pixels, in this width and with letters of so many percent of their size."""
    letters = max(10, width * 100 // (_LETTER_PIXELS * zoom))
    pixels = 0
    for block in (*section.closed, *section.open):
        lines = block.source.count("\n") + len(block.source) // letters + 1
        pixels += lines * _LINE_PIXELS * zoom // 100 + (0 if block.continues else _GAP_PIXELS)
    return pixels
