"""What is looked for, and where it stands in a line."""

import re
import unicodedata
from dataclasses import dataclass
from html import unescape

_MARKUP = str.maketrans("", "", "*_~`\\")  # may stand within a word that is read without it
_AIM = re.compile(r"\]\((?:[^()]|\([^()]*\))*\)|\]\[[^\]]*\]")  # where a link leads to
_WORD = re.compile(r"[^\W_]+")
_NO_BREAK_SPACE = "\u00a0"


class _Bases(dict[int, str]):
    """Letters without their accents, one for one: places in a line stay where they are."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        apart = unicodedata.normalize("NFD", letter)
        self[code] = plain = apart[0] if all(map(unicodedata.combining, apart[1:])) else letter
        return plain


_BASES = _Bases({ord(_NO_BREAK_SPACE): " "})
_SPACES = {ord(_NO_BREAK_SPACE): " "}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Some words, and how exactly they are meant. Without `matches_case` accents do not count either."""

    words: str = ""
    matches_case: bool = False
    is_whole: bool = False


class Needle:
    """Finds what is wanted in lines; of nothing there is nothing to be found."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        pattern = re.escape(self._read(wanted.words))
        if wanted.is_whole:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        self._pattern = re.compile(pattern, re.NOFLAG if wanted.matches_case else re.IGNORECASE)
        self._words = [each.casefold() for each in _WORD.findall(self._read(wanted.words))]

    def spans(self, line: str) -> list[tuple[int, int]]:
        """From which letter to before which it stands in a line."""
        if not self.wanted.words:
            return []
        return [found.span() for found in self._pattern.finditer(self._read(line))]

    def count(self, line: str) -> int:
        """How often it stands in a line."""
        return len(self.spans(line))

    def may_be_in(self, markdown: str) -> bool:
        """Whether what is seen of a text can have it; quick, since most messages of a long chat have not.

        A word may begin before a link, and have letters that are written as entities.
        """
        plain = self._folded(markdown)
        missing = [each for each in self._words if each not in plain]
        if missing and ("[" in markdown or "&" in markdown):
            seen = self._folded(_AIM.sub("", unescape(markdown)).replace("[", "").replace("]", ""))
            missing = [each for each in missing if each not in seen]
        return not missing

    def _folded(self, markdown: str) -> str:
        return self._read(markdown).translate(_MARKUP).casefold()

    def _read(self, text: str) -> str:
        if text.isascii():
            return text
        return text.translate(_SPACES if self.wanted.matches_case else _BASES)
