"""The access token: where it is found, in environment, keyring or the hub client's file, and where it may travel."""

import ipaddress
import logging
import os
import re
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import urlsplit

from app.hub.failures import HubError, Reason
from app.system.secret_store import forget_secret, keep_secret, read_secret
from engine.protocol.sentences import say

_log = logging.getLogger(__name__)

_NAME = "model hub token"  # in the keyring
_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_FORM = re.compile(r"[\x21-\x7e]{1,512}")


class TokenOrigin(Enum):
    """Where a token comes from, in words; those above win."""

    ENVIRONMENT = say("the variable HF_TOKEN")
    KEYRING = say("the system's keyring")
    HUB_CLIENT = say("the hub's command line tool")
    NONE = ""


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
            self._kept = _clean(read_secret(_NAME))
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
                Reason.NOT_LOGGED_IN, say("This is no access token."), say("Copy it again from the hub's settings.")
            )
        if not keep_secret(_NAME, secret):
            words = say("This system has no keyring that would keep the token.")
            hint = say("Set the variable HF_TOKEN, or log in with 'hf auth login'; Coppice uses both.")
            raise HubError(Reason.NOT_LOGGED_IN, words, hint)
        self._kept = secret

    def forget(self) -> None:
        """Take the token out of the keyring; others stay where they are."""
        self._kept = ""
        forget_secret(_NAME)


def _clean(secret: str) -> str:
    """The token without what an editor adds; nothing if it could not stand in a header."""
    secret = secret.strip()
    return secret if _FORM.fullmatch(secret) else ""


def _from_hub_client() -> str:
    from huggingface_hub import get_token  # noqa: PLC0415

    try:
        return get_token() or ""
    except (OSError, ValueError, RuntimeError) as error:  # a damaged file, or one that others may not read
        _log.warning("The hub client's token cannot be read: %s", type(error).__name__)
        return ""


_ASKS_FOR_TOKEN = (401, 403)


def may_carry_token(address: str) -> bool:
    """Whether a token can be sent there without anybody on the way reading it."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def token_for(address: str, token: str | None) -> str | None:
    """The token, if it may travel there; else None, and the log says so."""
    if token and not may_carry_token(address):
        _log.warning("The access token was not sent: the hub's address is not encrypted (http)")
        return None
    return token


def withheld(status: int, address: str, token: str | None) -> HubError | None:
    """What to say when the hub refuses somebody whose token was not sent; None where that is not the reason."""
    if not token or status not in _ASKS_FOR_TOKEN or may_carry_token(address):
        return None
    host = urlsplit(address).hostname
    words = say("The access token was not sent to {host}: the connection is not encrypted.", host=host)
    return HubError(Reason.NOT_LOGGED_IN, words, say("Use an address of the hub that begins with https://."))
