"""Keys of engines elsewhere: each for its own address, in the system's keyring, which is asked when it is needed."""

import re
import threading
from collections.abc import Iterable

from app.system.secret_store import forget_secret, keep_secret, read_secret
from engine.errors import InputError
from engine.protocol.sentences import say

_FORM = re.compile(r"[\x21-\x7e]{1,1024}")


class EngineKeys:
    """A keyring may ask its owner for a password before it answers: only `remember` is for the window's thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of what is known; never held while a keyring is asked
        self._keyring = threading.Lock()
        self._known: dict[str, str] = {}

    def of(self, address: str) -> str:
        """The key for this address; empty where there is none."""
        with self._lock:
            if address in self._known:
                return self._known[address]
        with self._keyring:
            found = read_secret(_name(address))
        if not _FORM.fullmatch(found):
            return ""  # there may be one later: a keyring that is locked now says the same
        with self._lock:
            return self._known.setdefault(address, found)

    def remember(self, address: str, key: str) -> None:
        """Use this key until the end of the run, an empty one for none; returns at once."""
        with self._lock:
            self._known[address] = key

    def keep(self, address: str, key: str) -> bool:
        """Have the keyring keep this key beyond this run; whether it does."""
        with self._keyring:
            return keep_secret(_name(address), key)

    def forget(self, addresses: Iterable[str]) -> None:
        """Take these out of the keyring."""
        with self._keyring:
            for each in addresses:
                forget_secret(_name(each))


def checked(key: str) -> str:
    """The key as it can stand in a header. Raises `InputError` for one that cannot."""
    key = key.strip()
    if key and not _FORM.fullmatch(key):
        raise InputError(say("This is no key: it holds spaces, or letters that no key has."), say("Copy it again."))
    return key


def _name(address: str) -> str:
    return f"key of the engine at {address}"
