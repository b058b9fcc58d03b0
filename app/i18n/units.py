"""Times and sizes as people read them, in English and without Qt; `number_text` follows the person's language."""

from engine.protocol.sentences import Amount


def time_text(seconds: float) -> str:
    """Such as `1 min 15 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size_text(count: float) -> Amount:
    """A number of bytes as people read it, such as `1.6 GB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return Amount(f"{count / size:.1f} {unit}")
    return Amount(f"{count:.0f} bytes")
