"""A conversation with all that belongs to it as JSON: every version, its folder, pin, dates and settings.

`messages` is the path that is shown, as every reader of messages expects it; `others` are the versions beside it and
what followed them, and `files` the attachments, pictures among them in base64. A message is known by its number, and
tells that of its parent. What is long is written in parts, each a JSON value of its own, so that no reader has to parse
very much at once.
"""

import math
import time
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from app.chat.archive.conversion import conversation_of, message_record, settings_of
from app.chat.archive.exchange.reading import About, ExchangeError, ReadChat
from app.chat.archive.store import parents_first
from app.chat.history.calls import call_details, calls_of
from app.chat.history.conversation import Conversation
from app.chat.history.message import (
    ROOT,
    AnswerEnding,
    Attachment,
    Message,
    attachment_details,
    attachments_of,
    pictures_of,
)
from app.chat.history.picture_kinds import SUFFIXES, kind_of
from app.chat.history.records import ID_BITS, ConversationRecord, MessageRecord, new_id
from app.chat.history.token_probabilities import probabilities_of_details
from app.i18n.translation import tr
from app.system import json_text as json
from engine.protocol.messages import Role
from engine.protocol.pictures import MOST_PICTURE_BYTES

FORMAT = "coppice-chat"
_PART = "coppice-chat-part"
_VERSION = 1
_PART_CHARACTERS = 2 << 20  # of the messages or attachments in a part, unless it is one alone
_MOST_BYTES = 256 << 20  # of all parts of one chat
_ROLES: tuple[Role, ...] = ("user", "assistant")
_LISTS = ("messages", "others", "files")
_LONGEST_NAME = 400  # of a folder, or of who answered
_LATEST = 4e9  # seconds: the year 2096; what is later is no time

_Entry = tuple[str, str]  # the list that it belongs to, and its JSON


def written_parts(record: ConversationRecord, conversation: Conversation) -> Iterator[str]:
    """The conversation as one JSON object; a long one as several, the first of which says what it is."""
    messages = sorted((*conversation.messages, *conversation.hidden), key=lambda each: (each.created, each.id))
    number = {each.id: place for place, each in enumerate(messages, 1)}
    settings = settings_of(conversation)
    if conversation.reads_from:
        settings["reads_from"] = number.get(conversation.reads_from, ROOT)
    head = {
        "format": FORMAT,
        "version": _VERSION,
        "id": record.id,
        "title": record.shown_title,
        "is_named": bool(record.title),  # by a person
        "folder": record.folder,
        "is_pinned": record.is_pinned,
        "created": record.created,
        "updated": record.updated,
        "settings": settings,
    }
    yield from _joined_to_parts(head, _entries(conversation, number))


def _entries(conversation: Conversation, number: Mapping[int, int]) -> Iterator[_Entry]:
    for name, messages in (("messages", conversation.messages), ("others", conversation.hidden)):
        for each in messages:
            yield name, _dumped(_message(each, number))
    for each in chain(conversation.messages, conversation.hidden):
        for file in each.attachments:
            yield "files", _dumped({"message": number[each.id], **_file(file)})


def _file(attachment: Attachment) -> dict[str, str]:
    if attachment.picture:
        return {"name": attachment.name, "text": "", "picture": b64encode(attachment.picture).decode()}
    return {"name": attachment.name, "text": attachment.text, "note": attachment.note}


def _message(message: Message, number: Mapping[int, int]) -> dict[str, Any]:
    kept = message_record(0, message)
    details = {name: each for name, each in kept.details.items() if name not in ("answerer", "attachments")}
    told: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.answerer:
        told["model"] = message.answerer
    if message.ending is not AnswerEnding.COMPLETE:
        told["ending"] = kept.ending
    told |= {"number": number[message.id], "parent": number.get(message.parent, ROOT), "created": message.created}
    return told | ({"details": details} if details else {})


def _joined_to_parts(head: Mapping[str, Any], entries: Iterable[_Entry]) -> Iterator[str]:
    lists: dict[str, list[str]] = defaultdict(list, messages=[])
    size = 0
    for name, entry in entries:
        if size and size + len(entry) > _PART_CHARACTERS:
            yield _object({**head, "goes_on": True}, lists)
            head, size = {"format": _PART}, 0
            lists = defaultdict(list, messages=[])
        lists[name].append(entry)
        size += len(entry)
    yield _object(head, lists)


def _object(head: Mapping[str, Any], lists: Mapping[str, Iterable[str]]) -> str:
    """A JSON object of the values of `head`, and of lists whose entries are JSON."""
    names = [f"{_dumped(name)}: {_dumped(value)}" for name, value in head.items()]
    for name in _LISTS:
        if name in lists:
            entries = ",\n".join(lists[name])
            names.append(f"{_dumped(name)}: [\n{entries}\n]")
    return f"{{{', '.join(names)}}}"


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Parts:
    """Joins the parts of chats, as they are read one after the other."""

    def __init__(self) -> None:
        self._begun: dict[str, Any] | None = None
        self._bytes = 0  # of the parts so far

    def join(self, document: Any, size: int) -> tuple[Any, str]:
        """The document with all of its parts, None while more of it has to come; and what is missing, if anything.

        `size`: of its JSON, in bytes.
        """
        is_part = isinstance(document, dict) and document.get("format") == _PART
        if not is_part:
            missing = self.end()
            if is_whole(document) and document.get("goes_on") is True:
                self._begun, self._bytes = document, size
                return None, missing
            return document, missing
        if self._begun is None:
            return None, tr("The beginning of a chat in it is missing.")
        self._bytes += size
        return self._add(self._begun, document)

    def _add(self, begun: dict[str, Any], part: Mapping[str, Any]) -> tuple[Any, str]:
        if self._bytes > _MOST_BYTES:
            self._begun = None
            return None, tr("A chat in it is larger than {size} MB.").format(size=_MOST_BYTES >> 20)
        for name in _LISTS:
            begun[name] = [*_list(begun, name), *_list(part, name)]
        if part.get("goes_on") is True:
            return None, ""
        self._begun = None
        return {**begun, "goes_on": False}, ""

    def end(self) -> str:
        """Nothing more of the last chat comes; returns what is missing, if anything."""
        begun, self._begun = self._begun, None
        return tr("The end of a chat in it is missing.") if begun is not None else ""


def is_whole(document: Any) -> bool:
    """Whether a value of JSON is such a chat, or its first part."""
    return isinstance(document, dict) and document.get("format") == FORMAT


def read_whole(document: Mapping[str, Any]) -> ReadChat:
    """The conversation with the id that it had, and messages with ids of their own. Raises `ExchangeError`."""
    if document.get("version") != _VERSION:
        raise ExchangeError(tr("A newer version of Coppice wrote it. Update Coppice to read it."))
    if document.get("goes_on") is True:
        raise ExchangeError(tr("The end of a chat in it is missing."))
    numbers: dict[int, int] = {}
    entries = [*_list(document, "messages"), *_list(document, "others")]
    files = _files(_list(document, "files"))
    records = [_record(each, numbers, files) for each in entries]
    if not records:
        return ReadChat(is_empty=True)
    parented = [_with_parent(record, entry, numbers) for record, entry in zip(records, entries, strict=True)]
    shown = len(_list(document, "messages")) or 1
    settings = _settings(document.get("settings"), numbers)
    record = ConversationRecord(_id(document.get("id")), leaf=records[shown - 1].id, settings=settings)
    found = conversation_of(record, list(_alternating(sorted(parented, key=lambda each: each.created))))
    title = document.get("title") if document.get("is_named") is True else ""
    return ReadChat(title if isinstance(title, str) else "", found, about=_about(document), is_whole=True)


def _id(kept: object) -> int:
    return kept if type(kept) is int and 0 < kept < 1 << ID_BITS else new_id()


def _about(document: Mapping[str, Any]) -> About:
    folder = " ".join(json.text(document.get("folder"), _LONGEST_NAME).split())
    created, updated = _time(document.get("created")), _time(document.get("updated"))
    return About(created, updated, document.get("is_pinned") is True, folder)


def _settings(kept: Any, numbers: Mapping[int, int]) -> dict[str, Any]:
    settings = dict(kept) if isinstance(kept, dict) else {}
    first = settings.get("reads_from")
    settings["reads_from"] = numbers.get(first, ROOT) if type(first) is int else ROOT
    return settings


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    return found if isinstance(found, list) else []


def _files(entries: Iterable[Any]) -> dict[int, list[Attachment]]:
    """The attachments by the numbers of their messages; what is no attachment is left out."""
    files: dict[int, list[Attachment]] = defaultdict(list)
    for each in entries:
        if isinstance(each, dict) and type(each.get("message")) is int:
            files[each["message"]] += attachments_of([each]) or _picture(each)
    return files


def _picture(entry: Mapping[str, Any]) -> tuple[Attachment, ...]:
    """A picture as a chat keeps it."""
    name, coded = entry.get("name"), entry.get("picture")
    if not (isinstance(name, str) and isinstance(coded, str)):
        return ()
    try:
        picture = b64decode(coded, validate=True)
    except ValueError:
        return ()
    is_kept = kind_of(picture) in SUFFIXES and len(picture) <= MOST_PICTURE_BYTES
    return (Attachment(name, "", picture=picture),) if is_kept else ()


def _record(entry: Any, numbers: dict[int, int], files: Mapping[int, Sequence[Attachment]]) -> MessageRecord:
    """A message without its parent; its number is noted. Raises `ExchangeError`."""
    role = next((each for each in _ROLES if isinstance(entry, dict) and each == entry.get("role")), None)
    text = entry.get("content") if isinstance(entry, dict) else None
    if role is None or not isinstance(text, str):
        raise ExchangeError(tr("The file holds a message without a role or without text."))
    number, ending = entry.get("number"), entry.get("ending")
    details = _details(entry.get("details"), text)
    if model := json.text(entry.get("model"), _LONGEST_NAME):
        details["answerer"] = model
    made, attached = new_id(), files.get(number, ()) if type(number) is int else ()
    if type(number) is int:
        numbers[number] = made
    if attached:
        details["attachments"] = attachment_details(attached)
    told, created = ending if isinstance(ending, str) else AnswerEnding.COMPLETE.value, _time(entry.get("created"))
    return MessageRecord(made, 0, ROOT, role, text, told, details, created or time.time(), pictures_of(attached))


def _with_parent(record: MessageRecord, entry: Mapping[str, Any], numbers: Mapping[int, int]) -> MessageRecord:
    parent = entry.get("parent")
    return replace(record, parent=numbers.get(parent, ROOT) if type(parent) is int else ROOT)


def _details(kept: Any, text: str) -> dict[str, Any]:
    """What can be kept of a message besides its text."""
    found = dict(kept) if isinstance(kept, dict) else {}
    details = {name: found[name] for name in ("statistics", "note", "beginning") if name in found}
    thought = found.get("thought_seconds")
    if type(thought) is float and math.isfinite(thought) and thought > 0:
        details["thought_seconds"] = thought
    if calls := calls_of(found.get("calls"), text):
        details["calls"] = call_details(calls)
    if text and probabilities_of_details(found.get("chances"), 2 * len(text)) is not None:
        details["chances"] = found["chances"]
    return details


def _alternating(records: Iterable[MessageRecord]) -> Iterator[MessageRecord]:
    """The same, parents first, each question behind an answer and the reverse: where one is missing, it is empty."""
    roles = {ROOT: "assistant"}
    for each in parents_first(records):
        placed = each
        if roles[each.parent] == each.role:
            is_question = each.role == "assistant"
            ending = (AnswerEnding.COMPLETE if is_question else AnswerEnding.CLOSED).value
            role: Role = "user" if is_question else "assistant"
            missing = MessageRecord(new_id(), 0, each.parent, role, "", ending, created=each.created)
            roles[missing.id] = role
            placed = replace(each, parent=missing.id)
            yield missing
        roles[placed.id] = placed.role
        yield placed


def _time(value: object) -> float:
    """Seconds since 1970; 0 for what is none."""
    return float(value) if isinstance(value, int | float) and 0 < value < _LATEST else 0.0
