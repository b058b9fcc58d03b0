"""Connects the tree panel with the engine, the chat and the settings, on behalf of the window."""

from dataclasses import replace

from app.chat.controller import ChatController
from app.chat.conversation_view import ConversationView
from app.chat.reading import Reading
from app.chat.round_keeper import RoundKeeper
from app.engine_link import EngineLink
from app.settings import SettingsFile
from app.translation import tr
from app.tree.panel import TreePanel


def connect_tree(panel: TreePanel, link: EngineLink, chat: ChatController, settings: SettingsFile) -> None:
    """Let the panel see what the engine does, and the chat get what is wished for in the panel."""

    def change_budget(budget: int) -> None:
        chat.change_settings(replace(chat.generation, budget=budget))

    panel.set_way(settings.current.tree_way)
    panel.set_budget(chat.generation.budget)
    link.events_arrived.connect(panel.on_events)
    chat.asked.connect(panel.follow)
    chat.answering_changed.connect(panel.set_answering)
    chat.conversation_replaced.connect(panel.clear)
    chat.settings_changed.connect(lambda generation: panel.set_budget(generation.budget))
    panel.command_wanted.connect(link.look)
    panel.way_chosen.connect(lambda way: settings.change(tree_way=way))
    panel.budget_wanted.connect(change_budget)


def connect_rounds(
    panel: TreePanel, rounds: RoundKeeper, chat: ChatController, view: ConversationView, reading: Reading
) -> None:
    """Bring the rounds of a stored conversation into the panel, and lead from a round to its text and back.

    A rejected guess of a round can become another version of the answer.
    """

    other = tr("This round wrote another version of the answer.")

    def show_round(request: int, index: int) -> None:
        if not view.show_round(request, index):
            panel.tell(other)

    def branch(request: int, index: int, text: str) -> None:
        found = view.beginning_of(request, index)
        if found is None:
            panel.tell(other)
        else:
            panel.player.go_live()
            chat.branch(found[0], found[1] + text)

    rounds.listed.connect(panel.player.put_before)
    rounds.brought.connect(panel.player.bring)
    rounds.origins_found.connect(view.restore_origins)
    panel.player.wanted.connect(rounds.bring)
    panel.round_shown.connect(view.mark_round)
    panel.answer_wanted.connect(show_round)
    panel.branch_wanted.connect(branch)
    reading.token_hovered.connect(panel.glance_at)
    reading.token_chosen.connect(panel.show_round_of)
