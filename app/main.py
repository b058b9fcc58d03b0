"""Reads the command line and puts the application together; everything heavy is imported after the command line."""

import argparse
import gc
import logging
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from PySide6.QtWidgets import QApplication

from app.engine_child import engine_program
from app.engine_link import EngineLink
from app.library.terms_memory import last_load
from app.lifecycle.crash import CrashWatch
from app.lifecycle.instance import Instance
from app.lifecycle_wiring import Lifecycle
from app.paths import Folders, folders_below, platform_folders, portable_folder
from app.runtime.manager import runtime_manager
from app.runtime_wiring import connect_runtime
from app.settings import Settings, SettingsFile
from app.theme import Theme, application_icon
from app.translation import install, language_of
from app.window import MainWindow
from engine import __version__
from engine.errors import InputError
from engine.options import LoadOptions

_log = logging.getLogger("coppice")
_LOG_BYTES = 500_000


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(2, f"error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Open the window and return when it has been closed."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if "" in (options.target, options.draft):
        parser.error("a model source is empty; give 'embedded', a model folder or a hub id")
    if options.recording and not options.recording.is_file():
        parser.error(f"there is no file {options.recording}; give a recording of rounds, or nothing")
    folders = choose_folders(options)
    application = build_application()
    instance, crashes = Instance(folders.data), CrashWatch(folders)
    try:
        folders.create()
        if not instance.claim():
            instance.hand_over(str(options.recording.absolute()) if options.recording else "")
            return 0
        _keep_log(folders)
        report = crashes.begin()
    except OSError as error:
        parser.error(f"the folder for settings and logs cannot be used: {error}; give another with --data-dir")
    except InputError as error:
        parser.error(str(error))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl+C on a terminal ends the window, and with it the engine
    window = build_window(application, folders, options)
    begin_life(Lifecycle(window, instance), window, report, options.recording)
    window.show()
    code = application.exec()
    window.link.close()
    window.models.close()
    window.link.wait_closed()
    crashes.end()
    instance.release()
    return code


def begin_life(life: Lifecycle, window: MainWindow, report: Path | None, recording: Path | None) -> None:
    """Tell what happened to the last window and of newer versions, and open what was given."""
    if report is not None:
        life.tell_of_crash(report)
    if recording is not None:
        life.open_recording(recording)
    preferences = window.settings.current
    if preferences.news_address and not preferences.offline:
        life.ask_for_news(preferences.news_address)


def choose_folders(options: argparse.Namespace) -> Folders:
    """Those of the command line, else those beside the program if they were made once, else the platform's."""
    if options.data_dir:
        return folders_below(options.data_dir)
    if options.portable or portable_folder().is_dir():
        return folders_below(portable_folder())
    return platform_folders()


def build_application() -> QApplication:
    """The Qt application, by the name and the icon that a desktop knows it by."""
    application = QApplication(sys.argv[:1])
    application.setApplicationName("coppice")
    application.setApplicationDisplayName("Coppice")
    application.setDesktopFileName("coppice")
    application.setWindowIcon(application_icon())
    return application


def build_window(application: QApplication, folders: Folders, options: argparse.Namespace) -> MainWindow:
    """The window with everything behind it; the engine starts when it is shown."""
    settings = SettingsFile(folders.settings_file)
    install(application, language_of(settings.current.language))
    manager = runtime_manager(folders)
    folders = with_prepared(folders, settings.current.prepared_folder)
    link = EngineLink(engine_program(folders.engine_log, manager))
    theme = Theme(application)
    theme.follow(settings.current)
    window = MainWindow(link, settings, folders, theme, wanted_pair(options, settings.current))
    connect_runtime(window, manager)
    gc.freeze()  # what lives as long as the window need not be searched for garbage again and again: that took 40 ms
    return window


def with_prepared(folders: Folders, prepared: str) -> Folders:
    """The folders with the one for prepared models that a person has set; ours, where that one cannot be made."""
    if not prepared:
        return folders
    wanted = replace(folders, cache=Path(prepared).expanduser())
    try:
        wanted.create()
    except OSError as error:
        _log.warning("The folder for prepared models %s cannot be used: %s", wanted.cache, error)
        return folders
    return wanted


def wanted_pair(options: argparse.Namespace, settings: Settings) -> LoadOptions:
    """The pair of the command line, else the last one; a draft that was not named does not outlive its target.

    The target's other load options are those of the last time that it was loaded.
    """
    if options.target is None:
        return last_load(settings, LoadOptions(settings.target, _absolute(options.draft or settings.draft)))
    return last_load(settings, LoadOptions(_absolute(options.target), _absolute(options.draft or LoadOptions().draft)))


def _absolute(source: str) -> str:
    """A folder keeps its meaning when the application is started from elsewhere; other sources stay as they are."""
    path = Path(source).expanduser()
    return str(path.absolute()) if path.is_dir() else source


def build_parser() -> argparse.ArgumentParser:
    """The command line; what is wrong with it is told in one line."""
    parser = _Parser(
        prog="coppice",
        description="Chat with a language model that is bigger than your GPU.",
        epilog="coppice download REPO gets a model from the hub without a window; see coppice download --help.",
    )
    parser.add_argument("--target", metavar="SOURCE", help="'embedded', a model folder, or a hub id in the local cache")
    parser.add_argument("--draft", metavar="SOURCE", help="the same for the draft model; 'none' for no speculation")
    parser.add_argument("--data-dir", metavar="DIR", type=Path, help="holds everything the application writes")
    parser.add_argument(
        "--portable",
        action="store_true",
        help="keep all of that in the folder 'coppice-data' beside the program, now and whenever that folder is there",
    )
    parser.add_argument("recording", metavar="RECORDING", type=Path, nargs="?", help="a recording of rounds to look at")
    parser.add_argument("--version", action="version", version=f"coppice {__version__}")
    return parser


def _keep_log(folders: Folders) -> None:
    """What goes wrong in the window goes to a file; a person at a terminal sees it too."""
    file = RotatingFileHandler(folders.application_log, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")
    logging.basicConfig(
        level=logging.INFO, handlers=[file, logging.StreamHandler()], format="%(asctime)s %(levelname)s %(message)s"
    )
    sys.excepthook = _log_exception


def _log_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _log.error("An error was not handled", exc_info=(kind, error, trace))
