"""Builds the program and its first window, in front of an engine that may have begun to start."""

import argparse
import gc
import logging
import sys
from dataclasses import replace
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.engine.link import EngineLink
from app.i18n.translation import install, language_of
from app.installation.link import RuntimeLink
from app.installation.runtime.manager import RuntimeManager, runtime_manager
from app.library.estimates import last_load
from app.settings.store import Settings, SettingsFile
from app.shell.application import Garbage
from app.shell.engine_setup import EngineSetup
from app.shell.lifecycle import Lifecycle
from app.shell.program import Program
from app.shell.window import MainWindow
from app.system.paths import Folders, expanded, is_folder
from app.system.plain_text import well_formed
from app.ui.theme import Theme
from engine.protocol.options import EMBEDDED, NO_DRAFT, OWN_HEADS, SELF_DRAFT, WITH_HEADS, LoadOptions

_log = logging.getLogger("coppice")
TURN_SECONDS = 0.001  # of another thread, before the window's is on again: every call into Qt can wait for one


# ---- building -------------------------------------------------------------------------------------------------------


def build_window(
    application: QApplication, folders: Folders, options: argparse.Namespace, link: EngineLink
) -> MainWindow:
    """The first window with the program behind it, which is its `program`."""
    settings = SettingsFile(folders.settings_file)
    install(application, language_of(settings.current.language))
    manager = runtime_manager(folders)
    folders = with_prepared(folders, settings.current.prepared_folder)
    theme = Theme(application)
    theme.follow(settings.current)
    window = connected_window(link, settings, folders, theme, wanted_pair(options, settings.current))
    connect_runtime(window.program, manager)
    sys.setswitchinterval(TURN_SECONDS)
    # What lives as long as the window need not be searched for garbage again and again: that took 40 ms, and another 27
    # for what comes behind the first paint. Until that is there, nothing is searched.
    gc.disable()
    gc.freeze()
    garbage = Garbage(window.program)
    window.deferred.do(gc.freeze)
    window.deferred.do(garbage.begin)
    window.program.closed.connect(garbage.begin)  # it may have been this one, before its turn came
    window.program.closing.connect(garbage.end)
    return window


def connected_window(
    link: EngineLink, settings: SettingsFile, folders: Folders, theme: Theme, wanted: LoadOptions
) -> MainWindow:
    """The first window of a program; nothing is started before it is shown."""
    program = Program(link, settings, folders, theme, wanted)
    window = program.open_window()
    program.begin()
    return window


def connect_runtime(program: Program, manager: RuntimeManager | None) -> None:
    """Where there is an engine's runtime to look after, do so as soon as the window is on the screen."""
    if manager is not None:
        setup = EngineSetup(program, RuntimeLink(manager, program))
        program.front.deferred.do(setup.begin)


def begin_life(life: Lifecycle, program: Program, report: Path | None, recording: Path | None) -> None:
    """Tell what happened to the last window and of newer versions, and open what was given."""
    if report is not None:
        life.tell_of_crash(report)
    if recording is not None:
        program.front.deferred.do(lambda: program.front.open_recording(recording))
    preferences = program.settings.current
    if preferences.news_address and not preferences.offline:
        life.ask_for_news(preferences.news_address)


def with_prepared(folders: Folders, prepared: str) -> Folders:
    """The folders with the one for prepared models that a person has set; ours, where that one cannot be made."""
    if not prepared:
        return folders
    wanted = replace(folders, cache=expanded(prepared))
    try:
        wanted.create()
    except OSError as error:
        _log.warning("The folder for prepared models %s cannot be used: %s", wanted.cache, error)
        return folders
    return wanted


_NO_FOLDERS = ("auto", EMBEDDED, NO_DRAFT, SELF_DRAFT, OWN_HEADS)


def wanted_pair(options: argparse.Namespace, settings: Settings) -> LoadOptions:
    """The pair of the command line, else the last one; a draft that was not named does not outlive its target.

    The target's other load options are those of the last time that it was loaded.
    """
    if options.target is None:
        return last_load(settings, LoadOptions(settings.target, _absolute(options.draft or settings.draft)))
    return last_load(settings, LoadOptions(_absolute(options.target), _absolute(options.draft or LoadOptions().draft)))


def _absolute(source: str) -> str:
    """A folder keeps its meaning when the application is started from elsewhere; other sources stay as they are.

    So do the engine's own words, though a folder beside may be called like one of them.
    """
    name = source.removesuffix(WITH_HEADS)
    path = expanded(name)
    is_path = is_folder(path) and source not in _NO_FOLDERS
    return f"{path.absolute()}{source[len(name) :]}" if is_path else well_formed(source)
