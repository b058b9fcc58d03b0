"""Where an access token may travel: encrypted, or not beyond this computer."""

import ipaddress
import logging
from urllib.parse import urlsplit

from app.hub.failures import Reason, RefusalError
from engine.protocol.sentences import say

_log = logging.getLogger(__name__)

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


def withheld(status: int, address: str, token: str | None) -> RefusalError | None:
    """What to say when the hub refuses somebody whose token was not sent; None where that is not the reason."""
    if not token or status not in _ASKS_FOR_TOKEN or may_carry_token(address):
        return None
    host = urlsplit(address).hostname
    return RefusalError(
        Reason.NOT_LOGGED_IN,
        say("The access token was not sent to {host}: the connection is not encrypted.", host=host),
        say("Use an address of the hub that begins with https://."),
    )
