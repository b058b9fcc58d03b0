"""Numbers as the language that is shown writes them; `app.i18n.translation.install` makes it Qt's default locale."""

from PySide6.QtCore import QLocale

from app.i18n import units
from app.i18n.translation import tr


class Number:
    """A number in an f-string or a translated sentence: `f"{Number(1024.5):,}"` is `1,024.5`, in German `1.024,5`."""

    def __init__(self, value: float) -> None:
        self._value = value

    def __format__(self, form: str) -> str:
        return localised(format(self._value, form))


def localised(number: str) -> str:
    """A number as English and Python write it, such as `1,024.5 GB` or `28 bytes`, as the language writes it."""
    if (count := number.removesuffix(" bytes")) != number and count.isdecimal():
        return tr("%n bytes", n=int(count))
    locale = QLocale()
    return number.translate({ord(","): locale.groupSeparator(), ord("."): locale.decimalPoint()})


def share_text(share: float) -> str:
    """A part of 1, such as `84%`, in German `84 %`."""
    return tr("{percent:.0f}%").format(percent=Number(share * 100))


def short_time(seconds: float) -> str:
    """The time of one pass or the like, such as `1.5 s`, `40 ms` or `2.5 ms`."""
    if seconds >= 1:
        return f"{Number(seconds):.1f} s"
    return f"{Number(seconds * 1000):.0f} ms" if seconds >= 0.01 else f"{Number(seconds * 1000):.1f} ms"


def size_text(count: float) -> str:
    """A number of bytes, such as `1.6 GB`, in German `1,6 GB`."""
    return localised(units.size_text(count))
