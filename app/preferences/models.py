"""The page of models and folders: what can be set, and where the rest lies."""

from pathlib import Path

from PySide6.QtWidgets import QWidget

from app.i18n.translation import tr
from app.preferences.page import OptionsPage
from app.preferences.places import PlaceRow
from app.settings.preferences import MODELS
from app.system.paths import Folders


class ModelsPage(OptionsPage):
    """Adds the hub's cache and the file of all chats, which are shown and not changed here."""

    def __init__(self, folders: Folders, hub_cache: Path, parent: QWidget | None = None) -> None:
        super().__init__(MODELS, tr("Models and folders"), parent)
        hub = tr("Hub cache")
        about_hub = tr("Downloaded models, shared with other programs. HF_HOME moves it.")
        chats = tr("Chats")
        about_chats = tr("All conversations are in one file here.")
        self.hub_cache = PlaceRow(hub, about_hub, hub_cache, self)
        self.chats = PlaceRow(chats, about_chats, folders.data, self)
        self.add(self.hub_cache, f"{hub} {about_hub}")
        self.add(self.chats, f"{chats} {about_chats}")
