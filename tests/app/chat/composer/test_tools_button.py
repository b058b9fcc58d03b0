"""How many tools answers may call, and a menu that switches them."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.chat.composer.tools_button import ToolsButton
from app.settings.generation import GenerationSettings
from app.tools.toolbox import OfferedTool
from tests.app.fake_toolbox import COUNT, LOOK

AMPERSAND = OfferedTool("x", "eyes", "look & see", "Looks.")


@pytest.fixture
def button(qtbot: QtBot) -> ToolsButton:
    """With three tools."""
    made = ToolsButton(None)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.show_tools((LOOK, AMPERSAND, COUNT), GenerationSettings(tools_off=("gone/tool",)))
    return made


def test_it_says_how_many_are_on_and_hides_where_there_are_none(button: ToolsButton) -> None:
    assert (button.text(), button.isHidden()) == ("3 tools", False)
    assert "look (eyes)" in button.toolTip()
    button.show_tools((LOOK,), GenerationSettings(tools_off=("eyes/look",)))
    assert button.text() == "Tools off"
    button.show_tools((), GenerationSettings())
    assert button.isHidden()


def test_each_tool_is_switched_below_its_server_and_the_menu_stays(button: ToolsButton, qtbot: QtBot) -> None:
    chosen: list[tuple[str, ...]] = []
    button.chosen.connect(chosen.append)
    menu = button._menu
    menu.popup(button.mapToGlobal(button.rect().bottomLeft()))
    texts = [each.text() for each in menu.actions() if not each.isSeparator()]
    last = "Tools in Preferences…"
    assert texts == ["All on", "All off", "eyes", "look", "look && see", "numbers", "count", last]
    switch = next(each for each in menu.actions() if each.text() == "look")
    assert switch.isChecked()
    menu.setActiveAction(switch)
    QTest.keyClick(menu, Qt.Key.Key_Space)
    assert menu.isVisible()
    assert chosen == [("gone/tool", "eyes/look")], "what is off of a server that is not on stays so"
    QTest.mouseClick(menu, Qt.MouseButton.LeftButton, pos=menu.actionGeometry(switch).center())
    menu.actions()[1].trigger()
    assert chosen[1:] == [("gone/tool",), ("gone/tool", "eyes/look", "eyes/look & see", "numbers/count")]
    with qtbot.waitSignal(button.preferences_wanted):
        menu.actions()[-1].trigger()
    menu.close()
