"""Translations: complete, with the same placeholders, and shown."""

import ast
import importlib.util
import re
import string
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from PySide6.QtCore import QLocale, QTranslator
from PySide6.QtWidgets import QApplication, QMenu

from app.chat.history.records import ConversationRecord
from app.hub.failures import offline
from app.i18n.translation import CONTEXT, LANGUAGES, install, language_of, tr
from app.library.pairing.suggestions import suggestions
from app.library.picker.entry import Entry, Where, unpriced
from app.system.paths import ROOT
from engine.protocol.sentences import say
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("translations", ROOT / "packaging" / "translations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["translations"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


SCRIPT: Any = _script()


@pytest.fixture(scope="module")
def found() -> Any:
    """Every text of the application."""
    return SCRIPT.collect(ROOT)


@pytest.fixture(scope="module")
def german() -> Any:
    """The German translations."""
    return SCRIPT.read(SCRIPT.FOLDER / "coppice_de.ts")


@pytest.fixture
def show(qapp: QApplication) -> Iterator[Callable[[str], None]]:
    """Shows a language, until the test is over."""
    installed: list[QTranslator] = []
    yield lambda language: installed.extend(install(qapp, language))
    for each in installed:
        qapp.removeTranslator(each)


def placeholders(text: str) -> list[str]:
    """What is filled in, with how it is written."""
    named = [f"{name}:{form}" for _, name, form, _ in string.Formatter().parse(text) if name is not None]
    return sorted([*named, *(["%n"] if "%n" in text else [])])


def test_every_text_is_translated_and_nothing_else_is(found: Any, german: Any) -> None:
    assert set(found) - set(german) == set(), "run packaging/translations.sh, then translate"
    assert set(german) - set(found) == set(), "run packaging/translations.sh"
    assert [words.source for words, forms in german.items() if not all(forms)] == []


def test_what_is_said_of_suggested_pairs_is_translated(german: Any) -> None:
    assert {each.about for each in suggestions()} <= {words.source for words in german}


# Of the familiar form; options of a command line, such as --data-dir, are none.
DU = re.compile(r"(?<![\w-])(?:du|dich|dir|dein\w*)(?!\w)", re.IGNORECASE)
DO = re.compile(
    r"(?:^|[.:;,!?] |und |oder )(?:gib|nimm|lies|sieh|lass|prüfe|wähle|starte|beginne|versuche|verbinde|kopiere|lösche|"
    r"schaffe|teste|setze|ändere|kürze|installiere|öffne)(?= )",
    re.IGNORECASE,
)


def test_germans_are_spoken_to_politely(german: Any) -> None:
    familiar = [form for forms in german.values() for form in forms if DU.search(form) or DO.search(form)]
    assert familiar == []


def test_placeholders_and_access_keys_agree(german: Any) -> None:
    for words, forms in german.items():
        for form in forms:
            assert placeholders(form) == placeholders(words.source), words.source
            assert ("&" in form) == ("&" in words.source), words.source


def test_what_is_shipped_is_what_was_translated(german: Any) -> None:
    compiled = QTranslator()
    assert compiled.load("coppice_de", str(SCRIPT.FOLDER))
    for words, forms in german.items():
        shown = compiled.translate(CONTEXT, words.source, None, 1 if words.is_plural else -1)
        assert shown == forms[0], "run packaging/translations.sh"


def test_english_has_its_plurals(found: Any, show: Callable[[str], None]) -> None:
    english = SCRIPT.read(SCRIPT.FOLDER / "coppice_en.ts")
    assert {each for each in found if each.is_plural} == set(english)
    show("en")
    assert (tr("%n passes", n=1), tr("%n passes", n=2)) == ("1 pass", "2 passes")


@pytest.mark.parametrize(("room", "call"), [("app", "tr"), ("app", "mark"), ("app", "say"), ("engine", "say")])
def test_words_that_are_put_together_are_refused(tmp_path: Any, room: str, call: str) -> None:
    (tmp_path / room).mkdir()
    (tmp_path / room / "wrong.py").write_text(f'{call}(f"Hello {{name}}")')
    with pytest.raises(ValueError, match=r"wrong\.py:1"):
        SCRIPT.collect(tmp_path)


def test_the_window_speaks_german(open_window: OpenWindow, show: Callable[[str], None]) -> None:
    show("de")
    window = open_window(FakeLink())
    titles = [menu.title() for menu in window.menuBar().findChildren(QMenu)]
    assert titles[:5] == ["&Datei", "&Bearbeiten", "&Ansicht", "&Modell", "&Hilfe"]
    assert window.actions_.preferences.text() == "&Einstellungen…"
    assert window.status_area.words.text() == "Rechenprozess startet"
    assert window.chat_panel.composer.field.placeholderText() == "Fragen Sie etwas"
    assert (tr("%n passes", n=1), tr("%n passes", n=2)) == ("1 Durchlauf", "2 Durchläufe")


def test_what_is_said_of_a_model_is_german_to_the_end(show: Callable[[str], None]) -> None:
    show("de")
    verdict = unpriced(offline(say("there is no connection")))
    assert verdict.words == "Offline nicht bekannt"
    assert "cannot" not in verdict.details
    assert "Modelle auf diesem Rechner" in verdict.details


def test_months_and_untitled_chats_follow_the_language(show: Callable[[str], None]) -> None:
    entry = Entry("a/b", "a/b", "a/b", Where.CACHE, last_used=1_741_780_800.0)  # at noon
    words = []
    for language in ("en", "de"):
        show(language)
        words.append((entry.last_used_text, ConversationRecord(1).shown_title))
    assert words == [("12 March 2025", "New chat"), ("12. März 2025", "Neuer Chat")]


def test_the_keys_of_a_tool_tip_are_those_of_the_keyboard(open_window: OpenWindow, show: Callable[[str], None]) -> None:
    show("de")
    assert open_window(FakeLink()).actions_.models.toolTip().endswith("(Strg+M)")


def test_in_one_menu_no_access_key_is_there_twice(open_window: OpenWindow, show: Callable[[str], None]) -> None:
    for language in LANGUAGES:
        show(language)
        window = open_window(FakeLink())
        for menu in window.menuBar().findChildren(QMenu):
            keys = [action.text().partition("&")[2][:1].casefold() for action in menu.actions() if "&" in action.text()]
            assert len(keys) == len(set(keys)), (language, menu.title(), keys)


@pytest.mark.parametrize(
    ("wanted", "spoken", "shown"),
    [
        ("de", ["fr-FR"], "de"),
        ("system", ["fr-FR", "de-AT"], "de"),
        ("system", ["fr-FR"], "en"),
        ("xx", ["en-GB"], "en"),
    ],
)
def test_the_language_is_the_one_that_is_wanted_or_the_systems(
    monkeypatch: pytest.MonkeyPatch, wanted: str, spoken: list[str], shown: str
) -> None:
    monkeypatch.setattr(QLocale, "uiLanguages", lambda _self: spoken)
    assert language_of(wanted) == shown


TRANSLATED = (
    "app/ui/actions.py",
    "app/shell",
    "app/comparison",
    "app/ui/notices.py",
    "app/preferences",
    "app/palette",
    "app/library",
    "app/library/picker",
)
SHOWING = {
    "setText",
    "setAccessibleName",
    "setToolTip",
    "setPlaceholderText",
    "setWindowTitle",
    "QLabel",
    "QPushButton",
}


@pytest.mark.parametrize("place", TRANSLATED)
def test_no_words_are_shown_without_being_marked(place: str) -> None:
    files = [ROOT / place] if place.endswith(".py") else sorted((ROOT / place).glob("*.py"))
    for file in files:
        for call in (each for each in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(each, ast.Call)):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            bare = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            shown = [text for text in bare if any(letter.isalpha() for letter in text)] if name in SHOWING else []
            assert shown in ([], ["Coppice"]), (file.name, call.lineno)
