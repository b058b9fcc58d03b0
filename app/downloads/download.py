"""One download from beginning to end, in the thread that runs it; it can be stopped from any other and run again."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING

from app.downloads.control import Control, StopKind, Stopped
from app.downloads.dependencies import Dependencies
from app.downloads.destinations import CacheDestination, Destination, FolderDestination
from app.downloads.disk import OutOfSpaceError, is_full, out_of_space
from app.downloads.progress import Progress, Request, State, Tracker
from app.downloads.transfer import Retries, Transfer
from app.hub.client import HubClient
from app.hub.failures import HubError, Reason
from app.hub.files import Plan, RemoteFile, describe, fetch_index, read_plan
from app.hub.names import INDEX, is_repo_id, is_revision
from app.hub.place import HubPlace
from app.hub.transport import CONNECT_SECONDS
from engine.errors import CoppiceError, InputError
from engine.protocol.sentences import reason_of, say

if TYPE_CHECKING:
    import httpx2


class Download:
    """What one request asks for. `plan` is None until the hub has been asked, or comes from an earlier session.

    With a plan, a later run goes on with the very same commit, whatever its branch has become meanwhile, until the hub
    no longer has it.
    """

    def __init__(self, number: int, request: Request, dependencies: Dependencies, plan: Plan | None = None) -> None:
        self.request = request
        self.plan = plan
        self._dependencies = dependencies
        self._has_vanished = False
        self._control = Control()
        self._tracker = Tracker(number, request, dependencies.clock)
        if plan is not None:
            self._tracker.expect(plan)

    @property
    def progress(self) -> Progress:
        """What it is doing now; for any thread."""
        return self._tracker.snapshot()

    def stop(self, kind: StopKind) -> None:
        """Pause it, keeping what has arrived, or cancel it, removing what is partial; for any thread.

        The thread that runs it notices at once, or, while it waits for a server's first answer, after seconds.
        """
        self._control.stop(kind)

    def rest(self, state: State) -> None:
        """Be queued or paused, while no thread runs it; an earlier stop is forgotten."""
        self._control.clear()
        self._tracker.enter(state)

    def run(self, on_plan: Callable[[], None] = lambda: None) -> None:
        """Go on until it is done, failed or stopped, as `progress` says; `on_plan` is called when there is a plan."""
        self._tracker.begin()
        try:
            path = self._run(on_plan)
        except Stopped as stopped:
            if stopped.kind is StopKind.CANCEL:
                self.discard()
            else:
                self._tracker.stop(State.PAUSED)
        except OutOfSpaceError as error:
            self._tracker.stop(State.PAUSED, error)
        except CoppiceError as error:
            self._has_vanished |= isinstance(error, HubError) and error.reason is Reason.NOT_FOUND
            self._tracker.stop(State.FAILED, error)
        except OSError as error:
            self._tracker.stop(*self._verdict(error))
        else:
            self._tracker.stop(State.DONE, path=str(path))

    def fail(self) -> None:
        """Be failed for a reason that nobody foresaw."""
        message = say("The download of {name} has ended because of an error in this program.", name=self.request.source)
        self._tracker.stop(State.FAILED, CoppiceError(message, say("Look into the log, then resume.")))

    def discard(self) -> None:
        """Remove what is partial, while no thread runs it; complete files stay."""
        if self.plan is not None:
            destination = self._destination(self._dependencies.find_place(), self.plan)
            destination.clear(self.plan.files)
            self._tracker.discarded(self.plan)
        self._tracker.stop(State.CANCELLED)

    def measure(self) -> None:
        """Count what earlier sessions have left on the disk, while no thread runs it."""
        if self.plan is not None:
            self._measure(self.plan, self._destination(self._dependencies.find_place(), self.plan))

    def _run(self, on_plan: Callable[[], None]) -> Path:
        place, using = self._dependencies.find_place(), self._dependencies
        with closing(HubClient(using.token, lambda: place, using.stall_seconds, CONNECT_SECONDS)) as client:
            self._require_sense(client)
            plan = self._current_plan(client, place)
            self._tracker.expect(plan)
            on_plan()
            destination = self._destination(place, plan)
            missing = plan.bytes - self._measure(plan, destination)
            if missing:
                using.disk.require(destination.folder, missing)

            def open_file(file: RemoteFile, first_byte: int) -> AbstractContextManager["httpx2.Response"]:
                return client.file(plan.repo_id, plan.commit, file.name, self._control, first_byte)

            transfer = Transfer(self.request.source, open_file, destination, using, self._control, self._tracker)
            self._fetch(plan, destination, transfer)
        return destination.folder

    def _fetch(self, plan: Plan, destination: Destination, transfer: Transfer) -> None:
        destination.prepare()
        try:
            for file in plan.files:
                transfer.fetch(file)
            destination.finish()
        finally:
            destination.clear(())

    def _require_sense(self, client: HubClient) -> None:
        if not is_repo_id(self.request.repo_id):
            raise InputError(say("That is not the name of a model on the hub."), say("Give one like 'org/name'."))
        if not is_revision(self.request.revision):
            raise InputError(say("That is not the name of a revision."), say("Give a branch, a tag or a commit."))
        client.require_online()

    def _current_plan(self, client: HubClient, place: HubPlace) -> Plan:
        """The plan as it is, or a new one where the hub no longer has it; partial files that both name stay."""
        former = self.plan
        if former is not None and not self._has_vanished:
            return former
        plan = self._ask(client, place)
        if former is not None:
            wanted = {file.etag for file in plan.files}
            self._destination(place, former).clear(tuple(each for each in former.files if each.etag not in wanted))
        self.plan, self._has_vanished = plan, False
        return plan

    def _ask(self, client: HubClient, place: HubPlace) -> Plan:
        """The names of files tell most of what a model needs, the index of its shards, if it has one, the rest."""
        repo, revision, control = self.request.repo_id, self.request.revision, self._control
        retries = Retries(self._dependencies, control, self._tracker)
        described = retries.call(lambda: describe(client, repo, revision, control))
        plan = read_plan(repo, described, self.request.variant)
        index = next((file for file in plan.files if file.name == INDEX), None)
        if index is None:
            return plan
        destination = self._destination(place, plan)
        if destination.has(index, control.check):
            content = (destination.folder / INDEX).read_bytes()
        else:
            content = retries.call(lambda: fetch_index(client, plan, index, control))
        return read_plan(repo, described, index=content)

    def _destination(self, place: HubPlace, plan: Plan) -> Destination:
        if self.request.to:
            return FolderDestination(Path(self.request.to))
        return CacheDestination(place, plan.repo_id, self.request.revision, plan.commit)

    def _measure(self, plan: Plan, destination: Destination) -> int:
        """Tell the tracker how much of every file is there, and return the sum."""
        there = 0
        for file in plan.files:
            if destination.has(file, self._control.check):
                count = file.bytes
            else:
                partial = destination.partial(file)
                count = min(partial.stat().st_size, file.bytes) if partial.is_file() else 0
            self._tracker.found(file, count)
            there += count
        return there

    def _verdict(self, error: OSError) -> tuple[State, CoppiceError]:
        """What a failure of the operating system means; a full disk can be paused for."""
        place = Path(self.request.to) if self.request.to else self._dependencies.find_place().cache
        if is_full(error):
            return State.PAUSED, out_of_space(place, max(1, self.progress.bytes_total - self.progress.bytes_done))
        where = error.filename or place
        hint = say("Check the folder and its permissions, then resume.")
        return State.FAILED, InputError(
            say("{place} cannot be written: {reason}.", place=where, reason=reason_of(error)), hint
        )
