"""Texts from elsewhere, shown among ours: as plain text that cannot steer what stands around it."""

import unicodedata
from html import escape

# They begin, end, turn and isolate stretches of another direction: what is left open reaches beyond its own text.
_STEERING = {
    "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO",
    "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI",
}  # fmt: skip
# They take no room, so that what is read is not what is there. Joiners are not among them: letters and emoji need them.
_UNSEEN = {"\u200b": "ZWSP", "\u2060": "WJ", "\ufeff": "BOM", "\u00ad": "SHY"}
_REMOVED = str.maketrans(dict.fromkeys(_STEERING, ""))
_MARKED = str.maketrans({sign: f"⟨{name}⟩" for sign, name in (_STEERING | _UNSEEN).items()})


def unsteered(text: str) -> str:
    """A name or a sentence without what would turn the text around it; it reads as before."""
    return text.translate(_REMOVED)


def runs_leftwards(text: str) -> bool:
    """Whether the first letter that has a direction is read from right to left."""
    directions = (unicodedata.bidirectional(letter) for letter in text)
    return next((each for each in directions if each in ("L", "R", "AL")), "L") != "L"


def marked(code: str) -> str:
    """Code in which everything can be seen that would make it look like other code."""
    return code.translate(_MARKED)


def tip(text: str) -> str:
    """A tool tip that says just this: as it is, and wrapped, whatever marks it has in it."""
    return f"<qt>{escape(unsteered(text))}</qt>".replace("\n", "<br>") if text else ""


def can_be_seen(text: str) -> bool:
    """Whether there is anything to be seen of it."""
    return any(unicodedata.category(letter)[0] not in "CZ" and letter != "\u3164" for letter in text)
