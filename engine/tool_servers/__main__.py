"""`python -m engine.tool_servers`: orders in, one a line, reports out; ends, with all servers, when its input does.

What it says is `engine.protocol.tool_servers`. Its output is for reports alone: whatever a library prints goes to the
error output. Libraries log nothing, as what they log quotes what servers and answers say.
"""

import logging
import os
import signal
import sys
from contextlib import suppress
from typing import BinaryIO

from engine.protocol.sentences import say
from engine.protocol.tool_servers import Unable, to_line


def main() -> int:
    """Serve until the input ends; the exit code is 0 also where this Python cannot."""
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal is for the window
    reports = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    logging.disable()
    try:
        from engine.tool_servers.desk import serve  # noqa: PLC0415  # the packages may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "engine":
            raise
        _refuse(reports, error.name or "")
        return 0
    serve(sys.stdin.buffer, reports)
    return 0


def _refuse(reports: BinaryIO, package: str) -> None:
    reason = say("The installed engine is too old for tools of servers: it has no package '{name}'.", name=package)
    hint = say("Update it in Preferences, Engine; from a checkout, run packaging/bootstrap.sh again.")
    with suppress(OSError):
        reports.write(to_line(Unable(reason, hint)))
        reports.close()


if __name__ == "__main__":
    sys.exit(main())
