"""Times as people read them."""


def time_text(seconds: float) -> str:
    """Such as `1 min 15 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
