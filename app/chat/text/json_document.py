"""Finds a JSON document that a growing text begins with, by its first name or text, and where it ends."""

import re

_MOST_NAME = 1_000  # characters in which a document shows itself
_BEGIN = re.compile(r'\s*(?=[\[{])(?:\[\s*)*(?:\{\s*)?(?:"(?:[^"\\]|\\.?)*(?:"\s*([:,\]])?)?)?', re.DOTALL)
_MARK = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)


def begins_json(text: str) -> bool | None:
    """Whether a JSON object, or a list of objects or texts, begins the text; None while that is not to be told yet."""
    found = _BEGIN.match(text)
    if found is None:
        return False if text.strip() else None
    if found[1]:
        return True
    return None if found.end() == len(text) < _MOST_NAME else False


class JsonEnd:
    """Looks for the bracket that closes the first one of a document that comes in pieces of any size."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_in_text = False
        self._is_escaped = False  # the next character

    def feed(self, text: str) -> int | None:
        """Where in this piece the document has ended; None if it goes on."""
        begin = int(self._is_escaped)
        self._is_escaped &= not text
        for mark in _MARK.finditer(text, begin):
            if mark[0] == '"':
                self._is_in_text = not self._is_in_text
            elif mark[0][0] == "\\":
                self._is_escaped = len(mark[0]) == 1
            elif not self._is_in_text:
                self._depth += 1 if mark[0] in "{[" else -1
                if not self._depth:
                    return mark.end()
        return None
