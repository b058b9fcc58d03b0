"""The hub token for a dialog: looked up, kept and forgotten beside the window, and never shown whole."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app.hub.tokens import Token, TokenOrigin, Tokens
from app.i18n.sentences import error_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.ui.jobs import Job, Jobs
from engine.errors import CoppiceError

_SHOWN_LETTERS = 4
_LEAST_TO_SHOW = 12
_ORIGINS = {
    TokenOrigin.ENVIRONMENT: mark("the variable HF_TOKEN"),
    TokenOrigin.KEYRING: mark("the system's keyring"),
    TokenOrigin.HUB_CLIENT: mark("the hub's command line tool"),
}


class TokenDesk(QObject):
    """`told`: the token with all but its last letters hidden, where it comes from, and whether it can be removed."""

    told = Signal(str, str, bool)
    failed = Signal(str)

    def __init__(self, tokens: Tokens, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tokens = tokens
        self._jobs: Jobs | None = None

    def look(self) -> None:
        """Find the token."""
        self._start(self._tokens.current)

    def keep(self, secret: str) -> None:
        """Put it into the keyring."""

        def work() -> Token:
            self._tokens.keep(secret)
            return self._tokens.current()

        self._start(work)

    def forget(self) -> None:
        """Take it out of the keyring; another one may stay, as in the environment."""

        def work() -> Token:
            self._tokens.forget()
            return self._tokens.current()

        self._start(work)

    def close(self) -> None:
        """End the thread."""
        if self._jobs is not None:
            self._jobs.close()

    def _start(self, work: Callable[[], Token]) -> None:
        if self._jobs is None:
            self._jobs = Jobs(1, "token", self)
        job: Job = self._jobs.start(lambda _stop: work())
        job.done.connect(self._on_found)
        job.failed.connect(self._on_failed)

    def _on_found(self, token: Token) -> None:
        origin = tr(_ORIGINS[token.origin]) if token.origin in _ORIGINS else ""
        self.told.emit(masked(token.secret), origin, token.origin is TokenOrigin.KEYRING)

    def _on_failed(self, error: CoppiceError) -> None:
        self.failed.emit(error_text(error))


def masked(secret: str) -> str:
    """Dots and the last letters, by which its owner knows it; of a short one, dots alone."""
    if not secret:
        return ""
    return "••••••••" + (secret[-_SHOWN_LETTERS:] if len(secret) >= _LEAST_TO_SHOW else "")
