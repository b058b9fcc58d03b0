"""Base64, also that of data: URLs (RFC 2397), decoded in steps: each holds the GIL only for a moment."""

import binascii
import re
from io import BytesIO

STEP = 1 << 20  # characters that are decoded in one go: a multiple of 4
_HEAD = re.compile(r"data:[^,]{0,255};base64,", re.IGNORECASE)


def base64_begin(url: str) -> int | None:
    """Where the base64 of a data: URL begins; None for any other. What type it claims to have is not looked at."""
    found = _HEAD.match(url)
    return found.end() if found else None


def decode_base64(text: str, begin: int = 0) -> bytes:
    """The bytes of standard base64, padded and without line breaks (RFC 4648, 4), from the character `begin` on.

    Raises `ValueError` for anything else, and for none. 40 MiB take a tenth of a second.
    """
    data, last = BytesIO(), begin  # hands its bytes out without a copy
    for last in range(begin, len(text), STEP):
        data.write(binascii.a2b_base64(text[last : last + STEP], strict_mode=True))
    is_padded_within = text.find("=", begin, last) >= 0  # each step alone may end with padding
    if not data.tell() or (len(text) - begin) % 4 or is_padded_within:
        raise ValueError("no base64")
    return data.getvalue()
