"""Builds the window and makes every connection between its parts: the one place that knows all of them."""

import argparse
import gc
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication

from app.engine.link import EngineLink
from app.i18n.translation import install, language_of, tr
from app.installation.link import RuntimeLink
from app.installation.runtime.manager import RuntimeManager, runtime_manager
from app.library.estimates import last_load
from app.settings.store import Settings, SettingsFile
from app.shell.application import Garbage
from app.shell.engine_setup import EngineSetup
from app.shell.lifecycle import Lifecycle
from app.shell.window import ENGINE_NOTICE, LOAD_NOTICE, MainWindow
from app.system.paths import Folders
from app.system.plain_text import well_formed
from app.ui.motion import may_move
from app.ui.notices import Notice
from app.ui.theme import Theme
from engine.protocol.messages import Failed
from engine.protocol.options import EMBEDDED, NO_DRAFT, OWN_HEADS, SELF_DRAFT, WITH_HEADS, LoadOptions

if TYPE_CHECKING:
    from app.tree.panel import TreePanel

_log = logging.getLogger("coppice")
_TURN_SECONDS = 0.001  # of another thread, before the window's is on again: every call into Qt can wait for one


# ---- building -------------------------------------------------------------------------------------------------------


def build_window(
    application: QApplication, folders: Folders, options: argparse.Namespace, link: EngineLink
) -> MainWindow:
    """The window with everything behind it, in front of an engine that may have begun to start."""
    settings = SettingsFile(folders.settings_file)
    install(application, language_of(settings.current.language))
    manager = runtime_manager(folders)
    folders = with_prepared(folders, settings.current.prepared_folder)
    theme = Theme(application)
    theme.follow(settings.current)
    window = connected_window(link, settings, folders, theme, wanted_pair(options, settings.current))
    connect_runtime(window, manager)
    sys.setswitchinterval(_TURN_SECONDS)
    gc.freeze()  # what lives as long as the window need not be searched for garbage again and again: that took 40 ms
    garbage = Garbage(window)
    garbage.begin()
    window.tools.closing.connect(garbage.end)
    return window


def connected_window(
    link: EngineLink, settings: SettingsFile, folders: Folders, theme: Theme, wanted: LoadOptions
) -> MainWindow:
    """A window whose parts know each other; nothing is started before it is shown."""
    window = MainWindow(link, settings, folders, theme, wanted)
    Wiring(window, theme)
    window.begin()
    return window


def connect_runtime(window: MainWindow, manager: RuntimeManager | None) -> None:
    """Where there is an engine's runtime to look after, do so as soon as the window is on the screen."""
    if manager is not None:
        setup = EngineSetup(window, RuntimeLink(manager, window))
        window.deferred.do(setup.begin)


def begin_life(life: Lifecycle, window: MainWindow, report: Path | None, recording: Path | None) -> None:
    """Tell what happened to the last window and of newer versions, and open what was given."""
    if report is not None:
        life.tell_of_crash(report)
    if recording is not None:
        window.deferred.do(lambda: life.open_recording(recording))
    preferences = window.settings.current
    if preferences.news_address and not preferences.offline:
        life.ask_for_news(preferences.news_address)


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
    path = Path(name).expanduser()
    is_folder = path.is_dir() and source not in _NO_FOLDERS
    return f"{path.absolute()}{source[len(name) :]}" if is_folder else well_formed(source)


# ---- connecting -----------------------------------------------------------------------------------------------------


class Wiring(QObject):
    """The connections between the parts of a window, and the few slots that concern several of them."""

    def __init__(self, window: MainWindow, theme: Theme) -> None:
        super().__init__(window)
        self._window = window
        self._connect_engine()
        self._connect_models()
        self._connect_server()
        self._connect_chat()
        self._connect_tree()
        self._connect_telemetry()
        self._connect_notices()
        self._connect_commands()
        window.tools.preferences_changed.connect(self._on_preferences_changed)
        theme.changed.connect(window.set_theme)
        window.engines.begin()

    def _connect_engine(self) -> None:
        window = self._window
        link, library, models, chat = window.switch, window.library, window.models, window.chat
        engines = window.engines
        counter = window.generation_actions.counter
        link.engine_starting.connect(library.on_engine_starting)
        link.engine_starting.connect(self._on_engine_starting)
        link.engine_stopped.connect(library.on_engine_stopped)
        link.engine_stopped.connect(models.on_engine_stopped)
        link.engine_stopped.connect(self._on_engine_stopped)
        for listener in (library, models, chat, window.telemetry, counter, window.tree):
            link.events_arrived.connect(listener.on_events)
        engines.state_changed.connect(window.comparison.on_engine_state)
        for listener in (chat, counter, window.telemetry):
            engines.state_changed.connect(listener.on_engine_state)
        for shown in (window.chat_panel, window.status_area, models):
            engines.state_changed.connect(shown.show_engine_state)

    def _connect_models(self) -> None:
        library, models = self._window.library, self._window.models
        library.pair_loaded.connect(self._on_pair_loaded)
        library.pair_loaded.connect(models.on_pair_loaded)
        library.load_failed.connect(self._on_load_failed)
        models.load_requested.connect(self._window.engines.load)
        models.cancel_requested.connect(library.cancel)
        self._window.status_area.cancel_requested.connect(library.cancel)

    def _connect_server(self) -> None:
        window, server = self._window, self._window.server.controller
        window.link.engine_stopped.connect(server.on_engine_stopped)
        window.link.events_arrived.connect(server.on_events)
        window.library.state_changed.connect(server.on_engine_state)
        window.tools.preferences_changed.connect(server.on_settings_changed)
        window.tools.server_wanted.connect(window.server.open)

    def _connect_chat(self) -> None:
        window = self._window
        window.chat_panel.follow(window.chat)
        window.chat.answering_changed.connect(window.status_area.show_answering)
        window.chat.answering_changed.connect(self._on_answering_changed)
        window.conversations.panel.shown_wanted.connect(window.chats_dock.show)
        window.conversations.deleted.connect(window.kept.forget_chat)
        window.link.events_arrived.connect(window.kept.on_events)
        window.tools.preferences_changed.connect(window.kept.follow_settings)

    def _connect_tree(self) -> None:
        """Now what makes a panel necessary, the rest as soon as there is one."""
        window, tree, rounds = self._window, self._window.tree, self._window.conversations.rounds
        tree.when_made(self._connect_tree_panel)
        window.chat.asked.connect(tree.on_asked)
        rounds.listed.connect(tree.on_listed)
        rounds.origins_found.connect(window.chat_panel.view.restore_origins)
        window.view_options.token_hovered.connect(tree.glance_at)
        window.view_options.token_chosen.connect(tree.show_round_of)

    def _connect_tree_panel(self, panel: "TreePanel") -> None:
        """Let the panel see what the engine does, and the others get what is wished for in the panel."""
        window = self._window
        link, chat, settings, rounds = window.switch, window.chat, window.settings, window.conversations.rounds
        panel.set_way(settings.current.tree_way)
        panel.set_motion(may_move(settings.current.reduce_motion))
        panel.set_budget(chat.generation.budget)
        panel.set_answering(chat.is_answering)
        link.events_arrived.connect(panel.on_events)
        chat.answering_changed.connect(panel.set_answering)
        chat.conversation_replaced.connect(panel.clear)
        chat.settings_changed.connect(lambda generation: panel.set_budget(generation.budget))
        panel.command_wanted.connect(link.look)
        panel.way_chosen.connect(lambda way: settings.change(tree_way=way))
        panel.budget_wanted.connect(lambda budget: chat.change_settings(replace(chat.generation, budget=budget)))
        rounds.brought.connect(panel.player.bring)
        panel.player.wanted.connect(rounds.bring)
        rounds.figures_brought.connect(panel.filling.take)
        panel.filling.wanted.connect(rounds.bring_figures)
        panel.round_shown.connect(window.chat_panel.view.mark_round)
        panel.answer_wanted.connect(self._show_round_in_answer)
        panel.branch_wanted.connect(self._branch)

    def _connect_telemetry(self) -> None:
        window, telemetry, rounds = self._window, self._window.telemetry, self._window.conversations.rounds
        rounds.listed.connect(telemetry.on_listed)
        rounds.figures_brought.connect(telemetry.on_brought)
        telemetry.figures_wanted.connect(rounds.bring_figures)
        window.chat.asked.connect(telemetry.on_asked)
        window.chat.conversation_replaced.connect(telemetry.clear)
        telemetry.follow(window.actions_.telemetry, window.tree.show_round_of)
        window.chat_panel.view.cause_chosen.connect(telemetry.show_cause)
        window.chat_panel.view.compare_requested.connect(window.comparison.open)
        telemetry.texts_wanted.connect(window.comparison.open)

    def _connect_notices(self) -> None:
        window, notices = self._window, self._window.notices
        withdrawing = (
            *(window.chat, window.conversations, window.unheard_stop),
            *(window.server, window.engines, window.comparison, window.kept),
        )
        for teller in (window.models, window.tools, *withdrawing):
            teller.notice_raised.connect(notices.add)
        for teller in withdrawing:
            teller.notice_withdrawn.connect(notices.dismiss)
        notices.diagnostics_requested.connect(window.actions_.copy_diagnostics.trigger)

    def _connect_commands(self) -> None:
        """Every part registers for the commands that it carries out; here stand those of the window itself."""
        window, do = self._window, self._window.actions_
        do.register(
            search_chats=self._on_search_chats,
            chats=self._on_chats_triggered,
            models=window.open_models,
            restart_engine=window.engines.restart,
            server=window.server.open,
            quit=window.close,
            compare=lambda _checked: window.comparison.open(),
            write=lambda _checked: window.chat_panel.setFocus(),
            tree=self._on_tree_triggered,
            generation=window.open_generation,
        )
        do.full_screen.toggled.connect(self._on_full_screen)
        window.chats_dock.toggleViewAction().toggled.connect(do.chats.setChecked)
        window.tree_dock.toggleViewAction().toggled.connect(do.tree.setChecked)
        for part in (window.conversations, window.generation_actions, window.view_options):
            part.connect_actions(do)
        window.tools.follow(do, window.conversations, window.library, window.models)
        self._on_answering_changed(False)

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _on_engine_starting(self) -> None:
        self._window.notices.dismiss(ENGINE_NOTICE)

    def _on_engine_stopped(self, ending: Failed) -> None:
        restart = self._window.library.restart
        words = tr("Restart engine")
        self._window.notices.add(Notice(ENGINE_NOTICE, ending.message, ending.hint, action=words, on_action=restart))

    def _on_pair_loaded(self, options: LoadOptions) -> None:
        self._window.settings.change(target=options.target, draft=options.draft)

    def _on_load_failed(self, failed: Failed) -> None:
        window = self._window
        if window.models.is_open:
            window.models.on_load_failed(failed)
        else:
            words = tr("Models…")
            window.notices.add(
                Notice(LOAD_NOTICE, failed.message, failed.hint, action=words, on_action=window.open_models)
            )

    def _on_answering_changed(self, answering: bool) -> None:
        window = self._window
        window.actions_.stop.setEnabled(answering)
        window.actions_.regenerate.setEnabled(not answering and not window.chat.conversation.is_empty)

    def _on_chats_triggered(self, shown: bool) -> None:
        self._window.chats_dock.setVisible(shown)

    def _on_tree_triggered(self, shown: bool) -> None:
        self._window.tree_dock.setVisible(shown)

    def _on_search_chats(self) -> None:
        search = self._window.conversations.panel.search
        self._window.chats_dock.show()
        search.setFocus()
        search.selectAll()

    def _on_full_screen(self, full: bool) -> None:
        self._window.setWindowState(Qt.WindowState.WindowFullScreen if full else Qt.WindowState.WindowNoState)

    def _on_preferences_changed(self) -> None:
        window = self._window
        window.chat_panel.composer.field.sends_with_ctrl = window.settings.current.send_key == "ctrl-return"
        window.view_options.follow_settings()
        moves = may_move(window.settings.current.reduce_motion)
        window.tree.set_motion(moves)
        window.setAnimated(moves)  # panes that are dragged

    def _show_round_in_answer(self, request: int, index: int) -> None:
        if not self._window.chat_panel.view.show_round(request, index):
            self._tell_of_another_version()

    def _branch(self, request: int, index: int, text: str) -> None:
        """A rejected guess of a round becomes another version of the answer."""
        window = self._window
        found = window.chat_panel.view.beginning_of(request, index)
        if found is None:
            self._tell_of_another_version()
        else:
            window.tree_panel.player.go_live()
            window.chat.branch(found[0], found[1] + text)

    def _tell_of_another_version(self) -> None:
        self._window.tree_panel.tell(tr("This round wrote another version of the answer."))
