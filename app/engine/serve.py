"""`coppice serve`: the local server without a window, in the Python that the engine runs in."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.engine.program import engine_program
from app.installation.runtime.manager import runtime_manager
from app.system.command_line import BAD_INPUT, CommandParser, print_note
from app.system.files import become_private
from app.system.paths import chosen_folders
from engine.errors import CoppiceError

KEY_VARIABLE = "COPPICE_API_KEY"


def run(words: Sequence[str]) -> int:
    """Become the server; returns the exit code only where that is not possible. `words`: as the engine takes them."""
    parser = CommandParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--portable", action="store_true")
    here, rest = parser.parse_known_args(words)
    folders = chosen_folders(here.data_dir, here.portable)
    command_line = ("-m", "engine", "serve", f"--cache-dir={folders.cache}", *rest)
    program = engine_program(folders.engine_log, runtime_manager(folders), command_line)
    try:
        command, environment = program.find()
        if key := os.environ.get(KEY_VARIABLE):  # a secret, which engines do not get, but for this one
            environment |= {KEY_VARIABLE: key}
        return _become(command, environment)
    except CoppiceError as error:
        print_note(f"error: {error}")
    except OSError as error:
        print_note(f"error: {command[0]}: {error.strerror or error}")
    return BAD_INPUT


def _become(command: tuple[str, ...], environment: Mapping[str, str]) -> int:
    """Run in place of this program, so that signals, exit code and terminal are the server's own.

    What it keeps is the application's, and for nobody else to read, as where the window starts it.
    """
    become_private()
    if os.name == "posix":
        os.execve(command[0], command, environment)  # noqa: S606  # an argument list that we build ourselves
    # There it would be another process, which the terminal does not wait for.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the console tells both of Ctrl+C, and the server ends by it
    return subprocess.run(command, env=environment, check=False).returncode
