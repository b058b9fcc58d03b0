"""A picture from the clipboard to the model, through the database and a restart."""

from dataclasses import replace

from PySide6.QtCore import QByteArray, QMimeData, QPoint, Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from pytestqt.qtbot import QtBot

from app.shell.window import MainWindow
from engine.protocol.messages import Finished
from engine.protocol.pictures import Picture
from tests.app.chat.composer.pictures import decoded, picture
from tests.app.chat.composer.test_unsent import go_to, wait_for_list
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import loaded
from tests.app.fake_link import FakeLink


def load_seeing(link: FakeLink) -> None:
    request = link.last_load
    link.answer(replace(loaded(request.id, request.options.target), reads_pictures=True))
    link.answer(Finished(request.id, "loaded"))


def dropped(window: MainWindow, data: QMimeData) -> None:
    copy, button, plain = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    entering = QDragEnterEvent(QPoint(5, 5), copy, data, button, plain)
    window.dragEnterEvent(entering)
    assert entering.isAccepted()
    window.dropEvent(QDropEvent(QPoint(5, 5), copy, data, button, plain))


def test_a_picture_reaches_the_model_and_the_next_day(
    window: MainWindow, open_window: OpenWindow, qtbot: QtBot
) -> None:
    data = QMimeData()
    data.setData("image/png", QByteArray(picture(30, 20)))
    dropped(window, data)
    qtbot.waitUntil(lambda: bool(window.chat_panel.composer.tray.attachments))
    window.program.quit()
    again = open_window(link := FakeLink())
    wait_for_list(again, qtbot)
    link.become_ready()
    composer = again.chat_panel.composer
    (kept,) = composer.tray.attachments
    assert decoded(kept.picture).width() == 30
    assert not composer.hindrance.isHidden(), "this model reads none"
    load_seeing(link)
    composer.field.setPlainText("What is it?")
    composer.button.click()
    assert link.last_question.chat[0].pictures == (Picture(kept.picture),)
    link.say("A field.")
    link.finish()
    asked = again.conversations.autosave.current
    again.chat.start_new_chat()
    go_to(again, asked, qtbot)
    assert again.chat.conversation.messages[0].attachments == (kept,)
    (question,) = again.chat_panel.view.questions
    assert question.files.chips[0].thumbnail is not None
