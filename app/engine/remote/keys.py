"""Keys of engines elsewhere: each for its own address, in the system's keyring, which is asked when it is needed."""

import re
import threading
from collections.abc import Iterable

from app.system.passwords import forget_secret, keep_secret, read_secret
from engine.errors import InputError
from engine.protocol.sentences import say

_FORM = re.compile(r"[\x21-\x7e]{1,1024}")


class EngineKeys:
    """From any thread but the window's: a keyring may ask its owner for a password before it answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}

    def of(self, address: str) -> str:
        """The key for this address; empty where there is none."""
        with self._lock:
            if address not in self._known:
                found = read_secret(_name(address))
                self._known[address] = found if _FORM.fullmatch(found) else ""
            return self._known[address]

    def keep(self, address: str, key: str) -> bool:
        """Use this key from now on; whether a keyring keeps it beyond this run."""
        with self._lock:
            if self._known.get(address) == key:
                return True
            self._known[address] = key
            return keep_secret(_name(address), key)

    def forget(self, addresses: Iterable[str]) -> None:
        """These are not used any more."""
        with self._lock:
            for each in addresses:
                self._known.pop(each, None)
                forget_secret(_name(each))


def checked(key: str) -> str:
    """The key as it can stand in a header. Raises `InputError` for one that cannot."""
    key = key.strip()
    if key and not _FORM.fullmatch(key):
        raise InputError(say("This is no key: it holds spaces, or letters that no key has."), say("Copy it again."))
    return key


def _name(address: str) -> str:
    return f"key of the engine at {address}"
