"""Another theme styles every widget a few times at most, however deep it lies, and leaves nothing of the former one."""

from collections import Counter

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication, QFrame, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.settings.preferences import Preferences
from app.shell.window import MainWindow
from app.ui.colors import DARK, LIGHT
from app.ui.theme import Theme
from tests.app.fake_link import FakeLink
from tests.app.test_window import ask

DEPTH = 12


class Restyled(QObject):
    """Counts how often each widget is styled."""

    def __init__(self) -> None:
        super().__init__()
        self.times: Counter[QObject] = Counter()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Look at every event, take none."""
        if event.type() == QEvent.Type.StyleChange and watched.isWidgetType():
            self.times[watched] += 1
        return False


def nested(qtbot: QtBot) -> list[QWidget]:
    """Frames within frames, the outermost first, and a button in the innermost."""
    made: list[QWidget] = [QFrame()]
    qtbot.addWidget(made[0])
    while len(made) < DEPTH:
        made.append(QFrame(made[-1]))
        QVBoxLayout(made[-2]).addWidget(made[-1])
    made.append(QPushButton("Innermost", made[-1]))
    QVBoxLayout(made[-2]).addWidget(made[-1])
    made[0].show()
    return made


def test_how_deep_a_widget_lies_does_not_count(qtbot: QtBot, theme: Theme) -> None:
    made = nested(qtbot)  # the outermost one holds all others
    theme.follow(Preferences(theme="light"))
    application, counted = QApplication.instance(), Restyled()
    assert application is not None
    application.installEventFilter(counted)
    try:
        theme.follow(Preferences(theme="dark"))
        theme.follow(Preferences(theme="dark", text_size=120))
    finally:
        application.removeEventFilter(counted)
        theme.follow(Preferences())
    assert 2 <= counted.times[made[-1]] <= 8, "Qt alone styles it once for each of its ancestors, twice"


def test_a_widget_that_was_there_looks_as_one_made_in_the_new_theme(qtbot: QtBot, theme: Theme) -> None:
    theme.follow(Preferences(theme="light"))
    former = nested(qtbot)
    pictures = [former[0].grab().toImage()]
    try:
        theme.follow(Preferences(theme="dark"))
        pictures += [former[0].grab().toImage(), nested(qtbot)[0].grab().toImage()]
    finally:
        theme.follow(Preferences())
    assert pictures[1] == pictures[2]
    middle = [each.pixelColor(4, each.height() // 2) for each in pictures]
    assert middle[:2] == [QColor(LIGHT.window), QColor(DARK.window)]


def test_a_message_with_one_version_has_no_arrows_to_style(window: MainWindow, link: FakeLink) -> None:
    ask(window, "Hello")
    link.say("Good day.")
    link.finish()
    view = window.chat_panel.view
    assert [each.versions.children() for each in (view.questions[-1], view.answers[-1])] == [[], []]
    window.chat.regenerate(window.chat.conversation.messages[-1].id)
    link.say("Good evening.")
    link.finish()
    switch = view.answers[-1].versions
    assert (switch.text, switch.earlier.icon().isNull(), switch.later.isEnabled()) == ("2/2", False, False)
