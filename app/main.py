"""Reads the command line, starts the engine, and opens the window, which is imported while the engine starts."""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from app.engine.link import EngineLink
from app.engine.program import engine_program
from app.installation.runtime.manager import runtime_manager
from app.shell.application import Application, DisplayWatch, Ending, opening_display
from app.shell.faults.crash import CrashWatch, refuse, unusable
from app.shell.faults.thread_faults import ThreadFaults
from app.shell.instance import Instance
from app.system.background import still_running
from app.system.command_line import BAD_INPUT, CommandParser, print_note
from app.system.files import become_private
from app.system.paths import Folders, chosen_folders, is_file
from app.system.plain_text import well_formed
from app.ui.theme import application_icon
from engine import __version__
from engine.errors import InputError

if TYPE_CHECKING:
    from app.shell.program import Program

_LOG_BYTES = 500_000
_PATIENCE_SECONDS = 3.0  # the window is gone by then
APP_ID = "org.coppice.coppice"
"""What Windows' taskbar knows the program by; the installer's shortcuts have the same."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Open the window and return when it has been closed."""
    options = _options(arguments)
    if not has_display(os.environ):
        print_note("error: There is no display. Without a window: coppice serve, or coppice-engine generate.")
        return BAD_INPUT
    become_private()
    folders = chosen_folders(options.data_dir, options.portable)
    application = build_application()
    instance, crashes = Instance(folders.data), CrashWatch(folders)
    try:
        folders.create()
        folders.tighten()
        if not instance.claim_or_hand_over(str(options.recording.absolute()) if options.recording else ""):
            return 0
        _keep_log(folders)
        faults = ThreadFaults(application)
        faults.begin()
        report = crashes.begin()
    except OSError as error:
        return refuse(application, unusable(folders, error))
    except InputError as error:
        return refuse(application, error)
    ending = Ending()
    ending.asked.connect(application.quit)  # it closes the windows as a person would
    link = begin_engine(folders)
    from app.shell.lifecycle import Lifecycle  # noqa: PLC0415
    from app.shell.wiring import begin_life, build_window  # noqa: PLC0415  # most of the start, beside the engine's

    window = build_window(application, folders, options, link)
    program = window.program
    faults.notice_raised.connect(program.tell)
    life = Lifecycle(program, instance)
    application.file_asked.connect(life.on_asked)
    application.quit_asked.connect(program.quit)  # the window in front last, which Qt does not know of
    program.held.connect(application.hold)
    begin_life(life, program, report, options.recording)
    if not (options.no_tour or options.recording):
        window.deferred.do(window.offer_tour)
    watch = DisplayWatch(lambda: os._exit(_leave(program, crashes, instance)))
    watch.begin()
    window.show()
    code = application.exec()
    watch.end()
    _leave(program, crashes, instance)
    ending.release()
    faults.end()
    _end_threads(application, code)
    return code


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for; ends the program where that cannot be."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if "" in (options.target, options.draft):
        parser.error("a model source is empty; give 'embedded', a model folder or a hub id")
    if options.data_dir and str(options.data_dir) != well_formed(str(options.data_dir)):
        parser.error("the name of the folder after --data-dir is not UTF-8; give another folder")
    if options.recording and not is_file(options.recording):
        parser.error(f"there is no file {options.recording}; give a recording of rounds, or nothing")
    return options


def _leave(program: "Program", crashes: CrashWatch, instance: Instance) -> int:
    """Close windows that are still open, write everything down, end what goes on beside them; returns 1."""
    program.close_all()
    program.link.close()
    program.models.close()
    program.link.wait_closed()
    crashes.end()
    instance.release()
    return 1


def _end_threads(application: Application, code: int) -> None:
    """Wait for threads that still work, but not for the network, and end the program here where one does not end.

    Python stops a thread in the middle of its stack when it ends itself. With frames of a library in C++ or Rust in it,
    such as an import of PySide's, that can end in a crash.
    """
    names = still_running(_PATIENCE_SECONDS)
    if names:
        logging.getLogger(__name__).warning("The program ends while these threads still run: %s", ", ".join(names))
        logging.shutdown()
        application.shutdown()  # hands the clipboard over
        os._exit(code)


def begin_engine(folders: Folders) -> EngineLink:
    """The way to the engine, whose process starts at once: to read torch takes longer than the whole window does."""
    link = EngineLink(engine_program(folders.engine_log, runtime_manager(folders)))
    link.begin()
    return link


def has_display(environment: Mapping[str, str]) -> bool:
    """Whether there is one to try: without, as over ssh, Qt would abort the program and leave a core file."""
    if sys.platform != "linux":
        return True
    displays = ("DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "QT_QPA_PLATFORM")
    return any(environment.get(name) for name in displays) or environment.get("XDG_SESSION_TYPE") == "wayland"


def _refuse_display(reasons: str) -> NoReturn:
    print_note(f"error: There is no display ({reasons}). Without a window: coppice serve, or coppice-engine generate.")
    os._exit(BAD_INPUT)


def build_application() -> Application:
    """The Qt application, by the name and the icon that a desktop knows it by."""
    with opening_display(_refuse_display):
        application = Application(sys.argv[:1])
    application.setApplicationName("coppice")
    application.setApplicationDisplayName("Coppice")
    application.setDesktopFileName("coppice")
    if sys.platform == "win32":  # else it were Python's, with the icon of that, where it runs from a checkout
        import ctypes  # noqa: PLC0415

        ctypes.windll.shell32.SetCurrentProcessExplicitAppUserModelID(APP_ID)
    application.setWindowIcon(application_icon())
    return application


def build_parser() -> argparse.ArgumentParser:
    """The command line; what is wrong with it is told in one line."""
    parser = CommandParser(
        prog="coppice",
        description="Chat with a language model that is bigger than your GPU.",
        epilog="Without a window: coppice download REPO gets a model from the hub, coppice serve answers other "
        "programs, coppice runtime installs the engine; each has its --help.",
    )
    parser.add_argument(
        "--target",
        metavar="SOURCE",
        help="'embedded', a folder, a GGUF file, or the id of a downloaded model (default: that of last time)",
    )
    parser.add_argument("--draft", metavar="SOURCE", help="the same for the draft model; 'none' for no speculation")
    holds = "holds everything the application writes (default: the folders that this system has for it)"
    parser.add_argument("--data-dir", metavar="DIR", type=Path, help=holds)
    parser.add_argument(
        "--portable",
        action="store_true",
        help="keep all of that in the folder 'coppice-data' beside the program, now and whenever that folder is there",
    )
    parser.add_argument("--no-tour", action="store_true", help="do not show the tour behind the first answer")
    parser.add_argument("recording", metavar="RECORDING", type=Path, nargs="?", help="a recording of rounds to look at")
    parser.add_argument("--version", action="version", version=f"coppice {__version__}")
    return parser


def _keep_log(folders: Folders) -> None:
    """What goes wrong in the window goes to a file; a person at a terminal sees it too.

    That the file cannot be written, as on a full disk, is no reason to fill the terminal.
    """
    logging.raiseExceptions = False
    file = RotatingFileHandler(
        folders.application_log, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
    )
    logging.basicConfig(
        level=logging.INFO, handlers=[file, logging.StreamHandler()], format="%(asctime)s %(levelname)s %(message)s"
    )
