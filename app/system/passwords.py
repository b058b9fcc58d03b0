"""Passwords of addresses, and single secrets: kept in the system's keyring, never in the settings' file."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtCore import QObject, Signal

from app.system.addresses import join_password, names_person
from app.system.background import attempt, start
from app.system.secret_store import forget_secret, keep_secret, read_secret
from app.system.window_thread import in_window_thread


class Passwords(QObject):
    """Those of the addresses in use. `changed`: an address has got one; `not_kept`: for this run only, as no keyring
    took it. A keyring may ask its owner for a password of its own: all of that happens in a thread.
    """

    changed = Signal()
    not_kept = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: dict[str, str] = {}  # by address; "" where there is none
        self._orders = _Orders()
        self._found, self._refused = in_window_thread(self._on_found), in_window_thread(self._on_refused)

    def follow(self, addresses: Mapping[str, str], typed: Mapping[str, str]) -> None:
        """These addresses are used from now on, by the names of their options; `typed` are new passwords, by address.

        Passwords of addresses that are not used any more are forgotten.
        """
        used = {each for each in addresses.values() if names_person(each)}
        for address in self._known.keys() - used:
            self._known.pop(address)
            self._orders.put(partial(forget_secret, _name(address)))
        for address, password in typed.items():
            if address in used:
                self._known[address] = password
                self._orders.put(partial(_keep, _name(address), password, self._refused))
        for address in used - self._known.keys():
            self._known[address] = ""
            self._orders.put(partial(_look, _name(address), partial(self._found, address)))

    def complete(self, address: str) -> str:
        """The address with its password, if it has one."""
        return join_password(address, self._known.get(address, ""))

    def _on_found(self, address: str, password: str) -> None:
        if password and self._known.get(address) == "":  # neither typed nor forgotten meanwhile
            self._known[address] = password
            self.changed.emit()

    def _on_refused(self, _password: str) -> None:
        self.not_kept.emit()


class KeptSecret(QObject):
    """One secret, by its name in the keyring. `changed` follows whatever becomes known of it.

    `value` is None until `look` has found out; then empty where there is none. `is_kept`: it outlives this run.
    """

    changed = Signal()

    def __init__(self, name: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self._orders = _Orders()
        self._is_looked_for = False
        self.value: str | None = None
        self.is_kept = True
        self._found, self._refused = in_window_thread(self._on_found), in_window_thread(self._on_refused)

    def look(self) -> None:
        """Ask the keyring, unless it is known or asked already."""
        if self.value is None and not self._is_looked_for:
            self._is_looked_for = True
            self._orders.put(partial(_look, self._name, self._found))

    def keep(self, secret: str) -> None:
        """Use this secret from now on; an empty one: none any more."""
        self.value, self.is_kept = secret, True
        self._orders.put(
            partial(_keep, self._name, secret, self._refused) if secret else partial(forget_secret, self._name)
        )
        self.changed.emit()

    def _on_found(self, secret: str) -> None:
        self._is_looked_for = False
        if self.value is None:  # nothing was set meanwhile
            self.value = secret
            self.changed.emit()

    def _on_refused(self, secret: str) -> None:
        if self.value == secret:
            self.is_kept = False
            self.changed.emit()


class _Orders:
    """Carried out one after the other, by a thread that is there as long as there are some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_working = False

    def put(self, work: Callable[[], None]) -> None:
        """Do it when its turn comes."""
        with self._lock:
            self._waiting.append(work)
            if self._is_working:
                return
            self._is_working = True
        start("passwords", self._work)

    def _work(self) -> None:
        while work := self._next():
            attempt(work, lambda _error: None)  # a keyring is anybody's program

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            self._is_working = bool(self._waiting)
            return self._waiting.popleft() if self._waiting else None


def _look(name: str, found: Callable[[str], None]) -> None:
    found(attempt(lambda: read_secret(name), lambda _error: ""))


def _keep(name: str, secret: str, refused: Callable[[str], None]) -> None:
    if not keep_secret(name, secret):
        refused(secret)


def _name(address: str) -> str:
    """A password goes to the address that it was given for, and to no other."""
    return f"password for {address}"
