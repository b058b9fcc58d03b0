"""Events go to the methods that take their types, and to no other."""

from PySide6.QtCore import QObject

from app.engine.listener import EventListener, takes
from engine.protocol.messages import Event, Failed, Finished, Ready, Round, Wrote


class Teller(EventListener):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    @takes(Finished, Failed)
    def _on_ended(self, event: Finished | Failed) -> None:
        self.told.append(f"ended {event.id}")

    @takes(Wrote)
    def _on_wrote(self, event: Wrote) -> None:
        self.told.append(event.text)


class Own(QObject, Teller):
    """One of Qt's objects, with a method of its own for a type that its base takes."""

    def concerns(self, event: Event) -> bool:
        return not isinstance(event, Ready) and event.id == 2

    @takes(Wrote)
    def _on_own(self, event: Wrote) -> None:
        self.told.append(event.text.upper())


EVENTS = (Wrote(1, "a", 1), Wrote(2, "b", 1), Failed(2, "It failed."), Finished(1, "stop", ""))


def test_each_type_has_its_method() -> None:
    teller = Teller()
    teller.on_events(EVENTS)
    assert teller.told == ["a", "b", "ended 2", "ended 1"]


def test_a_subclass_takes_a_type_itself_and_leaves_out_what_does_not_concern_it() -> None:
    own = Own()
    own.on_events(EVENTS)
    assert own.told == ["B", "ended 2"]


def test_a_type_that_nobody_takes_is_left_out() -> None:
    teller = Teller()
    teller.on_events([Round.__new__(Round)])
    assert teller.told == []
