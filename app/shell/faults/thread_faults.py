"""Unhandled errors: each goes into the log, and those of worker threads are told in the window too."""

import logging
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.ui.notices import Notice

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_log = logging.getLogger("coppice")

FAULTS: dict[str, tuple[str, str]] = {
    "archive": (
        mark("The chats could not be read or saved because of an error in this program ({error})."),
        mark("It is tried again with the next change. If this comes again, export the chats and restart Coppice."),
    ),
    "engine link": (
        mark("The connection to the engine failed because of an error in this program ({error})."),
        mark("Restart the engine."),
    ),
    "engine watch": (
        mark("The engine's process could not be watched because of an error in this program ({error})."),
        mark("Restart the engine if it does not answer."),
    ),
    "engine log": (
        mark(
            "Some of what the engine printed was not written to its log because of an error in this program ({error})."
        ),
        mark("The engine goes on. Restart it if this comes again."),
    ),
    "downloads": (
        mark("A download has ended because of an error in this program ({error})."),
        mark("Resume it in Models. What has arrived is kept."),
    ),
    "earlier downloads": (
        mark("Some earlier downloads could not be listed because of an error in this program ({error})."),
        mark("Start them again in Models. What has arrived is kept."),
    ),
    "formulas": (
        mark("A formula could not be drawn because of an error in this program ({error})."),
        mark("Its source is shown instead."),
    ),
    "attachments": (
        mark("A file could not be attached because of an error in this program ({error})."),
        mark("Attach it as plain text, or try another file."),
    ),
    "pictures": (
        mark("A picture could not be shown because of an error in this program ({error})."),
        mark("The chat keeps it, and models are shown it."),
    ),
    "constraints": (
        mark("A file for structured output could not be read because of an error in this program ({error})."),
        mark("Copy its text into the field."),
    ),
    "hardware look-up": (
        mark("This computer's graphics cards could not be looked at because of an error in this program ({error})."),
        mark("Choose the engine that fits your card."),
    ),
    "installation": (
        mark("The installation of the engine has ended because of an error in this program ({error})."),
        mark("Try again. What has arrived is kept."),
    ),
    "clean-up": (
        mark("What is left of earlier engines could not be removed because of an error in this program ({error})."),
        mark("It is tried again with the next start."),
    ),
    "removal": (
        mark("The engine could not be removed because of an error in this program ({error})."),
        mark("Restart Coppice, then try again."),
    ),
    "models": (
        mark("Work on the models of this computer has ended because of an error in this program ({error})."),
        mark("Close Models, open it again and repeat what you did."),
    ),
    "animation": (
        mark("An animation could not be made because of an error in this program ({error})."),
        mark("Try another format or size."),
    ),
    "kept texts": (
        mark("What is kept of chats on disk could not be deleted because of an error in this program ({error})."),
        mark("Delete it in Preferences, on the page Memory."),
    ),
    "vocabularies": (
        mark("Drafts for this model could not be compared because of an error in this program ({error})."),
        mark("Choose a draft by hand."),
    ),
    "token": (
        mark("The hub's token could not be read or kept because of an error in this program ({error})."),
        mark("Enter it again in Preferences."),
    ),
    "search": (
        mark("The search for models has ended because of an error in this program ({error})."),
        mark("Search again."),
    ),
    "facts": (
        mark("What a model needs could not be found out because of an error in this program ({error})."),
        mark("Choose the model again, or load it to find out."),
    ),
    "variants": (
        mark("The versions of a model could not be listed because of an error in this program ({error})."),
        mark("Choose the model again."),
    ),
    "news": (
        mark("News of versions could not be read because of an error in this program ({error})."),
        mark("They are asked for again with the next start."),
    ),
    "read ahead": (
        mark("Parts of the window could not be prepared because of an error in this program ({error})."),
        mark("Opening them takes a little longer."),
    ),
    "drawing answers": (
        mark("Formulas and code could not be drawn because of an error in this program ({error})."),
        mark("They are shown as they were written; the next ones are drawn again."),
    ),
    "passwords": (
        mark("A password could not be read or kept because of an error in this program ({error})."),
        mark("Enter it again in Preferences."),
    ),
    "remote engine": (
        mark("An engine elsewhere could not be asked because of an error in this program ({error})."),
        mark("Ask again, or connect to it anew in Models."),
    ),
    "tool servers": (
        mark("The connections to tool servers have ended because of an error in this program ({error})."),
        mark("They are made again in a moment."),
    ),
    "tool orders": (
        mark("Tool servers could not be asked because of an error in this program ({error})."),
        mark("The connections are made again in a moment."),
    ),
    "engine key": (
        mark("The key of an engine could not be kept or forgotten because of an error in this program ({error})."),
        mark("Change the connection in Models, and enter it again."),
    ),
}
"""What a notice says of an error in the thread of this name, and what to do about it."""

_ANY = (
    mark("Work in the background has ended because of an error in this program ({error})."),
    mark("If something is missing, restart Coppice."),
)
_KEYS = {"archive": "conversations-not-saved", "engine link": "engine-stopped"}  # their own notices tell more


class ThreadFaults(QObject):
    """Takes the place of Python's hooks; `notice_raised` comes in the thread of this object, from the event loop.

    Before the event loop runs, notices wait for it, and with it for the window that shows them.
    """

    notice_raised = Signal(Notice)
    _reported = Signal(str, str)  # only texts: a traceback must not keep widgets alive, or end them in a thread

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._reported.connect(self._tell, Qt.ConnectionType.QueuedConnection)

    def begin(self) -> None:
        """Take every error that is not handled from now on."""
        threading.excepthook = self.on_thread_error
        sys.excepthook = _on_error
        sys.unraisablehook = _on_unraisable

    def end(self) -> None:
        """Let Python print them again."""
        threading.excepthook = threading.__excepthook__
        sys.excepthook = sys.__excepthook__
        sys.unraisablehook = sys.__unraisablehook__

    def on_thread_error(self, met: threading.ExceptHookArgs) -> None:
        """Log an error of a worker thread and tell of it; for any thread."""
        name = met.thread.name if met.thread else ""
        error = met.exc_value or met.exc_type()
        _log.error("An error in the thread '%s'", name, exc_info=error)
        words = str(error).strip().splitlines()
        try:
            self._reported.emit(name, f"{type(error).__name__}: {words[0][:200]}" if words else type(error).__name__)
        except RuntimeError:
            _log.debug("The window is gone; the error is only logged")

    def _tell(self, name: str, error: str) -> None:
        message, hint = FAULTS.get(name, _ANY)
        words = f"{tr(hint)} {tr('Details are in the log.')}"
        self.notice_raised.emit(Notice(_KEYS.get(name, f"thread {name}"), tr(message).format(error=error), words))


def _on_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _log.error("An error was not handled", exc_info=(kind, error, trace))


def _on_unraisable(met: "UnraisableHookArgs") -> None:
    """An error where Python cannot raise one, such as in a finaliser. Nothing of it is kept: it may be half gone."""
    trace = (met.exc_type, met.exc_value or met.exc_type(), met.exc_traceback)
    _log.error("%s: %r", met.err_msg or "An error was ignored in", met.object, exc_info=trace)
