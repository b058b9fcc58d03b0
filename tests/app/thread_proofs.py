"""What shows of each worker thread that it goes on after an error: one proof for each name."""

import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.chat.archive.store import Store
from app.chat.archive.worker import Archive
from app.chat.composer.attachment_reader import AttachmentReader
from app.chat.history.message import Attachment
from app.chat.history.records import ConversationRecord, MessageRecord
from app.chat.pictures.decoding import decoded
from app.chat.pictures.thumbnail import Thumbnail
from app.chat.typesetting.drawing_process import DrawingProcess, _Running
from app.chat.typesetting.formulas import Formulas, Latex
from app.downloads.download import Download
from app.downloads.progress import Progress as DownloadProgress
from app.downloads.progress import Request, State
from app.downloads.queue import DownloadQueue, Entry, Journal
from app.engine.link import EngineLink
from app.engine.process import BROKEN, EngineChild, EngineLog
from app.engine.program import EngineProgram
from app.installation.link import RuntimeLink
from app.installation.runtime.builds import UNKNOWN
from app.installation.runtime.installation import Installation
from app.installation.runtime.manager import RuntimeManager
from app.installation.runtime.place import Wanted
from app.installation.runtime.progress import Stage
from app.library.download_link import DownloadLink
from app.settings.store import SettingsFile
from app.shell.deferred import DeferredWork
from app.system.passwords import Passwords
from app.system.paths import folders_below
from app.tools import link
from app.tools.entry import ToolServer
from app.tools.servers import ToolServers
from app.tools.states import Phase
from app.ui.jobs import Jobs
from engine.protocol.messages import Event, Failed
from engine.protocol.options import LoadOptions
from engine.protocol.tool_servers import ProgramServer
from tests.app.chat.composer.pictures import picture
from tests.app.installation.conftest import make_dependencies
from tests.app.installation.packages import lock_of, tiny_wheels
from tests.app.tools.conftest import played_program

Made = TypeVar("Made")


class Panic(BaseException):
    """As the panics of Rust libraries: no `Exception`."""


class Case(NamedTuple):
    """What a proof needs."""

    error: BaseException
    bot: QtBot
    patch: pytest.MonkeyPatch
    folder: Path
    told: Callable[[str], bool]
    kept: list[object]

    def keep(self, made: Made) -> Made:
        """Hold an object until its threads have ended: the last one to hold it must not be one of them."""
        self.kept.append(made)
        return made

    def fail(self, *_: object, **__: object) -> Any:
        raise self.error

    def fails_once(self, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """Something that raises the error when it is called first."""
        errors = [self.error]

        def call(*arguments: Any, **options: Any) -> Any:
            if errors:
                raise errors.pop()
            return otherwise(*arguments, **options)

        return call


# ---- proofs ---------------------------------------------------------------------------------------------------------

CHAT = ConversationRecord(1, title="Trees")


def message(identity: int, text: str) -> MessageRecord:
    return MessageRecord(identity, 1, 0, "user", text)


def prove_archive(case: Case) -> None:
    case.patch.setattr(Store, "save", case.fails_once(Store.save))
    case.patch.setattr(Store, "messages", case.fails_once(Store.messages))
    archive = case.keep(Archive(case.folder / "chats.sqlite3"))
    archive.start()
    try:
        with case.bot.waitSignal(archive.write_failed) as failed:
            archive.save(CHAT, [message(5, "an oak")])
        assert failed.args is not None
        assert "cannot be saved" in failed.args[0]
        assert case.told("archive")
        with case.bot.waitSignal(archive.write_recovered):
            archive.save(ConversationRecord(2), [])
        with case.bot.waitSignal(archive.write_failed) as failed:
            archive.open(CHAT)
        assert failed.args is not None
        assert "cannot be read" in failed.args[0]
        with case.bot.waitSignal(archive.opened) as opened:
            archive.open(CHAT)
        assert opened.args is not None
        assert [each.text for each in opened.args[1].messages if each.text] == ["an oak"]
    finally:
        archive.close()
        assert archive.wait(10_000)


class Child:
    """A process that is none; its connection is the error's."""

    pid, has_printed = 1, False

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect

    def kill(self) -> None:
        """There is nothing to end."""

    def end(self) -> int:
        return 0


def prove_engine_link(case: Case) -> None:
    case.patch.setattr("app.engine.link.EngineChild", lambda _program: Child(case.fail))
    case.patch.setattr(EngineLink, "_wait_for_restart", case.fails_once(EngineLink._wait_for_restart))
    link = case.keep(EngineLink(EngineProgram(("nothing",), case.folder / "engine.log")))
    stops: list[Failed] = []
    events: list[Event] = []
    link.engine_stopped.connect(stops.append)
    link.events_arrived.connect(events.extend)
    link.start()
    try:
        case.bot.waitUntil(lambda: len(stops) == 2)  # the thread itself failed too, between the two
        assert "error in this program" in stops[0].message
        assert case.told("engine link")
        number = link.load(LoadOptions())
        case.bot.waitUntil(lambda: [each.id for each in events if isinstance(each, Failed)] == [number])
        link.restart()
        case.bot.waitUntil(lambda: len(stops) == 3)
    finally:
        link.close()
        link.wait_closed()


def prove_engine_watch(case: Case) -> None:
    case.patch.setattr("app.engine.process.Client", case.fails_once(Client))
    child = EngineChild(EngineProgram((sys.executable, "-S", "-c", "pass"), case.folder / "engine.log"))
    with pytest.raises(BROKEN):
        child.connect().recv()  # it would wait for ever
    child.end()
    case.bot.waitUntil(lambda: case.told("engine watch"))


def prove_engine_log(case: Case) -> None:
    write = case.fails_once(EngineLog.write)
    case.patch.setattr(EngineLog, "write", lambda log, data: write(log, data) if data else None)
    told = case.folder / "told"
    script = f"import os, time\nprint('lost')\nwhile not os.path.exists({str(told)!r}): time.sleep(0.01)\nprint('kept')"
    child = EngineChild(EngineProgram((sys.executable, "-S", "-c", script), case.folder / "engine.log"))
    case.bot.waitUntil(lambda: case.told("engine log"))
    told.touch()
    with pytest.raises(BROKEN):
        child.connect().recv()
    assert child.end() == 0
    assert (case.folder / "engine.log").read_text().split() == ["kept"]


def queue_of(case: Case) -> DownloadQueue:
    return DownloadQueue(Journal(case.folder / "downloads.json"), simultaneous=1)


def prove_downloads(case: Case) -> None:
    def run(download: Download, _on_plan: object) -> None:
        if download.request.repo_id == "org/bad":
            raise case.error
        download._tracker.stop(State.DONE, path="there")

    case.patch.setattr(Download, "run", run)
    queue = queue_of(case)
    queue.add(Request("org/bad"))
    queue.add(Request("org/good"))
    assert queue.wait_idle(30)
    bad, good = queue.snapshot()
    assert (bad.state, good.state) == (State.FAILED, State.DONE)
    assert "error in this program" in bad.message
    case.bot.waitUntil(lambda: case.told("downloads"))


def prove_earlier_downloads(case: Case) -> None:
    queue = queue_of(case)
    case.patch.setattr(Journal, "read", lambda _: (Entry(Request("org/bad")), Entry(Request("org/good"))))
    case.patch.setattr(Download, "measure", case.fails_once(lambda _: None))
    link = case.keep(DownloadLink(queue))
    with case.bot.waitSignal(link.changed) as changed:
        link.restore()
    assert changed.args is not None
    listed: tuple[DownloadProgress, ...] = changed.args[0]
    assert [each.request.repo_id for each in listed] == ["org/bad", "org/good"]
    case.bot.waitUntil(lambda: case.told("earlier downloads"))
    case.patch.setattr(Journal, "read", case.fail)
    link.restore()
    assert link._restoring is not None
    link._restoring.join(10)
    case.patch.setattr(Journal, "read", lambda _: ())
    link.restore()
    link.close()


def prove_formulas(case: Case) -> None:
    case.patch.setattr(DrawingProcess, "ask", case.fails_once(lambda *_: None))
    formulas = case.keep(Formulas())
    settled: set[Latex] = set()
    formulas.settled.connect(settled.update)
    asked = [Latex("x", "$", False), Latex("y", "$", False)]
    for each in asked:
        formulas.is_known(each)
    case.bot.waitUntil(lambda: settled == set(asked))
    assert formulas.is_known(asked[0])
    assert formulas.picture(asked[0]) is None
    formulas.close()
    assert case.told("formulas")


def prove_drawing_answers(case: Case) -> None:
    case.patch.setattr("app.chat.typesetting.drawing_process._Running._read", case.fails_once(_Running._read))
    process = DrawingProcess(60.0)
    request: dict[str, object] = {"latex": "x", "displayed": False}
    assert process.ask(request) is None
    assert process.ask(request) is not None
    process.end()
    case.bot.waitUntil(lambda: case.told("drawing answers"))


def prove_passwords(case: Case) -> None:
    kept: list[str] = []

    def keep(address: str, _password: str) -> bool:
        kept.append(address)
        return True

    case.patch.setattr("app.system.passwords.keep_secret", case.fails_once(keep))
    passwords = case.keep(Passwords())
    for address in ("http://me@first", "http://me@second"):
        passwords.follow({"proxy": address}, {address: "secret"})
    case.bot.waitUntil(lambda: kept == ["password for http://me@second"])
    case.bot.waitUntil(lambda: case.told("passwords"))


def tool_servers(case: Case) -> ToolServers:
    """One server that is on, with a program that plays it."""
    case.patch.setattr("app.tools.servers.PAUSES_SECONDS", (0,))
    folders = folders_below(case.folder)
    folders.create()
    made = case.keep(ToolServers(played_program(folders), SettingsFile(folders.settings_file), folders))
    made.save(ToolServer("one", ProgramServer("fine")))
    made.switch("one", True)
    return made


def prove_tool_servers(case: Case) -> None:
    case.patch.setattr("app.tools.link._read", case.fails_once(link._read))
    servers = tool_servers(case)
    case.bot.waitUntil(lambda: servers.state("one").phase is Phase.READY)
    case.bot.waitUntil(lambda: case.told("tool servers"))
    servers.close()


def prove_tool_orders(case: Case) -> None:
    case.patch.setattr("app.tools.link._write", case.fails_once(link._write))
    servers = tool_servers(case)
    case.bot.waitUntil(lambda: servers.state("one").phase is Phase.READY)
    case.bot.waitUntil(lambda: case.told("tool orders"))
    servers.close()


def prove_attachments(case: Case) -> None:
    read = case.fails_once(lambda path, _stop: Attachment(path.name, "text"))
    case.patch.setattr("app.chat.composer.attachment_reader.read_attachment", read)
    reader = case.keep(AttachmentReader())
    with case.bot.waitSignal(reader.was_refused) as refused, case.bot.waitSignal(reader.was_read) as was_read:
        reader.read(Path("bad"))
        reader.read(Path("good"))
    assert refused.args is not None
    assert refused.args[0] == Path("bad")
    assert "error in this program" in refused.args[1]
    assert was_read.args == [Path("good"), Attachment("good", "text")]
    reader.close()
    case.bot.waitUntil(lambda: case.told("attachments"))


def prove_pictures(case: Case) -> None:
    case.patch.setattr("app.chat.pictures.thumbnail.decoded", case.fails_once(decoded))
    above = QWidget()
    case.bot.addWidget(above)
    bad, good = (Thumbnail(name, picture(), QSize(20, 20), above) for name in ("bad", "good"))
    case.bot.waitUntil(lambda: bad.is_decoded or good.is_decoded)
    case.bot.waitUntil(lambda: bad.size_words == "cannot be shown" or good.size_words == "cannot be shown")
    case.bot.waitUntil(lambda: case.told("pictures"))


class Manager:
    """What a runtime's manager does, as the test says."""

    def __init__(self, **does: Callable[..., object]) -> None:
        nothing: Callable[..., object] = lambda: None  # noqa: E731
        self.propose = does.get("propose", nothing)
        self.tidy = does.get("tidy", nothing)
        self.remove = does.get("remove", nothing)
        self.install = does.get("install", nothing)
        self.to_resume = nothing


def runtime(case: Case, **does: Callable[..., object]) -> RuntimeLink:
    return case.keep(RuntimeLink(cast(RuntimeManager, Manager(**does))))


def prove_hardware(case: Case) -> None:
    link = runtime(case, propose=case.fails_once(lambda: "a proposal"))
    with case.bot.waitSignal(link.proposed) as proposed:
        link.look()
    assert proposed.args == [UNKNOWN]
    assert case.told("hardware look-up")
    with case.bot.waitSignal(link.proposed) as proposed:
        link.look()
    assert proposed.args == ["a proposal"]


def prove_tidying(case: Case) -> None:
    tidied: list[bool] = []
    link = runtime(case, tidy=case.fails_once(lambda: tidied.append(True)))
    link.restore()
    case.bot.waitUntil(lambda: case.told("clean-up") and not link._tidying.is_running)
    link.restore()
    case.bot.waitUntil(lambda: tidied == [True])


def prove_removal(case: Case) -> None:
    link = runtime(case, remove=case.fails_once(lambda: None))
    with case.bot.waitSignal(link.failed) as failed:
        link.remove()
    assert failed.args is not None
    assert "could not be removed" in failed.args[0]
    assert case.told("removal")
    with case.bot.waitSignal(link.removed):
        link.remove()


def prove_installation(case: Case) -> None:
    case.patch.setattr(Installation, "_make", case.fails_once(lambda _: None))
    made = Installation(make_dependencies(case.folder), lock_of(tiny_wheels()), Wanted("cpu"))
    link = runtime(case, install=lambda _wanted: made)
    with case.bot.waitSignal(link.ended) as ended:
        link.install(Wanted("cpu"))
    assert ended.args is not None
    assert ended.args[0].stage is Stage.FAILED
    assert "error in this program" in ended.args[0].message
    assert case.told("installation")
    with case.bot.waitSignal(link.ended) as ended:
        link.resume()
    assert ended.args is not None
    assert ended.args[0].stage is Stage.DONE


def prove_jobs(name: str, case: Case) -> None:
    jobs = case.keep(Jobs(1, name))
    bad = jobs.start(case.fail)
    good = jobs.start(lambda _stop: "done")
    with case.bot.waitSignal(bad.failed), case.bot.waitSignal(good.done) as done:
        pass
    assert done.args == ["done"]
    assert case.told(name)
    case.bot.waitUntil(lambda: jobs.idle)
    jobs.close()


def prove_reading_ahead(case: Case) -> None:
    case.patch.setattr("app.system.imports.ImportsInTurns.read", case.fail)
    window = QWidget()
    case.bot.addWidget(window)
    done: list[bool] = []
    deferred = DeferredWork(window, (), ())
    deferred.do(lambda: done.append(True))
    window.show()
    case.bot.waitUntil(lambda: done == [True])
    assert case.told("read ahead")


JOBS = (
    "models",
    "animation",
    "constraints",
    "vocabularies",
    "token",
    "search",
    "facts",
    "variants",
    "news",
    "remote engine",
    "engine key",
    "kept texts",
)
PROOFS: dict[str, Callable[[Case], None]] = {
    "archive": prove_archive,
    "engine link": prove_engine_link,
    "engine log": prove_engine_log,
    "engine watch": prove_engine_watch,
    "downloads": prove_downloads,
    "earlier downloads": prove_earlier_downloads,
    "formulas": prove_formulas,
    "drawing answers": prove_drawing_answers,
    "passwords": prove_passwords,
    "tool servers": prove_tool_servers,
    "tool orders": prove_tool_orders,
    "attachments": prove_attachments,
    "pictures": prove_pictures,
    "hardware look-up": prove_hardware,
    "clean-up": prove_tidying,
    "removal": prove_removal,
    "installation": prove_installation,
    "read ahead": prove_reading_ahead,
    **{name: partial(prove_jobs, name) for name in JOBS},
}
