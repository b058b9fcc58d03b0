"""Zoom, tint, smooth output and the actions that copy: how the conversation is shown, and what is remembered of it."""

from dataclasses import replace

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction

from app.chat.panel import ChatPanel
from app.chat.text.document_style import LARGEST, SMALLEST, STEP
from app.settings.preferences import TINT_CHANCE, TINT_OFF, TINT_ORIGIN
from app.settings.store import SettingsFile
from app.ui.actions import Actions


class ViewOptions(QObject):
    """Connects the actions with the view, and remembers what was chosen."""

    token_hovered = Signal(int, int)  # request and number of the round that the text under the mouse is from, or 0, -1
    token_chosen = Signal(int, int)  # the same of text that was clicked

    def __init__(self, panel: ChatPanel, settings: SettingsFile, parent: QObject) -> None:
        super().__init__(parent)
        self._view = view = panel.view
        self._legend = panel.legend
        self._settings = settings
        self._tints: dict[str, QAction] = {}
        view.zoom_requested.connect(self.zoom)
        view.token_hovered.connect(self.token_hovered)
        view.token_chosen.connect(self.token_chosen)
        self._legend.closed.connect(lambda: self.tint(TINT_OFF))
        self.follow_settings()

    def follow_settings(self) -> None:
        """Show the text as it was last chosen, and as Preferences say."""
        kept = self._settings.current
        self._view.autoscroll = kept.autoscroll
        self._show(zoom=min(max(kept.chat_zoom, SMALLEST), LARGEST), tint=kept.token_tint, smooth=kept.smooth)

    def connect_actions(self, actions: Actions) -> None:
        """Have the window's actions do what they say."""
        actions.register(
            zoom_in=lambda: self.zoom(1),
            zoom_out=lambda: self.zoom(-1),
            zoom_reset=lambda: self.zoom(0),
            edit_question=self._view.edit_last_question,
            copy_answer=self._view.copy_last_answer,
            copy_conversation=self._view.copy_conversation,
        )
        self._tints = {TINT_ORIGIN: actions.tint, TINT_CHANCE: actions.tint_chances}
        for kind, action in self._tints.items():
            action.setChecked(self._view.look.tint == kind)
            action.triggered.connect(lambda wanted, kind=kind: self.tint(kind if wanted else TINT_OFF))

    def zoom(self, steps: int) -> None:
        """Make the text so many steps larger; 0 brings it back to its normal size."""
        percent = min(max(self._view.look.zoom + steps * STEP, SMALLEST), LARGEST) if steps else 100
        self._settings.change(chat_zoom=percent)
        self._show(zoom=percent)

    def tint(self, kind: str) -> None:
        """Show whose guess the tokens were, or how likely they were, or neither."""
        self._settings.change(token_tint=kind)
        self._show(tint=kind)

    def _show(self, **changes: object) -> None:
        look = replace(self._view.look, **changes)  # type: ignore[arg-type]
        if look != self._view.look:
            self._view.set_look(look)
        for kind, action in self._tints.items():
            action.setChecked(look.tint == kind)
        self._legend.show_tint(look.tint)
