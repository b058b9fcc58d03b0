"""The last lines of a log without what is nobody's business: tokens, passwords, and anything said in a chat."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

_LAST_LINES = 40
_LOG_TAIL_BYTES = 64_000
_LONGEST_LINE = 400
_HIDDEN = "[hidden]"
_SHORT, _LONGEST_SHORT = 6, 60  # letters of a message that is compared as a whole
_WORDS_TO_KNOW = 3  # so many words in a row that also stand in a chat are taken for a quotation

_SECRETS = re.compile(
    r"(?i)\bhf_\w{6,}|\b(?:sk|ghp|gho|xox\w)[-_][\w-]{8,}|\bbearer\s+\S+|\beyJ[\w-]{10,}\.[\w.-]+"
    r"|(?<=://)[^/\s]*@|(?<=[?&])[^\s=&]*(?:token|signature|secret|key|password)[^\s=&]*=[^\s&]+"
    r"|\b(?:token|password|secret|api[_-]?key)\b['\"]?\s*[:=]\s*\S+"
)
_QUOTED = re.compile(r"“[^”]*”|\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)")
_NAME = re.compile(r"[\w.:/\\~@+-]*")  # a path, a model's id, a name of a field: what quotes are meant for


def log_excerpt(file: Path, chats: Path) -> list[str]:
    """The last lines of `file`; `chats` is the database of all conversations, which tells what was said in them."""
    lines = [hide_secrets(line)[:_LONGEST_LINE] for line in _tail(file)]
    quoted = _quoted_from_chats(lines, chats)
    return [_HIDDEN if line in quoted else line for line in lines] or ["empty"]


def _tail(file: Path) -> list[str]:
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - _LOG_TAIL_BYTES))
            return stream.read().decode("utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    except OSError as error:
        return [f"cannot be read: {error.strerror}"]


def hide_secrets(line: str) -> str:
    """A line of a log without tokens, passwords, signatures, and whatever it quotes that is more than a name."""
    line = _QUOTED.sub(lambda found: found[0] if _NAME.fullmatch(found[0][1:-1]) else f"“{_HIDDEN}”", line)
    return _SECRETS.sub(_HIDDEN, line)


def _quoted_from_chats(lines: Sequence[str], chats: Path) -> set[str]:
    """The lines that repeat anything said in a chat; every line, where that cannot be known."""
    if not chats.exists():
        return set()
    try:
        connection = sqlite3.connect(f"{chats.as_uri()}?mode=ro", uri=True)
        try:
            found = {line for line in lines if any(_is_said(connection, phrase) for phrase in _phrases(line))}
            return found | _repeating(lines, _short_and_growing(connection))
        finally:
            connection.close()
    except sqlite3.Error:
        return set(lines)


def _is_said(connection: sqlite3.Connection, phrase: str) -> bool:
    found = connection.execute("SELECT 1 FROM texts WHERE texts MATCH ? LIMIT 1", (f'"{phrase}"',))
    return found.fetchone() is not None


def _short_and_growing(connection: sqlite3.Connection) -> list[str]:
    """Messages too short to share a few words with, and answers that are not in the index as long as they grow."""
    wanted = "SELECT text FROM messages WHERE length(text) BETWEEN ? AND ? OR ending IN ('open', 'waiting')"
    return [text for (text,) in connection.execute(wanted, (_SHORT, _LONGEST_SHORT))]


def _repeating(lines: Sequence[str], said: Sequence[str]) -> set[str]:
    texts = [" ".join(_words(text)) for text in said]
    return {
        line
        for line in lines
        if any(text and text in " ".join(_words(line)) for text in texts)
        or any(phrase in text for phrase in _phrases(line) for text in texts if phrase)
    }


def _phrases(line: str) -> Iterator[str]:
    """Every few words in a row, but not the time of day."""
    words = _words(line)
    for start in range(max(1, len(words) - _WORDS_TO_KNOW + 1)):
        phrase = words[start : start + _WORDS_TO_KNOW]
        if not all(word.isdigit() for word in phrase):
            yield " ".join(phrase)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
