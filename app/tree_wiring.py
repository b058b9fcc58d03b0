"""Connects the tree panel with the engine, the chat and the settings, on behalf of the window."""

from dataclasses import replace

from app.chat.controller import ChatController
from app.engine_link import EngineLink
from app.settings import SettingsFile
from app.tree.panel import TreePanel


def connect_tree(panel: TreePanel, link: EngineLink, chat: ChatController, settings: SettingsFile) -> None:
    """Let the panel see what the engine does, and the chat get what is wished for in the panel."""

    def change_budget(budget: int) -> None:
        chat.change_settings(replace(chat.generation, budget=budget))

    panel.set_way(settings.current.tree_way)
    panel.set_budget(chat.generation.budget)
    link.events_arrived.connect(panel.on_events)
    chat.asked.connect(panel.follow)
    chat.conversation_replaced.connect(panel.clear)
    chat.settings_changed.connect(lambda generation: panel.set_budget(generation.budget))
    panel.command_wanted.connect(link.look)
    panel.way_chosen.connect(lambda way: settings.change(tree_way=way))
    panel.budget_wanted.connect(change_budget)
