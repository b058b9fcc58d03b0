"""A Models dialog in front of a loopback hub, with an engine that has an opinion on every model."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.downloads.dependencies import Dependencies, RetryPolicy
from app.downloads.disk import Disk
from app.downloads.progress import Progress, State
from app.engine.interface import EngineSwitch
from app.engine.state import EngineState, Phase
from app.library.controller import LibraryController
from app.library.download_link import DownloadLink
from app.library.feature import ModelsFeature
from app.library.pairing.suggestions import SuggestedModel, Suggestion
from app.library.picker.dialog import ModelsDialog
from app.library.picker.page import Page
from app.library.picker.services import ModelLibrary
from app.library.remote.engines import EngineChoice
from app.settings.store import SettingsFile
from app.system.paths import Folders
from app.ui.notices import Notice
from app.ui.theme import LIGHT
from engine.protocol.messages import Appraise, Appraised, Command, LayersAt
from engine.protocol.options import NO_DRAFT, LoadOptions
from tests.app.fake_engine import loaded
from tests.app.fake_link import FakeLink
from tests.app.hub.repositories import tiny
from tests.hub import Hub
from tests.hub.fixture import hub

__all__ = ["hub"]

PATIENCE_MS = 30_000


class Ring(KeyringBackend):
    """A keyring that forgets at the end of the test."""

    priority = 1.0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


class PricingLink(FakeLink):
    """Answers every estimate a moment later: in 4 bits twice as fast; what has 'huge' in its name does not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.prices_come = True

    def _submit(self, command: Command) -> None:
        super()._submit(command)
        if isinstance(command, Appraise) and self.prices_come:
            QTimer.singleShot(0, lambda: self.answer(appraised(command)))

    @property
    def priced(self) -> list[LoadOptions]:
        """What estimates were asked for."""
        return [each.options for each in self.sent if isinstance(each, Appraise)]


def appraised(question: Appraise) -> Appraised:
    """An opinion on a model."""
    options = question.options
    if "huge" in options.target:
        tiers = (LayersAt("device", 0, 1), LayersAt("ram", 80, 10**12))
        return Appraised(question.id, "no", "1 TB of RAM would be needed, but 30 GB may be used.", "cuda", tiers)
    verdict = {"auto": "device", "device": "device", "ram": "offload", "ssd": "ssd"}[options.place]
    rate = 20.0 if options.weights == "nf4" else 10.0
    return Appraised(
        question.id, verdict, "It fits.", "cuda", (LayersAt("device", 2, 10**9),), 8_000_000_000,  # type: ignore[arg-type]
        options.context_tokens or 4096, 0.5, 1.0 if options.draft == NO_DRAFT else 5.0, rate,
    )  # fmt: skip


class Desk:
    """The dialog, and what a test does with it."""

    def __init__(self, room: ModelsFeature, link: PricingLink, qtbot: QtBot, hub: Hub) -> None:
        self.room, self.link, self.qtbot, self.hub = room, link, qtbot, hub
        self.asked: list[LoadOptions] = []
        self.notices: list[Notice] = []
        room.load_requested.connect(self.asked.append)
        room.notice_raised.connect(self.notices.append)

    @property
    def dialog(self) -> ModelsDialog:
        return self.room.dialog

    @property
    def library(self) -> ModelLibrary:
        assert self.room._library is not None
        return self.room._library

    @property
    def downloads(self) -> DownloadLink:
        return self.room.downloads

    def open(self, page: Page = Page.DISCOVER) -> ModelsDialog:
        """Show the dialog and wait until it knows what is on this computer, and what there is room for."""
        self.room.open(page)
        self.wait(lambda: self.library.local_models.is_known and not self.library._room.is_running)
        return self.dialog

    def wait(self, condition: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(condition, timeout=PATIENCE_MS)

    def search(self, words: str) -> None:
        """Type, and wait for the first results."""
        field = self.dialog.discover.field
        field.clear()
        QTest.keyClicks(field, words)
        QTest.keyClick(field, Qt.Key.Key_Return)
        self.wait(lambda: self.library.search.state.phase.value not in ("searching", "idle"))

    def choose(self, key: str) -> None:
        """Go to a model in the list of this page, and wait until something is said of it."""
        view = self.dialog._view
        assert view is not None
        self.wait(lambda: view.entries.row_of(key) >= 0)
        view.choose(key)
        self.wait(lambda: view.entries.verdict(key).words not in ("", "Estimating…"))

    def verdict(self, key: str) -> str:
        view = self.dialog._view
        assert view is not None
        return view.entries.verdict(key).words

    @property
    def button(self) -> str:
        return self.dialog.details.primary.text()

    def drafts(self) -> list[str]:
        """The lines of the list of drafts, as a screen reader reads them."""
        model = self.dialog.details.drafts.drafts
        role = Qt.ItemDataRole.AccessibleTextRole
        return [str(model.index(row).data(role)) for row in range(model.rowCount())]

    def download(self, repo: str) -> Progress:
        return next(each for each in self.downloads.downloads if each.request.repo_id == repo)

    def wait_for(self, repo: str, state: State) -> None:
        self.wait(
            lambda: any(each.request.repo_id == repo and each.state is state for each in self.downloads.downloads)
        )


class SmallDisk(Disk):
    """The real disk, without a reserve."""

    reserve_bytes = 0


@pytest.fixture(autouse=True)
def ring() -> Iterator[Ring]:
    """The keyring of this test alone."""
    before, made = keyring.get_keyring(), Ring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


@pytest.fixture
def priced_link() -> PricingLink:
    """A link whose engine has an opinion."""
    return PricingLink()


@pytest.fixture
def make_desk(
    qtbot: QtBot, qapp: QApplication, hub: Hub, priced_link: PricingLink, settings: SettingsFile, folders: Folders
) -> Iterator[Callable[[], Desk]]:
    """Makes rooms over the same settings and folders, as one session after the other."""
    rooms: list[ModelsFeature] = []
    windows: list[QWidget] = []

    def make() -> Desk:
        window = QWidget()
        windows.append(window)
        qtbot.addWidget(window)
        tools = Dependencies(disk=SmallDisk(), retry=RetryPolicy(random=lambda: 0.01), stall_seconds=PATIENCE_MS / 1000)
        library = LibraryController(priced_link, LoadOptions(), LoadOptions(), window)
        engines = EngineChoice(EngineSwitch(priced_link, window), library, settings, priced_link.ids)
        room = ModelsFeature(priced_link, settings, folders, LIGHT, lambda: window, engines, tools, window)
        rooms.append(room)
        room.suggested = (SUGGESTION,)
        priced_link.events_arrived.connect(room.on_events)
        room.show_engine_state(EngineState(Phase.READY, pair=loaded(1)))
        return Desk(room, priced_link, qtbot, hub)

    yield make
    for room, window in zip(rooms, windows, strict=True):
        room.leave(window)
        room.close()


@pytest.fixture
def desk(make_desk: Callable[[], Desk]) -> Desk:
    """A room whose dialog has not been opened yet."""
    return make_desk()


SUGGESTION = Suggestion(
    title="Large",
    about="A large one with its draft.",
    target=SuggestedModel("org/large", 8_000_000_000, 16_000_000_000, "mit", False),
    draft=SuggestedModel("org/small", 500_000_000, 1_000_000_000, "mit", False),
    weights="nf4",
    vram_gb=8,
    ram_gb=16,
)


def put_up(hub: Hub, name: str, parameters: int, padding: int = 0, family: str = "llama", **about: Any) -> None:
    """A tiny model that says it has so many parameters."""
    details = {"safetensors": {"parameters": {"BF16": parameters}}, "config": {"model_type": family}}
    hub.add(name, tiny(padding), details=details, **about)


@pytest.fixture
def pair(hub: Hub) -> None:
    """A target and its draft on the hub, and one with another vocabulary."""
    put_up(hub, "org/large", 8_000_000_000, licence="mit", downloads=30)
    put_up(hub, "org/small", 500_000_000, 1, licence="mit", downloads=20)
    put_up(hub, "org/other", 400_000_000, 2, downloads=10)
    for repo, letter in (("org/large", "x"), ("org/small", "x"), ("org/other", "y")):
        vocabulary = {f"{letter}{number}": number for number in range(300)}
        tokenizer = {"model": {"type": "BPE", "vocab": vocabulary, "merges": []}, "added_tokens": []}
        hub.catalogue.repos[repo].files["tokenizer.json"] = json.dumps(tokenizer).encode()


@pytest.fixture
def cache(tmp_path: Path, hub: Hub) -> Path:
    """The hub's cache of this test."""
    return tmp_path / "hf" / "hub"
