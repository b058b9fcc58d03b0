"""What a library or a template complained about, fit to stand in a sentence of ours."""

LONGEST = 200


def complaint_of(error: BaseException) -> str:
    """The error's own words as one printable line of moderate length without a full stop; its type if it has none."""
    words = " ".join(str(error).split()) or type(error).__name__
    return "".join(filter(str.isprintable, words))[:LONGEST].rstrip(". ")
