"""Which engine answers: the one on this computer, or one of those elsewhere that a person has saved."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from app.engine.interface import EngineSwitch
from app.engine.remote.addresses import COPPICE, Place, host_of, normalised, place_of
from app.engine.remote.constraints import unheld_by
from app.engine.remote.keys import EngineKeys
from app.engine.state import EngineState, Phase
from app.i18n.translation import tr
from app.library.controller import LibraryController
from app.settings.store import SettingsFile
from app.system import json_text as json
from app.ui.jobs import Jobs
from app.ui.notices import Notice, Tone
from engine.errors import InputError
from engine.protocol.messages import Failed, Loaded, ModelInfo
from engine.protocol.options import LoadOptions

if TYPE_CHECKING:  # read when an engine elsewhere is taken up: most starts of the window have none
    from app.engine.remote.link import RemoteEngine
    from app.engine.remote.servers import Server

CONNECTION_NOTICE, KEY_NOTICE = "engine-not-connected", "engine-key-not-kept"
MOST_ENGINES = 100
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class SavedEngine:
    """An engine elsewhere and one of its models, under the name that a person gave them.

    `has_key`: the keyring has a key for its address; without one, no keyring is asked.
    """

    name: str
    place: Place
    has_key: bool = False

    @property
    def host(self) -> str:
        """Where it is."""
        return host_of(self.place.address)

    @property
    def described(self) -> str:
        """Such as `qwen3 @ cluster:8000`."""
        return f"{self.place.name} @ {self.host}"


def saved_engines(kept: Mapping[str, Mapping[str, Any]]) -> tuple[SavedEngine, ...]:
    """Engines as the settings hold them; what cannot be used is left out."""
    found = []
    for name, record in list(kept.items())[:MOST_ENGINES]:
        model, kind, draft = (json.text(record.get(field), _LONGEST) for field in ("model", "kind", "draft"))
        try:
            address = normalised(str(record.get("address", "")))
        except InputError:
            continue
        if model and name.strip():
            reads_pictures = record.get("reads_pictures") is not False
            place = Place(address, model, kind, json.count(record.get("context_tokens")), draft, reads_pictures)
            found.append(SavedEngine(name, place, record.get("has_key") is True))
    return tuple(found)


def unused_name(wanted: str, taken: Mapping[str, object]) -> str:
    """The name, with a number behind it where another engine has it already."""
    name = wanted.strip()[:_LONGEST] or tr("Engine")
    return next(each for each in chain([name], (f"{name} {number}" for number in count(2))) if each not in taken)


class EngineChoice(QObject):
    """Tells the state of the engine that answers, whichever that is, and keeps the list of those elsewhere.

    At the start of the window the engine of last time is taken up without a request: the network is used when a person
    asks something of it. Choosing one connects to it.
    """

    state_changed = Signal(EngineState)
    changed = Signal()  # the list, or which of them is chosen
    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)

    def __init__(
        self, switch: EngineSwitch, library: LibraryController, settings: SettingsFile, ids: Iterator[int]
    ) -> None:
        """`ids`: where every engine takes the numbers of its requests from."""
        super().__init__(library)
        self.keys = EngineKeys()
        self._switch, self._library, self._settings = switch, library, settings
        self._ids = ids
        self._remote: RemoteEngine | None = None
        self.chosen: SavedEngine | None = None  # the one that answers; None where it is the one on this computer
        self._unsettled: set[str] = set()  # addresses whose keys go once it is certain that they are not used
        self.state = library.state
        library.state_changed.connect(self._on_local_state)

    # ---- the list ---------------------------------------------------------------------------------------------------

    @property
    def saved(self) -> tuple[SavedEngine, ...]:
        """All engines elsewhere, in the order in which they were saved."""
        return saved_engines(self._settings.current.engines)

    def save(self, engine: SavedEngine, key: str = "") -> None:
        """Add an engine, or change the one of this name; `key`: a new one, if there is one."""
        if key:
            self.keys.remember(engine.place.address, key)  # who connects now needs it before a keyring has answered
            job = self._jobs.start(lambda _stop: self.keys.keep(engine.place.address, key))
            job.done.connect(self._on_key_kept)
        self._write(self._settings.current.engines | {engine.name: _record(engine)})

    def rename(self, name: str, wanted: str) -> None:
        """Give an engine another name; it keeps its place in the list."""
        others = {each: record for each, record in self._settings.current.engines.items() if each != name}
        if not wanted.strip() or wanted.strip() == name or len(others) == len(self._settings.current.engines):
            return
        new = unused_name(wanted, others)
        renamed = {new if each == name else each: record for each, record in self._settings.current.engines.items()}
        if self.chosen and self.chosen.name == name:
            self.chosen = replace(self.chosen, name=new)
            self._settings.change(engine=new)
        self._write(renamed)

    def remove(self, name: str) -> Callable[[], None]:
        """Take an engine off the list; returns what puts it back. Its key goes with `settle`."""
        before = dict(self._settings.current.engines)
        was_chosen = self.chosen is not None and self.chosen.name == name
        if was_chosen:
            self.use_local()
        self._write({each: record for each, record in before.items() if each != name})

        def undo() -> None:
            now = self._settings.current.engines
            order = [*before, *(each for each in now if each not in before)]
            self._write({each: now.get(each, before.get(each, {})) for each in order if each in now or each == name})
            if was_chosen:
                self.use(name)

        return undo

    def settle(self) -> None:
        """What was removed stays so: forget its keys."""
        gone = self._unsettled - {each.place.address for each in self.saved if each.has_key}
        self._unsettled.clear()
        for each in gone:
            self.keys.remember(each, "")
        if gone:
            self._jobs.start(lambda _stop: self.keys.forget(gone))

    def _write(self, engines: dict[str, dict[str, Any]]) -> None:
        self._unsettled |= {each.place.address for each in self.saved if each.has_key}
        self._settings.change(engines=engines)
        self.changed.emit()

    @cached_property
    def _jobs(self) -> Jobs:
        """What a keyring is asked for, in turn."""
        return Jobs(1, "engine key", self)

    def _on_key_kept(self, is_kept: bool) -> None:
        if is_kept:
            return
        words = tr("This system has no keyring that would keep the key of the engine.")
        hint = tr("It is used until Coppice is closed, and is not written to a file. Then it has to be typed again.")
        self.notice_raised.emit(Notice(KEY_NOTICE, words, hint, tone=Tone.HINT))

    # ---- the choice -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take up the engine of last time; nothing is asked of it yet."""
        name = self._settings.current.engine
        engine = next((each for each in self.saved if each.name == name), None)
        if engine is not None:
            self._take(engine)
            self._change(self._ready(engine))
            self.changed.emit()

    def use(self, name: str) -> None:
        """Have an engine elsewhere answer from now on, and connect to it."""
        engine = next((each for each in self.saved if each.name == name), None)
        if engine is not None:
            self._take(engine)
            self._settings.change(engine=name)
            self.reconnect()
            self.changed.emit()

    def use_local(self) -> None:
        """Have the engine on this computer answer; what it should have loaded is loaded, if nothing is."""
        if self._leave() and self._library.state.phase in (Phase.EMPTY, Phase.STOPPED):
            self._library.load(self._library.wanted)
        self._change(self._library.state)

    def load(self, options: LoadOptions) -> None:
        """Load a pair on this computer, which answers from now on."""
        self._leave()
        self._library.load(options)
        self._change(self._library.state)

    def restart(self) -> None:
        """Begin anew with the engine that answers: another process, or another connection."""
        if self._remote is None:
            self._library.restart()
        else:
            self.reconnect()

    def reconnect(self) -> None:
        """Look whether the chosen engine is there."""
        if self._remote is not None and self.chosen is not None:
            self.notice_withdrawn.emit(CONNECTION_NOTICE)
            self._change(EngineState(Phase.STARTING, host=self.chosen.host))
            self._remote.look_for()

    def _take(self, engine: SavedEngine) -> None:
        from app.engine.remote.link import RemoteEngine  # noqa: PLC0415
        from app.engine.remote.wire import Wire  # noqa: PLC0415

        place = engine.place
        wire = Wire(place.address, lambda: self.keys.of(place.address) if engine.has_key else "")
        remote = RemoteEngine(place, wire, self._ids, self)
        remote.found.connect(self._on_found)
        remote.engine_stopped.connect(self._on_not_found)
        self._library.rest(True)
        self._drop()
        self._remote, self.chosen = remote, engine
        self._switch.choose(remote)

    def _leave(self) -> bool:
        """Let the engine elsewhere go; whether there was one."""
        if self._remote is None:
            return False
        self._library.rest(False)
        self._switch.choose(None)
        self._drop()
        self.chosen = None
        self.notice_withdrawn.emit(CONNECTION_NOTICE)
        self._settings.change(engine="")
        self.changed.emit()
        return True

    def _drop(self) -> None:
        former, self._remote = self._remote, None
        if former is not None:
            former.found.disconnect(self._on_found)
            former.engine_stopped.disconnect(self._on_not_found)
            former.close()
            former.deleteLater()

    # ---- what happens -----------------------------------------------------------------------------------------------

    def _on_local_state(self, state: EngineState) -> None:
        if self._remote is None:
            self._change(state)

    def _on_found(self, server: "Server") -> None:
        engine = self.chosen
        assert engine is not None
        model = server.model(engine.place.model)
        if model is None:
            names = ", ".join(each.name for each in server.models[:5])
            words = tr("{host} has no model {model} any more.").format(host=engine.host, model=engine.place.name)
            self._tell_of_failure(words, tr("It has: {names}. Connect to it anew to choose one.").format(names=names))
            return
        self.chosen = engine = replace(engine, place=place_of(engine.place.address, server.kind, model))
        self.save(engine)
        self._change(self._ready(engine))

    def _on_not_found(self, failed: Failed) -> None:
        self._tell_of_failure(failed.message, failed.hint)

    def _tell_of_failure(self, words: str, hint: str) -> None:
        assert self.chosen is not None
        self._change(EngineState(Phase.STOPPED, host=self.chosen.host))
        self.notice_raised.emit(
            Notice(CONNECTION_NOTICE, words, hint, action=tr("Connect again"), on_action=self.reconnect)
        )

    def _ready(self, engine: SavedEngine) -> EngineState:
        place = engine.place
        target, draft = (
            ModelInfo(place.address, name, "", 0, 0, 0, "", place.kind) for name in (place.name, place.draft)
        )
        pair = Loaded(
            0, target, draft if place.draft else None, place.context_tokens, 0.0, reads_pictures=place.reads_pictures
        )
        return EngineState(
            Phase.READY,
            pair=pair,
            host=engine.host,
            speculates_as_asked=place.kind == COPPICE,
            unheld=unheld_by(place.kind),
        )

    def _change(self, state: EngineState) -> None:
        if state != self.state:
            self.state = state
            self.state_changed.emit(state)


def _record(engine: SavedEngine) -> dict[str, Any]:
    place = engine.place
    return {
        "address": place.address,
        "model": place.model,
        "kind": place.kind,
        "context_tokens": place.context_tokens,
        "draft": place.draft,
        "reads_pictures": place.reads_pictures,
        "has_key": engine.has_key,
    }
