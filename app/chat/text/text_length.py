"""How much text can be laid out at once before a person would notice; what is longer is shown, or kept, otherwise."""

_SHOWN, _SHOWN_LINES = 8_000, 80
_WRITTEN, _WRITTEN_LINE, _WRITTEN_LINES = 200_000, 20_000, 4_000
_ODD = 8  # usual letters that one of another alphabet counts for, which can need a layout of its own


def is_long(text: str) -> bool:
    """Whether it is too much for one document that is laid out at once."""
    return text.count("\n") > _SHOWN_LINES or _letters(text) > _SHOWN


def is_writable(text: str, lines_before: int = 0) -> bool:
    """Whether somebody could write on in it: a field lays out a whole line again with every letter."""
    if len(text) > _WRITTEN or lines_before + text.count("\n") > _WRITTEN_LINES:
        return False
    return _letters(text) <= _WRITTEN_LINE or all(_letters(line) <= _WRITTEN_LINE for line in text.split("\n"))


def _letters(text: str) -> int:
    if text.isascii():
        return len(text)
    usual = len(text.encode("latin-1", "ignore"))
    return usual + _ODD * (len(text) - usual)
