"""Trying again: what is said while waiting, and when it is enough."""

from app.downloads.control import Control
from app.downloads.equipment import Equipment
from app.downloads.progress import State
from app.downloads.tracker import Tracker
from app.hub.failures import Passing, UnreachableError
from engine.protocol.sentences import opening, say


class Patience:
    """Counts failures in a row for one step of a download."""

    def __init__(self, equipment: Equipment, control: Control, tracker: Tracker) -> None:
        self._equipment = equipment
        self._control = control
        self._tracker = tracker
        self._failures = 0

    def renew(self) -> None:
        """Something has been achieved."""
        self._failures = 0

    def endure(self, passing: Passing) -> None:
        """Wait for the next attempt; a first stall is answered at once. Raises `UnreachableError` when it is enough."""
        self._failures += 1
        retry = self._equipment.retry
        if retry.gives_up(self._failures):
            words = opening(passing.words)
            hint = say("Check the connection, then resume; what has arrived is kept.")
            raise UnreachableError(say("{reason}, {count} times in a row.", reason=words, count=self._failures), hint)
        at_once = passing.stalled and self._failures == 1
        seconds = 0.0 if at_once else retry.seconds(self._failures, passing.retry_after)
        self._tracker.wait(State.STALLED if passing.stalled else State.WAITING, passing.words, seconds)
        self._equipment.wait(self._control, seconds)
