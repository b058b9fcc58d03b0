"""A stop that the engine does not hear: when a restart is offered, and when no longer."""

import pytest
from PySide6.QtCore import QCoreApplication

from app.engine.unheard_stop import UNHEARD_NOTICE, UnheardStop
from app.ui.notices import Notice
from engine.protocol.messages import ChatMessage, Failed, Finished
from engine.protocol.options import GenerateOptions, LoadOptions
from tests.app.fake_engine import round_of
from tests.app.fake_link import FakeLink


class Watched:
    """A link, what watches it, and what that says."""

    def __init__(self, link: FakeLink) -> None:
        self.link = link
        self.watch = UnheardStop(link)
        self.shown: dict[str, Notice] = {}
        self.watch.notice_raised.connect(lambda notice: self.shown.update({notice.key: notice}))
        self.watch.notice_withdrawn.connect(self.shown.pop)

    def ask(self) -> int:
        return self.link.generate((ChatMessage("user", "Hello"),), GenerateOptions())

    def waits(self) -> bool:
        """Whether the time runs."""
        return self.watch._timer.isActive()

    def let_time_pass(self) -> None:
        assert self.waits()
        assert self.watch._timer.interval() == 5000
        self.watch._timer.setInterval(0)
        while self.waits():
            QCoreApplication.processEvents()
        self.watch._timer.setInterval(5000)


@pytest.fixture
def watched(qapp: QCoreApplication, link: FakeLink) -> Watched:
    return Watched(link)


def test_a_restart_is_offered_where_nothing_ends(watched: Watched) -> None:
    request = watched.ask()
    assert not watched.waits()
    watched.link.cancel(request)
    watched.link.answer(round_of(request, 0, "a round that was on its way"))
    watched.let_time_pass()
    notice = watched.shown[UNHEARD_NOTICE]
    assert "not reacted to Stop for 5 seconds" in notice.message
    assert "may be in a long step" in notice.hint
    assert notice.action == "Restart engine"


def test_what_ends_in_time_is_no_news(watched: Watched) -> None:
    request = watched.ask()
    watched.link.cancel(request)
    watched.link.answer(Finished(request, "cancelled"))
    assert not watched.waits()
    watched.link.cancel(request)
    assert not watched.waits(), "it has ended long ago"


def test_the_offer_goes_with_the_answer(watched: Watched) -> None:
    request = watched.ask()
    watched.link.cancel(request)
    watched.let_time_pass()
    watched.link.cancel(request)
    assert not watched.waits(), "it is offered already"
    watched.link.answer(Failed(request, "No memory.", ""))
    assert not watched.shown


def test_every_cancelled_request_is_waited_for(watched: Watched) -> None:
    load, question, later = watched.link.load(LoadOptions()), watched.ask(), watched.ask()
    watched.link.cancel(question)
    watched.link.answer(Finished(load, "cancelled"))
    assert watched.waits()
    watched.link.answer(Finished(question, "cancelled"))
    assert not watched.waits()
    watched.link.answer(Finished(later, "stop"))
    assert not watched.shown


def test_a_stop_of_one_window_is_not_awaited_of_the_other(watched: Watched) -> None:
    chat, link = (ChatMessage("user", "Hello"),), watched.link
    one, other = link.generate(chat, GenerateOptions(), 1), link.generate(chat, GenerateOptions(), 2)
    link.cancel(other, 2)
    assert watched.waits()
    link.answer(Finished(other, "cancelled"))
    assert not watched.waits(), "the first one goes on"
    link.cancel(other, 1)
    assert watched.waits()
    link.answer(Finished(one, "cancelled"))
    assert not watched.waits()


def test_an_engine_that_stops_ends_the_offer(watched: Watched) -> None:
    request = watched.ask()
    watched.link.cancel(request)
    watched.let_time_pass()
    watched.link.die()
    assert not watched.shown
    watched.link.cancel(watched.ask())
    assert watched.waits()
