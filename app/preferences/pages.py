"""Every page of Preferences, in the order of the list."""

from pathlib import Path

from PySide6.QtWidgets import QWidget

from app.i18n.translation import tr
from app.preferences.advanced import AdvancedPage
from app.preferences.dialog import PreferencesDialog
from app.preferences.models import ModelsPage
from app.preferences.network import NetworkPage
from app.preferences.page import OptionsPage
from app.preferences.token_box import TokenDesk
from app.settings.preferences import APPEARANCE, CHAT, MEMORY, SPECULATION
from app.settings.store import SettingsFile
from app.system.paths import Folders


def preferences_dialog(
    settings: SettingsFile,
    folders: Folders,
    hub_cache: Path,
    desk: TokenDesk,
    parent: QWidget | None = None,
    engine: OptionsPage | None = None,
) -> PreferencesDialog:
    """The dialog with all its pages; most of them are nothing but their options. `engine`: of a runtime of its own."""
    advanced = AdvancedPage(folders)
    pages = (
        OptionsPage(APPEARANCE, tr("Appearance")),
        OptionsPage(CHAT, tr("Chat")),
        ModelsPage(folders, hub_cache),
        OptionsPage(MEMORY, tr("Memory")),
        OptionsPage(SPECULATION, tr("Speculation")),
        *([engine] if engine is not None else []),
        NetworkPage(desk),
        advanced,
    )
    dialog = PreferencesDialog(settings, pages, parent)
    advanced.reset_requested.connect(dialog.reset_all)
    return dialog
