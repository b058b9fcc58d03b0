"""Marks words that people will see where they are written down long before they are shown; needs no window."""


def mark(text: str) -> str:
    """The text itself; `packaging/translations.py` collects it, and whoever shows it puts it through `tr`."""
    return text
