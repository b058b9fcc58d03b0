"""What every HTTP client of the application shares: the certificates, hanging up in mid-answer, and a quiet log."""

import functools
import logging
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # importing it takes a tenth of a second, and only who goes online needs it
    import ssl


@functools.cache
def trust() -> "ssl.SSLContext":
    """The certificates of environment and system; reading them takes a while, so once is enough."""
    import httpx2  # noqa: PLC0415

    return httpx2.create_ssl_context()


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
