"""What helps after a failure: log excerpts without secrets, reports of crashes, and errors that prevent the start."""

import faulthandler
import platform
import re
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TextIO

from PySide6.QtWidgets import QApplication, QMessageBox

from app.i18n.sentences import translated
from app.i18n.translation import install, language_of, tr
from app.system.bundle import is_frozen
from app.system.paths import Folders
from app.system.plain_text import PLAIN_LABELS
from engine import __version__
from engine.errors import CoppiceError, InputError
from engine.protocol.sentences import reason_of, say

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


def without_home(text: str) -> str:
    """The text with `~` for the person's home folder, also as errors quote it on Windows, and as addresses have it."""
    home = str(Path.home())
    forms = (home, home.replace("\\", "\\\\"), home.replace("\\", "/"))
    return re.sub("|".join(map(re.escape, forms)), "~", text, flags=re.IGNORECASE if "\\" in home else 0)


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
            texts = _short_and_growing(connection)
            all_texts, phrases = "\n".join(texts), {line: set(_phrases(line)) for line in lines}
            every_phrase: set[str] = set().union(*phrases.values())  # lines of a log share most of theirs
            said = {each for each in every_phrase if each in all_texts or _is_said(connection, each)}
            return {line for line in lines if phrases[line] & said} | _repeating(lines, texts)
        finally:
            connection.close()
    except (sqlite3.Error, MemoryError):  # the second may be damage to the index
        return set(lines)


def _is_said(connection: sqlite3.Connection, phrase: str) -> bool:
    found = connection.execute("SELECT 1 FROM texts WHERE texts MATCH ? LIMIT 1", (f'"{phrase}"',))
    return found.fetchone() is not None


def _short_and_growing(connection: sqlite3.Connection) -> list[str]:
    """Words of messages too short to share a few with, and of answers, which are not in the index as they grow."""
    wanted = "SELECT text FROM messages WHERE length(text) BETWEEN ? AND ? OR ending IN ('open', 'waiting')"
    found = (" ".join(_words(text)) for (text,) in connection.execute(wanted, (_SHORT, _LONGEST_SHORT)))
    return list(filter(None, found))


def _repeating(lines: Sequence[str], texts: Sequence[str]) -> set[str]:
    """The lines that hold one of these texts as a whole; most texts are in none, which one look tells."""
    words = [" ".join(_words(line)) for line in lines]
    all_words = "\n".join(words)
    found = [text for text in texts if text in all_words]
    return {line for line, own in zip(lines, words, strict=True) if any(text in own for text in found)}


def _phrases(line: str) -> Iterator[str]:
    """Every few words in a row, but not the time of day."""
    words = _words(line)
    for start in range(max(1, len(words) - _WORDS_TO_KNOW + 1)):
        phrase = words[start : start + _WORDS_TO_KNOW]
        if not all(word.isdigit() for word in phrase):
            yield " ".join(phrase)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


_MOST_REPORTS = 5
_MOST_BYTES = 200_000
# Windows' dialogs for files raise errors of COM and catch them again, and `faulthandler` takes each for the end.
_HARMLESS = re.compile(r"Windows fatal exception: code 0x8")
_FAULT = re.compile(r"^(?:Fatal Python error|Windows fatal exception): .*", re.MULTILINE)


class CrashWatch:
    """Writes down where every thread was when the process dies of a fault; `begin` tells of the last time."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._fault = folders.logs / "fault.txt"
        self._file: TextIO | None = None

    def begin(self) -> Path | None:
        """Start watching; returns the report of a crash since the last time, if there was one. Raises `OSError`."""
        report = self._report()
        self._file = self._fault.open("w", encoding="utf-8")
        # On Windows the program may go on: walking the stacks of running threads then could end it (pyzo #937).
        faulthandler.enable(self._file, all_threads=sys.platform != "win32")
        return report

    def end(self) -> None:
        """Stop watching: what comes now is the orderly end."""
        if self._file is None:
            return
        faulthandler.disable()
        self._file.close()
        self._file = None
        self._fault.unlink(missing_ok=True)

    def _report(self) -> Path | None:
        """Write the report of what the last process left, if it left anything; the oldest reports go."""
        try:
            stack = self._fault.read_text(encoding="utf-8", errors="replace")[:_MOST_BYTES]
        except FileNotFoundError:
            return None
        faults = _FAULT.findall(stack)
        if not stack.strip() or (faults and all(map(_HARMLESS.match, faults))):
            return None
        path = _free(self._folders.logs, time.strftime("crash-%Y%m%d-%H%M%S"))
        path.write_text("\n".join(self._lines(stack)) + "\n", encoding="utf-8")
        for old in reports(self._folders)[:-_MOST_REPORTS]:
            old.unlink(missing_ok=True)
        return path

    def _lines(self, stack: str) -> Iterator[str]:
        yield f"Coppice {__version__} ended by a fault before {time.strftime('%Y-%m-%d %H:%M:%S')}"
        yield f"Python {platform.python_version()}, {platform.system()} {platform.release()}, {platform.machine()}"
        yield from ("", "## Where its threads were")
        yield from (hide_secrets(without_home(each)) for each in stack.splitlines())
        excerpt = log_excerpt(self._folders.application_log, self._folders.chats_file)
        yield from ("", "## The last lines of its log", *map(without_home, excerpt))


def reports(folders: Folders) -> list[Path]:
    """All that are kept, the oldest first."""
    return sorted(folders.logs.glob("crash-*.txt"))


def _free(folder: Path, name: str) -> Path:
    """A file of that name that is not there yet."""
    names = (f"{name}.txt" if number == 1 else f"{name}-{number}.txt" for number in count(1))
    return next(path for path in map(folder.__truediv__, names) if not path.exists())


BAD_INPUT = 2


def refuse(application: QApplication, error: CoppiceError) -> int:
    """Say why there will be no window; returns the exit code."""
    if sys.stderr is not None:  # a program without a terminal has none on Windows
        sys.stderr.write(f"error: {error}\n")
    if needs_box():
        install(application, language_of(""))
        refusal_box(error).exec()
    return BAD_INPUT


def needs_box() -> bool:
    """Whether the program was started by a double click: then what it prints is not read."""
    return sys.stderr is None or (is_frozen() and not sys.stderr.isatty())


def refusal_box(error: CoppiceError) -> QMessageBox:
    """The box, with what happened and what can be done."""
    box = QMessageBox(QMessageBox.Icon.Critical, tr("Coppice cannot start"), translated(error.message))
    box.setInformativeText(translated(error.hint))
    box.setStyleSheet(PLAIN_LABELS)  # there is no theme yet
    box.addButton(QMessageBox.StandardButton.Close)
    return box


def unusable(folders: Folders, error: OSError) -> InputError:
    """The folders cannot be made, or nothing can be written into them."""
    folder, reason = error.filename or folders.config, reason_of(error)
    words = say("Coppice cannot write its settings and logs: {folder}: {reason}.", folder=folder, reason=reason)
    return InputError(words, say("Make the folder writable, or start Coppice with --data-dir and another folder."))
