"""Numbers as people read them."""

import math
from collections.abc import Sequence

from app.i18n.number_text import Number

_UNITS = ("B", "kB", "MB", "GB", "TB")


def count(number: float) -> str:
    """A number with at most one decimal, none where it is large or whole."""
    form = ",.0f" if number >= 100 or number == int(number) else ".1f"
    return format(Number(number), form)


def milliseconds(seconds: float) -> str:
    """Such as `3.4 ms` or `1.20 s`."""
    if seconds >= 1:
        return f"{Number(seconds):.2f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.1 else f"{Number(seconds * 1000):.1f} ms"


def size(nbytes: float) -> str:
    """In powers of 1000, three digits: `1.46 GB`."""
    unit = 0
    while nbytes >= 999.5 and unit < len(_UNITS) - 1:
        nbytes /= 1000
        unit += 1
    decimals = 0 if unit == 0 or nbytes >= 100 else 1 if nbytes >= 10 else 2
    return f"{Number(nbytes):.{decimals}f} {_UNITS[unit]}"


def rate(bytes_per_second: float) -> str:
    """Such as `12.3 GB/s`."""
    return f"{size(bytes_per_second)}/s"


def percent(share: float) -> str:
    """Of 1."""
    return f"{share * 100:.0f} %"


def clock(seconds: float) -> str:
    """Such as `0:07` or `1:02:33`; parts of a second below ten, such as `3.4 s`."""
    seconds = round(seconds, 2)
    if seconds < 10 and seconds != int(seconds):
        return f"{Number(seconds):.3g} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def clocks(times: Sequence[float], step: float) -> list[str]:
    """Times that are `step` seconds apart, all in one form: `0:07`, or `0.5 s` where the steps are parts of a second.

    From a minute on parts of a second stand behind the minutes, as in `1:07.5`.
    """
    if step >= 1:
        return [clock(round(each)) for each in times]
    decimals = max(1, math.ceil(-math.log10(step) - 1e-9))
    if all(each < 60 for each in times):
        return [f"{Number(each):.{decimals}f} s" for each in times]
    return [_with_parts(round(each, decimals), decimals) for each in times]


def _with_parts(seconds: float, decimals: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}:{Number(rest):0{decimals + 3}.{decimals}f}"
