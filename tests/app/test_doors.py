"""Text is made well-formed at every door: half a surrogate pair never reaches the database, a file or a socket.

The doors are found in the source: JSON that is not read or written by `app.system.json_text`, and a new place that
encodes text or writes it to a file, fails here until it is looked at.
"""

import ast
import errno
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit
from pytestqt.qtbot import QtBot

from app import main
from app.chat.archive.exchange.formats import exported_json, exported_markdown, from_json
from app.chat.archive.store import Store
from app.chat.archive.worker import Archive
from app.chat.composer import attachment_reader
from app.chat.history.conversation import Conversation
from app.chat.history.message import Message
from app.chat.history.records import ConversationRecord, MessageRecord
from app.engine.link import EngineLink
from app.engine.program import EngineProgram
from app.engine.round_packing import pack, unpack
from app.hub.client import HubClient
from app.hub.files import describe
from app.installation.runtime.wheels import parse_page
from app.settings.generation import GenerationSettings
from app.settings.store import Settings, SettingsFile
from app.shell.updates import parse_release
from app.shell.wiring import wanted_pair
from app.system import json_text
from app.system.background import Stop
from app.system.json_text import parse_json
from app.system.paths import Folders
from app.system.plain_text import well_formed, well_formed_values
from app.tree.rounds.recording import read_recording, recording_line
from engine.protocol.messages import ChatMessage, Command, Event, Failed, Generate, Round
from engine.protocol.options import GenerateOptions
from engine.protocol.tools import ToolCall
from tests.app.fake_engine import round_of
from tests.app.sources import sources

HALF = "\ud83d"
BYTE = "\udcff"  # how Python keeps the byte 255 of a file's name
TEXT = f"a{HALF}b{BYTE}"
MENDED = "a\ufffdb\ufffd"
ESCAPED = json.dumps(TEXT)  # as others write it: a\ud83db\udcff

SAFE_WITHOUT = {
    "app/ui/theme.py": "pictures of ours",
    "app/shell/window.py": "base 64",
    "app/library/picker/dialog.py": "base 64",
    "app/system/plain_text.py": "makes texts well-formed",
    "app/installation/runtime/lock.py": "JSON", "app/installation/runtime/place.py": "JSON",
    "app/downloads/queue.py": "JSON",
    "app/hub/facts.py": "JSON", "app/library/pairing/vocabulary.py": "JSON", "app/engine/round_packing.py": "JSON",
    "app/settings/store.py": "JSON",
    "app/shell/instance.py": "JSON and a hash of a name that `main` has checked",
    "app/tree/rounds/recording.py": "lines of recordings, which are JSON",
    "app/downloads/destinations.py": "a commit, from JSON",
    "app/chat/typesetting/layout_cost.py": "what cannot be encoded is ignored, and the result is a length",
    "app/chat/typesetting/formula_places.py": "a picture made of an answer, whose text is well-formed",
    "app/chat/archive/exchange/formats.py": "JSON, and Markdown made well-formed there; what it reads is parsed so",
    "app/chat/archive/exchange/exporting.py": "JSON",
    "app/chat/archive/database_files.py": "numbers as JSON",
    "app/chat/typesetting/code_places.py": "text of a document, encoded with halves to count them",
    "app/chat/typesetting/drawing_process.py": "JSON", "app/chat/typesetting/drawing_program.py": "JSON",
    "app/tree/exports/animations/encoding_program.py": "JSON", "app/chat/composer/pdf_program.py": "JSON",
    "app/chat/composer/picture_program.py": "JSON, and names of kinds of pictures",
    "app/chat/pictures/decoding.py": "names of kinds of pictures",
    "app/tree/exports/pictures/formats.py": "SVG that Qt has written, which is well-formed",
    "app/chat/sidebar/model.py": "numbers",
    "app/chat/text/plain_text_view.py": "with halves, to count them",
    "app/chat/text/selection.py": "with halves, to cut them",
    "app/chat/origins/round_mark.py": "with halves, to count them",
    "app/chat/history/records.py": "halves replaced",
    "app/shell/faults/crash.py": "lines read from files with errors replaced",
    "app/engine/remote/wire.py": "JSON",
    "app/engine/remote/tool_calls.py": "schemas of tools, which the link has made well-formed",
    "app/chat/view/call_card.py": "halves replaced",
    "app/tools/server_file.py": "JSON", "app/tools/entry.py": "JSON", "app/tools/names.py": "ASCII",
    "app/tools/snippet.py": "encoded only to be parsed, well-formed before",
    "app/engine/remote/answer.py": "text that was decoded with errors replaced",
}  # fmt: skip
"""Where text is encoded or written, and why no half can be in it."""


# ---- what the source says -------------------------------------------------------------------------------------------


WANTED = r"json|\.encode\(|write_text\(|open\("  # to parse the other modules takes seconds


def writes_text(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    values = (*node.args, *(named.value for named in node.keywords))
    modes = [each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    opens = any(set(mode) & set("wax") and "b" not in mode and len(mode) <= 3 for mode in modes)
    return node.func.attr in ("encode", "write_text") or (node.func.attr == "open" and opens)


def test_json_is_read_and_written_in_one_place() -> None:
    imported = [
        module.place
        for module in sources("app", WANTED)
        for node in module.nodes
        if (isinstance(node, ast.Import) and any(each.name == "json" for each in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "json")
    ]
    assert imported == ["app/system/json_text.py"], "from app.system import json_text as json"


def test_every_place_that_encodes_or_writes_text_was_looked_at() -> None:
    found = {module.place for module in sources("app", WANTED) if any(map(writes_text, module.nodes))}
    assert found == set(SAFE_WITHOUT)


# ---- what is done to texts ------------------------------------------------------------------------------------------


@given(st.lists(st.characters() | st.characters(categories=["Cs"])).map("".join))  # in `st.text` there are no halves
def test_any_text_can_be_encoded_then_and_says_the_same(text: str) -> None:
    mended = well_formed(text)
    mended.encode()
    assert mended == well_formed(mended)
    assert well_formed_values((text, [text], {text: text}, 7)) == (mended, [mended], {mended: mended}, 7)
    try:
        text.encode()
    except UnicodeEncodeError:
        assert "\ufffd" in mended or len(mended) < len(text)
    else:
        assert mended is text


def test_a_long_chat_is_mended_in_every_field_and_handed_on_where_nothing_is_to_be_mended() -> None:
    call = ToolCall("1", "look", "{}")
    chat = (*(ChatMessage("user", f"é {number}") for number in range(5)), ChatMessage("assistant", "", (call,)))
    assert well_formed_values(chat) is chat
    for broken in (
        ChatMessage("user", "a\ud83d"),
        ChatMessage("assistant", "", (replace(call, arguments="\ud83d"),)),
        ChatMessage("tool", "", name="\ud83d"),
    ):
        mended = well_formed_values((*chat, broken))
        assert mended[:-1] == chat
        assert mended[-1] != broken
        assert "\ufffd" in str(mended[-1])


@given(st.lists(st.sampled_from(["\\", "ud83d", "\ud83d", "\ude00", '"', "\\ud83d", "é", "\U0001f600"])))
def test_json_keeps_everything_but_halves(parts: list[str]) -> None:
    text = "".join(parts)
    for is_ascii in (True, False):
        foreign = json.dumps([text, {text: text}], ensure_ascii=is_ascii)
        mended = well_formed(text)
        assert json_text.loads(foreign) == [mended, {mended: mended}]
        assert json_text.loads(foreign.encode("utf-8", "surrogatepass")) == [mended, {mended: mended}]
        assert json.loads(json_text.dumps([text, {text: text}], ensure_ascii=is_ascii)) == [mended, {mended: mended}]


# ---- the doors ------------------------------------------------------------------------------------------------------


def imported_chat(_folder: Path) -> Iterator[str]:
    chats = f'[{{"title": {ESCAPED}, "messages": [{{"role": "user", "content": {ESCAPED}}}]}}]'
    for title, conversation in from_json(chats):
        yield title
        yield conversation.messages[0].text


def attached_name(folder: Path) -> Iterator[str]:
    file = folder / TEXT.replace(HALF, BYTE)
    file.write_text("notes")
    yield attachment_reader.read_attachment(file, Stop()).name


def text_of_a_pdf(folder: Path) -> Iterator[str]:
    (folder / "a.pdf").write_bytes(b"%PDF-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attachment_reader, "read_pdf", lambda *_: (TEXT, ""))
        yield attachment_reader.read_attachment(folder / "a.pdf", Stop()).text


def listing_of_the_hub(_folder: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.hub.client.read_whole", lambda *_: f'{{"name": {ESCAPED}}}'.encode())
        patch.setattr(HubClient, "_ask", lambda *_: nullcontext(SimpleNamespace(links={})))
        yield describe(HubClient(), "org/name", "main", Stop())["name"]


def answers_of_others(_folder: Path) -> Iterator[str]:
    yield parse_json(f'[{ESCAPED}, "{TEXT}"]'.encode("utf-8", "surrogatepass"))[0]
    yield parse_release(f'{{"version": "9", "page": "https://a.b", "notes": {ESCAPED}}}').notes
    page = f'{{"files": [{{"filename": {ESCAPED}, "url": "u"}}]}}'
    yield parse_page(page, "https://a.b", is_json=True)[0].file


def recordings(folder: Path) -> Iterator[str]:
    round_ = round_of(1, 0, TEXT)
    (folder / "own").write_text(recording_line(round_), encoding="utf-8")
    yield next(read_recording(folder / "own")).tree.pieces[1]
    line = json.loads((folder / "own").read_text(encoding="utf-8")) | {"method": TEXT}
    (folder / "foreign").write_text(json.dumps(line), encoding="utf-8")
    yield next(read_recording(folder / "foreign")).method
    yield unpack(pack(round_), 1).tree.pieces[1]


def settings(folder: Path) -> Iterator[str]:
    file = folder / "settings.json"
    file.write_text(f'{{"target": {ESCAPED}}}')
    kept = SettingsFile(file)
    yield kept.current.target
    kept.change(draft=TEXT, target="x")
    yield json.loads(file.read_text(encoding="utf-8"))["draft"]


def command_line(_folder: Path) -> Iterator[str]:
    asked = wanted_pair(cast(Any, SimpleNamespace(target=TEXT, draft=TEXT)), Settings())
    yield asked.target
    yield asked.draft


def the_engine(folder: Path) -> Iterator[str]:
    link = EngineLink(EngineProgram(("nothing",), folder / "log"))
    near, far = Pipe()
    arrived: list[Event] = []
    sent: list[Command] = []
    link.events_arrived.connect(arrived.extend)
    for event in (Failed(1, TEXT, TEXT), round_of(1, 0, TEXT)):
        far.send(event)
    link._pass_events(near)
    link._submit = sent.append  # type: ignore[method-assign, assignment]
    link.generate((ChatMessage("user", TEXT),), GenerateOptions())
    link.count((ChatMessage("user", TEXT),), (TEXT,))
    near.close()
    far.close()
    QCoreApplication.processEvents()
    failed, round_ = arrived
    assert isinstance(failed, Failed)
    assert isinstance(round_, Round)
    yield from (failed.message, failed.hint, round_.tree.pieces[1])
    asked, counted = sent
    assert isinstance(asked, Generate)
    yield asked.chat[0].content
    yield counted.texts[0]  # type: ignore[union-attr]


def exports(_folder: Path) -> Iterator[str]:
    messages = [Message("user", TEXT)]
    yield exported_markdown(TEXT, messages, TEXT).splitlines()[0].removeprefix("# ")
    whole = exported_json(ConversationRecord(1, TEXT, folder=TEXT), Conversation([*messages]))
    yield from (json.loads(whole)[name] for name in ("title", "folder"))
    yield json.loads(whole)["messages"][0]["content"]


def the_store(folder: Path) -> Iterator[str]:
    store = Store(folder / "chats.sqlite3")
    details = {"attachments": [{"name": TEXT, "text": TEXT}]}
    record = ConversationRecord(1, TEXT, TEXT, TEXT, settings={"summary": TEXT})
    store.save(record, [MessageRecord(2, 1, 0, "user", TEXT, details=details)])
    (kept,) = store.conversations()
    yield from (kept.title, kept.auto_title, kept.folder, kept.settings["summary"])
    (message,) = store.messages(1)
    yield from (message.text, message.details["attachments"][0]["name"])
    assert store.search(TEXT), "it is found by what it was made of"
    store.close()


DOORS: list[Callable[[Path], Iterator[str]]] = [
    imported_chat, attached_name, text_of_a_pdf, listing_of_the_hub, answers_of_others, recordings, settings,
    command_line, the_engine, exports, the_store,
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS, ids=lambda door: str(door.__name__))
def test_a_text_with_halves_is_mended(door: Callable[[Path], Iterator[str]], tmp_path: Path, qtbot: QtBot) -> None:
    if door is attached_name and sys.platform != "linux":
        pytest.skip("names of files are text here")
    for text in door(tmp_path):
        assert text == MENDED, ascii(text)


def test_what_is_typed_or_pasted_has_no_halves(qtbot: QtBot) -> None:
    line, field = QLineEdit(), QPlainTextEdit()
    for widget in (line, field):
        qtbot.addWidget(widget)
    line.setText(TEXT)
    field.setPlainText(TEXT)
    QGuiApplication.clipboard().setText(TEXT)
    for text in (line.text(), field.toPlainText(), QGuiApplication.clipboard().text()):
        text.encode()


class FullDisk(io.TextIOWrapper):
    """A file that nothing can be written into."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_takes_any_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(logging, "raiseExceptions", True)
    log = tmp_path / "application.log"
    main._keep_log(cast(Folders, SimpleNamespace(application_log=log)))
    try:
        logging.getLogger("coppice.test").warning("a file %s", TEXT)
    finally:
        for handler in root.handlers:
            handler.close()
    assert "a file a\\ud83db\\udcff" in log.read_text(encoding="utf-8")


def test_a_log_on_a_full_disk_does_not_fill_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(logging, "raiseExceptions", True)
    main._keep_log(cast(Folders, SimpleNamespace(application_log=tmp_path / "application.log")))
    file = root.handlers[0]
    assert isinstance(file, logging.FileHandler)
    file.close()
    file.setStream(FullDisk())
    logging.getLogger("coppice.test").warning("a file")
    root.handlers[1].close()
    assert "Logging error" not in capfd.readouterr().err


def test_a_data_folder_that_has_no_name_in_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["--data-dir", os.fsdecode(b"/tmp/\xff")])
    assert "is not UTF-8" in capsys.readouterr().err


def test_an_import_with_half_a_pair_is_saved_and_so_is_what_comes_after_it(qtbot: QtBot, tmp_path: Path) -> None:
    file = tmp_path / "chats.json"
    file.write_text(f'{{"messages": [{{"role": "user", "content": {ESCAPED}}}]}}')
    archive = Archive(tmp_path / "chats.sqlite3")
    archive.start()
    with qtbot.waitSignal(archive.imported) as imported:
        archive.import_files([file], GenerationSettings())
    assert imported.args is not None
    assert len(imported.args[2]) == 1
    archive.save(ConversationRecord(7, title=TEXT), [MessageRecord(8, 7, 0, "user", TEXT)])
    archive.close()
    assert archive.wait(10_000)
    store = Store(tmp_path / "chats.sqlite3")
    assert {each.shown_title for each in store.conversations()} == {MENDED}
    assert [each.text for each in store.messages(7)] == [MENDED]
    store.close()
