"""Makes every connection between the parts of a window, and from them to the program: the one place that knows all."""

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication

from app.chat.generation.context_fit import SUMMARY_NOTICE
from app.chat.generation.controller import COUNT_NOTICE, FAILED_NOTICE, STEPS_NOTICE
from app.chat.panel import ATTACHMENT_NOTICE
from app.comparison.feature import COMPARISON_NOTICE
from app.engine.state import EngineState
from app.i18n.translation import tr
from app.shell.window import EMPTY_NOTICE, ENGINE_NOTICE, MainWindow
from app.telemetry.comparison import KeptAnswer
from app.ui.motion import may_move
from engine.protocol.messages import ChatMessage
from engine.protocol.options import GenerateOptions

if TYPE_CHECKING:
    from app.tree.exports.exports import Exports
    from app.tree.panel import TreePanel


OF_ONE_CHAT = (FAILED_NOTICE, COUNT_NOTICE, STEPS_NOTICE, SUMMARY_NOTICE, ATTACHMENT_NOTICE, COMPARISON_NOTICE)
"""Notices that say something of the conversation that is shown: over another one they would be wrong."""


class WindowWiring(QObject):
    """The connections between the parts of a window, and the few slots that concern several of them."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._connect_engine()
        self._connect_chat()
        self._connect_tree()
        self._connect_telemetry()
        self._connect_notices()
        self._connect_commands()
        window.program.preferences.changed.connect(self._on_preferences_changed)
        window.program.theme.changing.connect(window.chat_panel.view.column.drop_unseen)
        window.program.theme.changed.connect(window.set_theme)
        self._catch_up()

    def _connect_engine(self) -> None:
        """The library and the models have heard of everything by then."""
        window = self._window
        program, engine, chat = window.program, window.engine, window.chat
        counter = window.generation_actions.counter
        program.switch.engine_starting.connect(self._on_engine_starting)
        program.switch.engine_stopped.connect(window.tell_of_stopped_engine)
        for listener in (chat, window.telemetry, counter, window.tree):
            engine.events_arrived.connect(listener.on_events)
        for follower in (window.comparison, chat, counter, window.telemetry):
            program.engines.state_changed.connect(follower.on_engine_state)
        for shown in (window.chat_panel, window.status_area):
            program.engines.state_changed.connect(shown.show_engine_state)
        window.status_area.cancel_requested.connect(program.library.cancel)
        program.library.state_changed.connect(self._on_library_state)
        for missed in (window.status_area.pressed, window.chat_panel.composer.engine_missed):
            missed.connect(window.tell_of_missing_engine)
        program.engines.state_changed.connect(self._on_engine_state)

    def _catch_up(self) -> None:
        """A window that is opened later has not heard what the others have."""
        window, program = self._window, self._window.program
        state, counter = program.engines.state, window.generation_actions.counter
        self._on_preferences_changed()
        self._on_library_state(program.library.state)
        if program.ending:
            window.tell_of_stopped_engine(program.ending)
        if program.library.state.pair:
            window.tree.on_events([program.library.state.pair])
        if state != EngineState():
            for follower in (window.comparison, window.chat, counter, window.telemetry):
                follower.on_engine_state(state)
            for shown in (window.chat_panel, window.status_area):
                shown.show_engine_state(state)

    def _connect_chat(self) -> None:
        window = self._window
        window.conversations.keep_unsent(window.chat_panel.composer, window.chat_panel.view)
        window.chat_panel.follow(window.chat)
        window.chat.tools.follow(window.program.toolbox)
        window.chat_panel.composer.tools.preferences_wanted.connect(window.program.toolbox.page_wanted)
        window.chat_panel.composer.tray.passed_on.connect(window.open_file)
        window.chat.tools.asked.connect(lambda: QApplication.alert(window))  # which nobody may look at meanwhile
        window.chat.answering_changed.connect(window.status_area.show_answering)
        window.chat.answer_changed.connect(window.status_area.show_answer)
        window.conversations.panel.shown_wanted.connect(window.chats_dock.show)
        window.conversations.panel.show_closed(window.settings.current.closed_folders)
        window.conversations.panel.folders_closed.connect(lambda names: window.settings.change(closed_folders=names))
        window.chat_panel.view.branch_requested.connect(window.conversations.branch)
        autosave = window.conversations.autosave
        autosave.forward_wanted.connect(window.come_forward)
        for changed in (autosave.conversations_changed, autosave.current_changed):
            changed.connect(window.show_title)
        window.conversations.window_wanted.connect(window.program.show_conversation)
        window.conversations.deleted.connect(window.program.kept.forget_chat)
        window.chat.removed.connect(lambda _: window.program.kept.forget_chat(autosave.current))

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
        engine, chat, settings, rounds = window.engine, window.chat, window.settings, window.conversations.rounds
        panel.set_way(settings.current.tree_way)
        panel.set_motion(may_move(settings.current.reduce_motion))
        panel.set_budget(chat.generation.budget)
        panel.set_answering(chat.is_answering)
        engine.events_arrived.connect(panel.on_events)
        chat.answering_changed.connect(panel.set_answering)
        chat.conversation_replaced.connect(panel.clear)
        chat.settings_changed.connect(lambda generation: panel.set_budget(generation.budget))
        panel.command_wanted.connect(engine.look)
        panel.exports.set_choices(settings.current.exports)
        panel.exports.chosen.connect(lambda kept: settings.change(exports=kept))
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
        telemetry.comparison.kept = self._kept_answer
        telemetry.follow(window.actions_.telemetry, window.tree.show_round_of)
        window.chat_panel.view.cause_chosen.connect(telemetry.show_cause)
        window.chat_panel.view.compare_requested.connect(window.comparison.open)
        telemetry.texts_wanted.connect(window.comparison.open)

    def _connect_notices(self) -> None:
        window, notices = self._window, self._window.notices
        withdrawing = (window.chat, window.conversations, window.comparison)
        for teller in (window.tools, *withdrawing):
            teller.notice_raised.connect(notices.add)
        for teller in withdrawing:
            teller.notice_withdrawn.connect(notices.dismiss)
        for key in OF_ONE_CHAT:
            window.chat.conversation_replaced.connect(lambda _, key=key: notices.dismiss(key))
        notices.diagnostics_requested.connect(window.actions_.copy_diagnostics.trigger)

    def _connect_commands(self) -> None:
        """Every part registers for the commands that it carries out; here stand those of the window itself."""
        window, program, do = self._window, self._window.program, self._window.actions_
        for shown_here in (do.new_chat, do.write, do.search_chats, do.palette):
            shown_here.triggered.connect(self._come_from_dialog)
        do.register(
            new_window=program.show_new_window,
            close_window=window.close,
            search_chats=self._on_search_chats,
            chats=self._on_chats_triggered,
            models=window.open_models,
            unload=program.library.unload,
            restart_engine=window.engines.restart,
            server=program.server.open,
            quit=program.quit,
            preferences=lambda: program.preferences.open(program.models.tokens),
            compare=lambda _checked: window.comparison.open(),
            write=lambda _checked: window.chat_panel.setFocus(),
            tree=self._on_tree_triggered,
            generation=window.open_generation,
            export_picture=lambda _checked: self._exports().export_picture(),
            export_animation=lambda _checked: self._exports().export_animation(),
            copy_picture=lambda _checked: self._exports().copy_picture(),
            tour=window.begin_tour,
            full_screen=self._on_full_screen,
        )
        window.chats_dock.toggleViewAction().toggled.connect(do.chats.setChecked)
        window.tree_dock.toggleViewAction().toggled.connect(do.tree.setChecked)
        for part in (window.conversations, window.generation_actions, window.view_options, window.finding):
            part.connect_actions(do)
        window.tools.follow(
            do,
            window.conversations,
            window.library,
            lambda name: program.preferences.open(program.models.tokens, name),
        )

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _on_engine_starting(self) -> None:
        self._window.notices.dismiss(ENGINE_NOTICE)

    def _on_library_state(self, state: EngineState) -> None:
        self._window.actions_.unload.offer("" if state.ready else tr("No model is loaded."))

    def _on_engine_state(self, state: EngineState) -> None:
        if state.ready or state.busy:
            self._window.notices.dismiss(EMPTY_NOTICE)

    def _on_chats_triggered(self, shown: bool) -> None:
        self._window.chats_dock.setVisible(shown)

    def _on_tree_triggered(self, shown: bool) -> None:
        self._window.tree_dock.setVisible(shown)

    def _exports(self) -> "Exports":
        """What is exported is what is shown: a tree that is hidden shows no round."""
        self._window.tree_dock.show()
        return self._window.tree_panel.exports

    def _on_search_chats(self) -> None:
        search = self._window.conversations.panel.search
        self._window.chats_dock.show()
        search.setFocus()
        search.selectAll()

    def _come_from_dialog(self) -> None:
        """What was asked for in a dialog beside the window is shown in the window."""
        if not self._window.isActiveWindow():
            self._window.come_forward()

    def _on_full_screen(self, full: bool) -> None:
        state, whole = self._window.windowState(), Qt.WindowState.WindowFullScreen
        self._window.setWindowState(state | whole if full else state & ~whole)  # a maximised one is so again

    def _on_preferences_changed(self) -> None:
        window = self._window
        sends_with_ctrl = window.settings.current.send_key == "ctrl-return"
        window.chat_panel.composer.field.sends_with_ctrl = sends_with_ctrl
        window.chat_panel.view.set_send_key(sends_with_ctrl)
        window.view_options.follow_settings()
        moves = may_move(window.settings.current.reduce_motion)
        window.tree.set_motion(moves)
        window.setAnimated(moves)  # panes that are dragged

    def _kept_answer(self) -> KeptAnswer | None:
        """The last answer of a conversation of another day, to be compared."""
        chat = self._window.chat
        answer = chat.conversation.last_answer
        if answer is None or not answer.ending.is_final or answer.statistics is None:
            return None

        def question() -> tuple[tuple[ChatMessage, ...], GenerateOptions]:
            return chat.prompt_of(answer.id), chat.next_options

        return KeptAnswer(answer.statistics, answer.text.removeprefix(answer.beginning), answer.answerer, question)

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
