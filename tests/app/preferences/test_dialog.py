"""The Preferences dialog through its widgets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QListWidget, QPushButton
from pytestqt.qtbot import QtBot

from app.engine.program import EngineProgram
from app.preferences.dialog import PreferencesDialog
from app.preferences.memory_page import MemoryPage
from app.preferences.page import OptionRow, OptionsPage
from app.preferences.pages import AdvancedPage, NetworkPage, preferences_dialog
from app.settings.generation import GenerationSettings
from app.settings.kinds import options_of
from app.settings.preferences import Preferences
from app.settings.store import Settings, SettingsFile
from app.system.paths import Folders
from app.tools.servers import ToolServers


class Desk(QObject):
    """A token desk without a keyring."""

    told = Signal(str, str, bool)
    failed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def look(self) -> None:
        """Only noted."""
        self.said.append("look")

    def keep(self, secret: str) -> None:
        """Only noted."""
        self.said.append(f"keep {secret}")

    def forget(self) -> None:
        """Only noted."""
        self.said.append("forget")


class Keeper(QObject):
    """Knows what is kept of chats, without a folder."""

    measured = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def measure(self) -> None:
        """Only noted."""
        self.said.append("measure")

    def forget_all(self) -> None:
        """Only noted."""
        self.said.append("forget")


@pytest.fixture
def controller() -> Desk:
    """The desk that the dialog talks to."""
    return Desk()


@pytest.fixture
def keeper() -> Keeper:
    """Who keeps."""
    return Keeper()


@pytest.fixture
def dialog(
    qtbot: QtBot, settings: SettingsFile, folders: Folders, controller: Desk, keeper: Keeper
) -> PreferencesDialog:
    """The dialog, open."""
    tools = ToolServers(EngineProgram(("nothing",), folders.engine_log), settings, folders)
    made = preferences_dialog(settings, folders, Path("/cache/hub"), controller, keeper, tools)
    qtbot.addWidget(made)
    made.show()
    return made


def row(dialog: PreferencesDialog, name: str) -> OptionRow:
    """The row of an option."""
    return next(page.rows[name] for page in dialog.pages if name in page.rows)


def page_of(dialog: PreferencesDialog, kind: type[OptionsPage]) -> Any:
    """The page of a kind of its own."""
    return next(page for page in dialog.pages if type(page) is kind)


def test_every_option_that_is_declared_stands_on_one_page(dialog: PreferencesDialog) -> None:
    shown = [name for page in dialog.pages for name in page.rows]
    inner = {f"generation.{name}" for name in options_of(GenerationSettings())}
    assert sorted(shown) == sorted(set(options_of(Settings())) | inner)
    assert set(options_of(Preferences())) <= set(shown)


def test_the_rows_of_a_page_are_made_when_it_is_first_shown(dialog: PreferencesDialog) -> None:
    def made() -> list[bool]:
        return [bool(page.findChildren(OptionRow)) for page in dialog.pages]

    assert made() == [True, *[False] * (len(dialog.pages) - 1)]
    dialog.list.setCurrentRow(1)
    assert made()[:3] == [True, True, False]


def test_defaults_are_legal() -> None:
    for record in (Settings(), GenerationSettings()):
        for name, option in options_of(record).items():
            assert option.allows(getattr(record, name)), name


OTHERS: list[tuple[str, Any]] = [
    ("theme", "dark"),
    ("high_contrast", True),
    ("text_size", 130),
    ("reduce_motion", True),
    ("send_key", "ctrl-return"),
    ("model_folders", ("/models",)),
    ("prepared_folder", str(Path("/fast/prepared").absolute())),
    ("vram_limit_gb", 7.5),
    ("keep_texts", False),
    ("keep_limit_gb", 2.5),
    ("lookup", False),
    ("proxy", "http://proxy.example:3128"),
    ("log_level", "debug"),
]


@pytest.mark.parametrize(("name", "value"), OTHERS)
def test_a_change_is_applied_kept_and_restored(
    dialog: PreferencesDialog, settings: SettingsFile, folders: Folders, qtbot: QtBot, name: str, value: object
) -> None:
    assert not dialog.apply_button.isEnabled()
    row(dialog, name).editor.show_value(value)
    assert dialog.apply_button.isEnabled()
    assert getattr(settings.current, name) != value
    with qtbot.waitSignal(dialog.applied):
        dialog.apply_button.click()
    assert getattr(SettingsFile(folders.settings_file).current, name) == value
    assert not dialog.apply_button.isEnabled()
    page = next(page for page in dialog.pages if name in page.rows)
    page.defaults.click()
    dialog.apply()
    assert getattr(settings.current, name) == getattr(Settings(), name)


def test_what_new_chats_begin_with_is_kept_where_it_belongs(dialog: PreferencesDialog, settings: SettingsFile) -> None:
    row(dialog, "generation.method").editor.show_value("chain")
    row(dialog, "generation.budget").editor.show_value(256)
    dialog.apply()
    assert (settings.current.generation.method, settings.current.generation.budget) == ("chain", 256)


def test_presets_are_offered_by_name(dialog: PreferencesDialog, settings: SettingsFile) -> None:
    settings.change(presets={"Precise": GenerationSettings(temperature=0.0), "bold": GenerationSettings()})
    dialog.load()
    field = row(dialog, "default_preset").editor.field
    assert isinstance(field, QComboBox)
    assert [field.itemText(index) for index in range(field.count())] == ["None", "bold", "Precise"]
    field.setCurrentIndex(2)
    dialog.apply()
    assert settings.current.default_preset == "Precise"


def test_cancel_keeps_nothing_and_the_next_time_shows_what_holds(
    dialog: PreferencesDialog, settings: SettingsFile
) -> None:
    row(dialog, "theme").editor.show_value("dark")
    dialog.reject()
    assert settings.current == Settings()
    dialog.show()
    assert row(dialog, "theme").editor.value() == "system"


def test_minimising_keeps_what_was_typed(dialog: PreferencesDialog, qtbot: QtBot) -> None:
    dialog.search.setText("proxy")
    row(dialog, "proxy").editor.show_value("http://proxy.example:3128")
    dialog.windowHandle().showMinimized()
    qtbot.waitUntil(dialog.isMinimized)
    dialog.windowHandle().showNormal()
    qtbot.waitUntil(lambda: not dialog.isMinimized())
    assert dialog.search.text() == "proxy"
    assert row(dialog, "proxy").editor.value() == "http://proxy.example:3128"
    assert dialog.apply_button.isEnabled()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("proxy", "proxy without a scheme", "http://"),
        ("endpoint", "ftp://hub", "https://"),
        ("prepared_folder", "not/absolute", "full path"),
        ("prepared_folder", __file__, "a file"),
        ("prepared_folder", "~nobody-of-this-name/models", "full path"),
    ],
)
def test_what_cannot_be_used_is_said_beside_its_field_and_not_kept(
    dialog: PreferencesDialog, settings: SettingsFile, name: str, value: str, words: str
) -> None:
    row(dialog, name).editor.show_value(value)
    row(dialog, "theme").editor.show_value("dark")
    dialog.accept()
    assert dialog.isVisible()
    assert settings.current == Settings()
    assert words in row(dialog, name).error.text()
    assert row(dialog, name).error.isVisible(), "the page of the field must be shown"
    assert dialog.focusWidget() is row(dialog, name).editor.field
    row(dialog, name).editor.show_value("")
    assert not row(dialog, name).error.isVisible()
    dialog.accept()
    assert not dialog.isVisible()
    assert settings.current.theme == "dark"


def test_a_folder_that_cannot_be_looked_at_keeps_no_other_option_from_being_changed(
    dialog: PreferencesDialog, settings: SettingsFile
) -> None:
    settings.change(prepared_folder=f"/{'x' * 300}")  # to look at it is an error, as behind a share that has gone
    dialog.load()
    row(dialog, "theme").editor.show_value("dark")
    dialog.accept()
    assert not dialog.isVisible()
    assert settings.current.theme == "dark"


def test_a_change_from_elsewhere_is_not_undone(dialog: PreferencesDialog, settings: SettingsFile) -> None:
    settings.change(model_folders=("/elsewhere",))
    row(dialog, "theme").editor.show_value("light")
    dialog.apply()
    assert settings.current.model_folders == ("/elsewhere",)


def test_the_search_finds_options_on_every_page(dialog: PreferencesDialog) -> None:
    QTest.keyClicks(dialog.search, "memory limit")
    shown = [
        dialog.list.item(place).text() for place in range(dialog.list.count()) if not dialog.list.item(place).isHidden()
    ]
    assert shown == ["Memory"]
    assert row(dialog, "vram_limit_gb").isVisible()
    assert not row(dialog, "place").isVisible()
    dialog.search.setText("no such thing")
    assert dialog.nothing.isVisible()
    QTest.keyClick(dialog.search, Qt.Key.Key_Escape)
    assert dialog.isVisible()
    assert row(dialog, "place").isVisible()


def test_the_search_finds_the_token_and_the_log_folder(dialog: PreferencesDialog) -> None:
    dialog.search.setText("access token")
    assert page_of(dialog, NetworkPage).token.isVisible()
    dialog.search.setText("log folder")
    assert page_of(dialog, AdvancedPage).logs.isVisible()


def test_reset_asks_first(dialog: PreferencesDialog, settings: SettingsFile) -> None:
    settings.change(theme="dark", target="/kept", generation=GenerationSettings(budget=64, system_prompt="Kept"))
    dialog.load()
    page = page_of(dialog, AdvancedPage)
    dialog.list.setCurrentRow(dialog.pages.index(page))
    page.reset.click()
    assert page.question.isVisible()
    page.question.reject()
    assert settings.current.theme == "dark"
    page.reset.click()
    page.confirm.click()
    assert settings.current == Settings(target="/kept", generation=GenerationSettings(system_prompt="Kept"))


def test_the_token_is_looked_for_when_its_page_is_shown(dialog: PreferencesDialog, controller: Desk) -> None:
    assert controller.said == []
    page = page_of(dialog, NetworkPage)
    dialog.list.setCurrentRow(dialog.pages.index(page))
    assert controller.said == ["look"]
    controller.told.emit("••••••••wxyz", "the system's keyring", True)
    assert page.token.state.text() == "••••••••wxyz, from the system's keyring"
    assert page.token.forget.isEnabled()
    page.token.forget.click()
    controller.told.emit("", "", False)
    assert page.token.state.text() == "There is none."
    QTest.keyClicks(page.token.field, " hf_secret ")
    assert page.token.field.echoMode() is QLineEdit.EchoMode.Password
    page.token.keep.click()
    assert controller.said == ["look", "forget", "keep hf_secret"]
    controller.failed.emit("This system has no keyring.")
    assert page.token.error.isVisible()


def test_folders_are_added_and_removed(dialog: PreferencesDialog) -> None:
    editor: Any = row(dialog, "model_folders").editor
    editor._ask = lambda _parent: "/more"
    editor.add.click()
    editor.add.click()
    assert editor.value() == ("/more",)
    editor.field.setCurrentRow(0)
    editor.remove.click()
    assert editor.value() == ()


def test_every_control_has_a_name_and_tab_reaches_it(dialog: PreferencesDialog) -> None:
    kinds = (QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QListWidget)
    for kind in kinds:
        for each in dialog.findChildren(kind):
            inner = each.objectName().startswith("qt_") or isinstance(each.parent(), QLineEdit | QAbstractSpinBox)
            assert inner or each.accessibleName() or getattr(each, "text", str)(), (kind, each.parent())
            if isinstance(each, QPushButton | QComboBox) and not inner:
                assert each.focusPolicy() & Qt.FocusPolicy.TabFocus


def test_escape_and_the_find_key(dialog: PreferencesDialog, qtbot: QtBot) -> None:
    QTest.keyClick(dialog, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert dialog.focusWidget() is dialog.search
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


@pytest.fixture
def wrongly_written(folders: Folders) -> Callable[[str], Settings]:
    """Settings read from a file that somebody has written by hand."""

    def read(content: str) -> Settings:
        folders.settings_file.write_text(content)
        return SettingsFile(folders.settings_file).current

    return read


@pytest.mark.parametrize("name", ["theme", "text_size", "vram_limit_gb", "proxy", "prepared_folder", "log_level"])
def test_a_value_out_of_range_in_the_file_is_the_default(wrongly_written: Callable[[str], Settings], name: str) -> None:
    wrong = {"theme": '"pink"', "text_size": "5000", "vram_limit_gb": "-1", "proxy": '"nonsense"'}
    settings = wrongly_written(f'{{"{name}": {wrong.get(name, chr(34) + "relative" + chr(34))}, "target": "/kept"}}')
    assert settings == Settings(target="/kept")


def test_what_is_kept_of_chats_is_told_and_deleted_after_a_question(
    dialog: PreferencesDialog, keeper: Keeper, qtbot: QtBot
) -> None:
    page: MemoryPage = page_of(dialog, MemoryPage)
    dialog.list.setCurrentRow(dialog.pages.index(page))
    assert keeper.said == ["measure"]
    assert not page.kept.delete.isEnabled()
    keeper.measured.emit(5 * 10**9)
    assert "5.0 GB" in page.kept.taken.text()
    page.kept.delete.click()
    assert page.kept.question.isVisible()
    assert keeper.said == ["measure"], "nothing goes without a yes"
    page.kept.confirm.click()
    assert keeper.said == ["measure", "forget"]
    keeper.measured.emit(0)
    assert not page.kept.delete.isEnabled()
