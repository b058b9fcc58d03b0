"""What every HTTP client of the application shares: the certificates, hanging up in mid-answer, and a quiet log."""

import functools
import logging
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

from engine.errors import InputError
from engine.protocol.sentences import say

if TYPE_CHECKING:  # importing it takes a tenth of a second, and only who goes online needs it
    import ssl

_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # in the order in which the client looks at them


@functools.cache
def trust() -> "ssl.SSLContext":
    """The certificates of environment and system; reading them takes a while, so once is enough.

    Raises `InputError` where the environment names some that cannot be read.
    """
    import httpx2  # noqa: PLC0415

    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        name = next((each for each in _CERTIFICATES if os.environ.get(each)), "")
        if not name:
            raise
        raise InputError(
            say("The certificates that {name} names cannot be read: {file}.", name=name, file=os.environ[name]),
            say("Let it name a file of certificates, or remove it, and start Coppice again."),
        ) from error


def hang_up(stream: Any) -> None:
    """Cut a connection, httpcore's `NetworkStream`, that is being read: its thread wakes up. From any thread."""
    connection: socket.socket | None = stream.get_extra_info("socket") if stream else None
    if connection is None:
        return
    if sys.platform == "win32":  # who waits there for bytes is not woken up by shutting it down
        connection.close()
        return
    try:
        # A copy of the descriptor reaches below TLS, whose state belongs to the thread that reads.
        with socket.fromfd(connection.fileno(), connection.family, connection.type) as copy:
            copy.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def keep_addresses_out_of_log() -> None:
    """The client's libraries log addresses, and signed ones let anybody in."""
    for library in ("httpx2", "httpcore2"):
        logging.getLogger(library).setLevel(logging.WARNING)
