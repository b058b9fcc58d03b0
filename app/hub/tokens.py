"""The token that the hub knows a person by: from the environment, the system's keyring, or the hub client's file."""

import logging
import os
import re
from dataclasses import dataclass, field
from enum import Enum

from app.hub.trouble import HubError, Trouble
from engine.protocol.sentences import say

_log = logging.getLogger(__name__)

_SERVICE, _NAME = "coppice", "model hub token"
_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_FORM = re.compile(r"[\x21-\x7e]{1,512}")


class TokenOrigin(Enum):
    """Where a token comes from; those above win."""

    ENVIRONMENT = "the variable HF_TOKEN"
    KEYRING = "the system's keyring"
    HUB_CLIENT = "the hub's command line tool"
    NONE = "nowhere"


@dataclass(frozen=True, slots=True)
class Token:
    """A secret that does not show itself when it is printed."""

    secret: str = field(default="", repr=False)
    origin: TokenOrigin = TokenOrigin.NONE


class Tokens:
    """Finds, keeps and forgets the token. Every method may block, on a locked keyring say: not for the GUI thread."""

    def __init__(self) -> None:
        self._kept: str | None = None  # what the keyring said, so that it is not asked before every request

    def current(self) -> Token:
        """The token to use now; an empty one where there is none."""
        for variable in _VARIABLES:
            if secret := _clean(os.environ.get(variable, "")):
                return Token(secret, TokenOrigin.ENVIRONMENT)
        if self._kept is None:
            self._kept = _clean(_from_keyring())
        if self._kept:
            return Token(self._kept, TokenOrigin.KEYRING)
        if secret := _clean(_from_hub_client()):
            return Token(secret, TokenOrigin.HUB_CLIENT)
        return Token()

    def secret(self) -> str:
        """What `HubClient` asks before every request."""
        return self.current().secret

    def keep(self, secret: str) -> None:
        """Put a token into the keyring. `HubError` if it is none, or if this system has no keyring."""
        secret = secret.strip()
        if not _FORM.fullmatch(secret):
            raise HubError(
                Trouble.NOT_LOGGED_IN, say("This is no access token."), say("Copy it again from the hub's settings.")
            )
        import keyring  # noqa: PLC0415  # it looks for back ends when it is imported
        from keyring.errors import KeyringError  # noqa: PLC0415

        try:
            keyring.set_password(_SERVICE, _NAME, secret)
        except (KeyringError, RuntimeError, OSError) as error:
            _log.warning("The keyring took no token: %s", type(error).__name__)
            raise HubError(
                Trouble.NOT_LOGGED_IN,
                say("This system has no keyring that would keep the token."),
                say("Set the variable HF_TOKEN, or log in with 'hf auth login'; Coppice uses both."),
            ) from None
        self._kept = secret

    def forget(self) -> None:
        """Take the token out of the keyring; others stay where they are."""
        import keyring  # noqa: PLC0415
        from keyring.errors import KeyringError  # noqa: PLC0415

        self._kept = ""
        try:
            keyring.delete_password(_SERVICE, _NAME)
        except (KeyringError, RuntimeError, OSError) as error:
            _log.info("There was no token to forget: %s", type(error).__name__)


def _clean(secret: str) -> str:
    """The token without what an editor adds; nothing if it could not stand in a header."""
    secret = secret.strip()
    return secret if _FORM.fullmatch(secret) else ""


def _from_keyring() -> str:
    import keyring  # noqa: PLC0415
    from keyring.errors import KeyringError  # noqa: PLC0415

    try:
        return keyring.get_password(_SERVICE, _NAME) or ""
    except (KeyringError, RuntimeError, OSError) as error:
        _log.info("The keyring cannot be read: %s", type(error).__name__)
        return ""


def _from_hub_client() -> str:
    from huggingface_hub import get_token  # noqa: PLC0415

    try:
        return get_token() or ""
    except (OSError, ValueError, RuntimeError) as error:  # a damaged file, or one that others may not read
        _log.warning("The hub client's token cannot be read: %s", type(error).__name__)
        return ""
