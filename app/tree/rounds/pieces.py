"""The text of one token, made visible: spaces, line ends and control characters too."""

import unicodedata

_VISIBLE = {" ": "·", "\n": "⏎", "\t": "\\t", "\r": "\\r"}
_HIDDEN = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}  # control and formatting characters, separators, nothing at all
_LONGEST = 200


def visible(piece: str, token: int) -> str:
    """`piece` on one line with nothing invisible in it; a token without any text shows as its number."""
    if not piece:
        return f"‹{token}›"
    text = "".join(_character(character) for character in piece[:_LONGEST])
    if unicodedata.category(text[0]).startswith("M"):
        text = "◌" + text  # a combining mark needs something to stand on
    return text if len(piece) <= _LONGEST else text + "…"


def _character(character: str) -> str:
    if character in _VISIBLE:
        return _VISIBLE[character]
    if character == "\ufffd":
        return character
    category = unicodedata.category(character)
    if category == "Zs":
        return "·"
    if category not in _HIDDEN:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
