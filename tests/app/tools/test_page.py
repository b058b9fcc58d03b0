"""The page of MCP servers: what it shows, what it asks before, and what it does."""

import json
import os

import pytest
from PySide6.QtWidgets import QCheckBox, QMessageBox, QPushButton

from app.preferences.tools.page import ToolsPage
from app.preferences.tools.paste_dialog import PasteDialog
from app.preferences.tools.server_dialog import ServerDialog
from app.settings.store import SettingsFile
from app.tools.entry import ToolServer
from app.tools.states import Phase
from engine.protocol.tool_servers import ProgramServer, WebServer
from tests.app.plainness import rich_widgets
from tests.app.tools.conftest import Servers


@pytest.fixture
def page(ready: Servers) -> ToolsPage:
    """The page, with no server."""
    made = ToolsPage(ready.servers)
    ready.bot.addWidget(made)
    made.show()
    return made


def button(box: QMessageBox, words: str) -> QPushButton:
    """The button of a question that says this."""
    return next(each for each in box.findChildren(QPushButton) if each.text() == words)


def edited(page: ToolsPage) -> ServerDialog:
    """The dialog that is open over the page."""
    assert isinstance(page.dialog, ServerDialog)
    return page.dialog


def pasted(page: ToolsPage, text: str) -> PasteDialog:
    """The dialog that takes a configuration, with this in it."""
    page.paste.click()
    assert isinstance(page.dialog, PasteDialog)
    page.dialog.field.setPlainText(text)
    return page.dialog


def test_an_empty_list_says_what_this_is_and_how_to_begin(page: ToolsPage) -> None:
    assert "MCP servers offer tools" in page.about.text()
    assert "paste the configuration" in page.about.text()
    assert not page.boxes
    assert page.allowed.isHidden()


def test_a_server_is_added_and_switched_on_with_its_command_before_ones_eyes(page: ToolsPage, ready: Servers) -> None:
    page.add_.click()
    dialog = edited(page)
    assert not dialog.start.isEnabled()
    dialog.name.setText("one")
    dialog.command.setText("fine -y 'two words'")
    dialog.command.editingFinished.emit()
    assert dialog.arguments.toPlainText() == "-y\ntwo words"
    dialog.variables.setPlainText("KEY=a=b")
    words = '"two words"' if os.name == "nt" else "'two words'"
    assert f"Starts: fine -y {words}" in dialog.about.text()
    assert "With variables: KEY=a=b" in dialog.about.text()
    assert "with your rights" in dialog.about.text()
    dialog.start.click()
    ready.wait("one", Phase.READY)
    box = page.boxes["one"]
    assert (box.switch.isChecked(), box.state.text()) == (True, "Ready, 2 tools")
    server = ready.servers.file.server("one")
    assert server is not None
    assert server.to == ProgramServer("fine", ("-y", "two words"), {"KEY": "a=b"})


def test_what_was_saved_without_a_start_is_asked_about_before_its_first(page: ToolsPage, ready: Servers) -> None:
    page.add_.click()
    edited(page).name.setText("one")
    edited(page).command.setText("fine")
    edited(page).save.click()
    assert ready.servers.state("one").phase is Phase.OFF
    for words, phase in (("Cancel", Phase.OFF), ("Start", Phase.READY)):
        page.boxes["one"].switch.click()
        assert page.question is not None
        assert "Starts: fine" in page.question.informativeText()
        button(page.question, words).click()
        ready.wait("one", phase)
        assert page.boxes["one"].switch.isChecked() is (phase is Phase.READY)
    page.boxes["one"].switch.click()
    page.question = None
    page.boxes["one"].switch.click()
    assert page.question is None, "it was agreed to"
    ready.wait("one", Phase.READY)


def test_what_is_too_long_to_be_shown_whole_is_not_started_from_a_question(page: ToolsPage, ready: Servers) -> None:
    page.add_.click()
    edited(page).name.setText("one")
    edited(page).command.setText("fine")
    edited(page).arguments.setPlainText("x" * 1600)
    edited(page).save.click()
    page.boxes["one"].switch.click()
    assert page.question is not None
    assert "too long to be shown whole" in page.question.informativeText()
    assert not button(page.question, "Start").isEnabled()
    button(page.question, "Cancel").click()
    assert ready.servers.state("one").phase is Phase.OFF
    dialog = pasted(page, '{"two": {"command": "fine", "args": ["' + "x" * 1600 + '"]}}')
    assert not dialog.start.isEnabled()
    assert "too long to be shown whole" in dialog.found.text()


def test_another_command_is_not_started_by_saving_it(page: ToolsPage, ready: Servers) -> None:
    ready.add("one")
    page.boxes["one"].edit.click()
    edited(page).arguments.setPlainText("--else")
    edited(page).save.click()
    assert ready.servers.state("one").phase is Phase.OFF
    assert not page.boxes["one"].switch.isChecked()


def test_a_new_name_leaves_a_server_on(page: ToolsPage, ready: Servers) -> None:
    ready.add("one")
    page.boxes["one"].edit.click()
    edited(page).name.setText("two")
    edited(page).save.click()
    assert list(page.boxes) == ["two"]
    ready.wait("two", Phase.READY)


@pytest.mark.parametrize(
    ("fields", "lacks"),
    [
        ({"name": ""}, "Give it a name first."),
        ({"name": "taken"}, "Another server has this name."),
        ({"name": "a/b"}, "Give it a shorter name, without a slash."),
        ({"command": ""}, "Give the command that starts it."),
        ({"folder": "here"}, "Give the full path of the folder."),
        ({"variables": "KEY"}, "Write variables as NAME=value."),
        ({"address": "tools.example"}, "Give an address such as https://tools.example/mcp."),
        ({"address": "http://tools.example/mcp"}, "Use https://, or allow http://."),
        ({"address": "https://tools.example/mcp", "headers": "Key"}, "Write headers as Name: value."),
    ],
)
def test_what_is_missing_is_said(page: ToolsPage, ready: Servers, fields: dict[str, str], lacks: str) -> None:
    ready.servers.save(ToolServer("taken", ProgramServer("fine")))
    page.open_dialog(None)
    dialog = edited(page)
    for name, value in {"name": "one", "command": "fine", **fields}.items():
        field = getattr(dialog, name)
        (field.setPlainText if name in ("variables", "headers") else field.setText)(value)
    dialog.kind.setCurrentIndex(int("address" in fields))
    assert dialog.about.text() == lacks
    assert not dialog.start.isEnabled()


def test_an_address_is_edited_with_all_it_has(page: ToolsPage, ready: Servers) -> None:
    web = WebServer("http://tools.example/mcp", {"Authorization": "Bearer: x"}, "sse", may_be_plain=True)
    ready.servers.save(ToolServer("one", web, tools_off=("other",)))
    page.boxes["one"].edit.click()
    assert "Asks: http://tools.example/mcp" in edited(page).about.text()
    edited(page).save.click()
    assert ready.servers.file.server("one") == ToolServer("one", web, tools_off=("other",))


def test_a_server_that_is_removed_can_be_put_back(page: ToolsPage, ready: Servers) -> None:
    ready.add("one")
    page.boxes["one"].remove.click()
    assert not page.boxes
    assert [each.message for each in page.notices.notices] == ["one was removed."]
    page.notices.act("undo")
    ready.wait("one", Phase.READY)
    assert list(page.boxes) == ["one"]


def test_a_failure_says_why_with_the_last_lines(page: ToolsPage, ready: Servers) -> None:
    ready.add("one", "dies", Phase.FAILED)
    box = page.boxes["one"]
    assert (box.state.text(), box.error.text()) == ("Failed", "It died. Feed it.")
    assert box.lines.toPlainText() == "no food"
    assert not box.lines.isHidden()
    box.retry.click()
    assert ready.servers.state("one").phase is Phase.CONNECTING
    assert box.error.isHidden()


def test_tools_are_told_and_switched(page: ToolsPage, ready: Servers) -> None:
    ready.add("one")
    box = page.boxes["one"]
    assert box.tools.isHidden()
    box.fold.click()
    echo, other = box.tools.findChildren(QCheckBox)
    assert (echo.text(), echo.accessibleDescription()) == ("echo", "Says it again.")
    echo.click()
    assert [each.name for each in ready.servers.tools] == ["other"]
    assert (echo.isChecked(), other.isChecked()) == (False, True)
    echo.click()
    assert [each.name for each in ready.servers.tools] == ["echo", "other"]


def test_names_are_shown_as_they_are(page: ToolsPage, ready: Servers) -> None:
    name = "<b>R&D"
    ready.servers.save(ToolServer(name, ProgramServer("fine", ("<i>&x</i>", "\u202ereversed"))))
    box = page.boxes[name]
    assert box.switch.text() == "<b>R&&D"
    assert box.switch.accessibleName() == "Server <b>R&D"
    assert "<i>&x</i>" in box.begins.text()
    assert "⟨RLO⟩reversed" in box.begins.text()
    assert set(rich_widgets(page)) == {"label dot ", "label option-title Called without a question"}, "with our words"


def test_what_needs_no_question_can_be_taken_back(page: ToolsPage, ready: Servers, settings: SettingsFile) -> None:
    settings.change(allowed_tools=("one/echo", "one/other"))
    page.hide()
    page.show()
    assert not page.allowed.isHidden()
    rows = [each for each in page.allowed.findChildren(QPushButton) if each.isVisible()]
    assert [each.accessibleName() for each in rows] == [
        "Ask again before one/echo is called", "Ask again before one/other is called",
    ]  # fmt: skip
    rows[0].click()
    assert settings.current.allowed_tools == ("one/other",)


def test_a_configuration_says_what_it_starts_before_it_does(page: ToolsPage, ready: Servers) -> None:
    ready.servers.save(ToolServer("one", ProgramServer("silent")))
    text = {
        "one": {"command": "fine", "args": ["-x"]},
        "later": {"command": "fine", "env": {"KEY": "<your key>"}},
        "odd": {},
    }
    dialog = pasted(page, json.dumps({"mcpServers": text}))
    words = dialog.found.text()
    for each in ("one 2\nStarts: fine -x", "KEY=<your key>", "yet to be filled in", "with your rights", "odd"):
        assert each in words
    dialog.start.click()
    ready.wait("one 2", Phase.READY)
    assert list(page.boxes) == ["one", "one 2", "later"]
    assert ready.servers.state("later").phase is Phase.OFF
    assert ready.servers.state("one").phase is Phase.OFF


@pytest.mark.parametrize(("text", "words"), [("", ""), ("no JSON", "This is no JSON."), ("{}", "There is no server")])
def test_what_is_no_configuration_adds_nothing(page: ToolsPage, text: str, words: str) -> None:
    dialog = pasted(page, text)
    assert dialog.found.text().startswith(words)
    assert not dialog.add.isEnabled()
    assert not dialog.start.isEnabled()


def test_the_page_is_found_by_what_it_is_about(page: ToolsPage) -> None:
    assert page.search("mcp") == 1
    assert page.allowed.isHidden()
    assert page.search("exotic") == 0
