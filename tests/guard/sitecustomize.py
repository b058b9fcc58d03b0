"""Keeps a process of the tests off the network: connections and names of this machine only.

Python imports it at the start of every process that has this folder on its PYTHONPATH, which tests/conftest.py sets.
"""

import sys

_LOCAL_NAMES = frozenset({"", "localhost", "localhost.localdomain", "0.0.0.0", "::"})
_CONNECTIONS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_NAMES = ("socket.getaddrinfo", "socket.gethostbyname")


def is_local(address: object) -> bool:
    """Tell whether a socket address or a host name means this machine; addresses that are no (host, port) do."""
    if isinstance(address, tuple):
        address = address[0]
    elif isinstance(address, str) and address.startswith(("/", "\0")):
        return True  # a socket in the file system
    if isinstance(address, bytes):
        address = address.decode("ascii", "replace")
    if not isinstance(address, str):
        return True
    host = address.lower().partition("%")[0].rstrip(".")
    return host in _LOCAL_NAMES or host == "::1" or (host.startswith("127.") and host.replace(".", "").isdigit())


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Raise before a socket connects to another machine, or a name is looked up."""
    if event in _CONNECTIONS:
        address = arguments[1]
    elif event in _NAMES:
        address = arguments[0]
    else:
        return
    if not is_local(address):
        raise AssertionError(f"A test tried to connect to {address}: tests do without the network.")


sys.addaudithook(refuse)
