"""Conversations as files that others can read: Markdown to look at, JSON with every version to go on with.

Another format is an entry of `FORMATS`, with a function that writes it and one that reads it.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO, cast, get_args

from app.chat.archive.exchange import lm_studio, services
from app.chat.archive.exchange.json_items import ItemTooLargeError, UnendedListError, is_list, items
from app.chat.archive.exchange.reading import About, ExchangeError, ReadChat
from app.chat.archive.exchange.turns import Turn, conversation_of_turns
from app.chat.archive.exchange.whole_chat import Parts, is_whole, read_whole, written_parts
from app.chat.archive.exchange.written_calls import content_with_calls
from app.chat.history.conversation import Conversation
from app.chat.history.message import SPEAKERS, Message, as_markdown
from app.chat.history.picture_kinds import SUFFIXES, kind_of
from app.chat.history.records import ConversationRecord
from app.chat.history.unsent import Unsent
from app.i18n.sentences import reason_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system import json_text as json
from app.system.files import write_chosen
from app.system.json_text import parse_json
from app.system.plain_text import well_formed
from engine.files import open_ordinary
from engine.protocol.messages import Role

# A file is read one conversation at a time, so its size costs time, not memory. What is larger than this, nobody's
# history is: the texts of the largest histories that services hand out take some hundred megabytes.
_LARGEST_BYTES = 1 << 30
# One conversation is parsed as a whole, which takes up to fifteen times its size: a quarter of a gigabyte at most.
_LARGEST_CHAT_BYTES = 16 << 20
_BYTES_PER_BRACKET = 16  # a message takes 28 at least
_MOST_UNUSABLE = 1000  # of one file, before the rest of it is left
_ROLES = {name: role for role, name in SPEAKERS.items()}
_MESSAGE_KEYS = frozenset(("role", "versions"))  # a message has one of them
_NOTHING = "(nothing)"
_LONGEST_NAME = 400  # of who answered
_LONGEST_TITLE = 60  # in the name of a file
# A line of a text that looks like the heading of a turn gets a backslash, which Markdown does not show.
_TURN = re.compile(rf"^\\*## (?:{'|'.join(_ROLES)})$", re.MULTILINE)


def exported_markdown(title: str, messages: Sequence[Message], system_prompt: str = "") -> str:
    """The path that is shown, under headings; before them stands who answered, which is not read again."""
    turns = [
        (role, _TURN.sub(r"\\\g<0>", content.strip()) or _NOTHING) for role, content in _turns(messages, system_prompt)
    ]
    answerers = ", ".join(dict.fromkeys(each.answerer for each in messages if each.answerer))
    told = f"# {title}\n\nAnswered by {answerers}\n\n{as_markdown(turns, '## {}')}" if answerers else ""
    return well_formed(told or as_markdown(turns, "## {}", title))


def exported_json(record: ConversationRecord, conversation: Conversation) -> str:
    """The chat with all that belongs to it, a list where it is long and has several parts."""
    parts = list(written_parts(record, conversation))
    text = ",\n".join(parts)
    return f"[\n{text}\n]\n" if len(parts) > 1 else f"{text}\n"


def _shown_markdown(record: ConversationRecord, conversation: Conversation) -> str:
    prompt = conversation.settings.system_prompt if conversation.settings else ""
    return exported_markdown(record.shown_title, conversation.messages, prompt)


def _turns(messages: Sequence[Message], system_prompt: str) -> list[tuple[Role, str]]:
    begin: list[tuple[Role, str]] = [("system", system_prompt)] if system_prompt.strip() else []
    return begin + [(message.role, _with_names(message)) for message in messages]


def _with_names(message: Message) -> str:
    """All that a message says, and the tools that it called; of the pictures that it shows the names."""
    names = [f"Picture {each.name}" for each in message.attachments if each.picture]
    return "\n\n".join([*names, content_with_calls(message) if message.calls else message.content])


def _markdown_chats(file: BinaryIO, _size: int) -> Iterator[ReadChat]:
    yield _markdown_chat(_whole(file))


def _json_chats(file: BinaryIO, size: int) -> Iterator[ReadChat]:
    if is_list(file):
        yield from _list(file, size)
    else:
        yield from _json_text(_whole(file))


def _list(file: BinaryIO, size: int) -> Iterator[ReadChat]:
    """A list of conversations, or of the messages of one."""
    if not _holds_chats(_listed(file)):
        yield from _json_text(_whole(file))
        return
    unusable, reason = 0, ""
    try:
        for read in _chats(_listed(file)):
            reason = read.reason
            yield read._replace(share=file.tell() / size)
            unusable += bool(reason)
            if unusable == _MOST_UNUSABLE:
                raise ExchangeError(tr("Too much in it is no conversation."))
    except ItemTooLargeError:
        raise _too_large() from None
    except UnendedListError:
        if not reason:  # else what was read last told that it is cut off
            raise ExchangeError(tr("Its end is missing: get the file again.")) from None


def _listed(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    return items(file, _LARGEST_CHAT_BYTES, _LARGEST_CHAT_BYTES // _BYTES_PER_BRACKET)


def _holds_chats(found: Iterator[bytes]) -> bool:
    """Whether these are conversations, as far as the first one tells."""
    try:
        return _is_chat(_parsed(next(found)))
    except (StopIteration, UnendedListError):
        return False
    except ExchangeError:
        return True  # it is damaged, and what follows need not be
    except ItemTooLargeError:
        raise _too_large() from None


def _chats(found: Iterable[bytes]) -> Iterator[ReadChat]:
    """What the items of a list are: a long conversation is in several."""
    parts = Parts()
    for item in found:
        try:
            document, missing = parts.join(_parsed(item), len(item))
            if missing:
                yield ReadChat(reason=missing)
            if document is not None:
                yield _chat(document)
        except ExchangeError as error:
            yield ReadChat(reason=str(error))
    if missing := parts.end():
        yield ReadChat(reason=missing)


def _whole(file: BinaryIO) -> str:
    """All of a file that is one conversation."""
    file.seek(0)
    content = file.read(_LARGEST_CHAT_BYTES + 1)
    if len(content) > _LARGEST_CHAT_BYTES:
        raise _too_large()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ExchangeError(tr("It is not UTF-8 text.")) from None


def _too_large() -> ExchangeError:
    words = tr("A conversation in it is larger than {size} MB, or consists mostly of brackets.")
    return ExchangeError(words.format(size=_LARGEST_CHAT_BYTES >> 20))


def from_json(text: str) -> list[tuple[str, Conversation]]:
    """Titles and conversations of a text: one `{"messages"}`, a list of them, or a bare list of messages.

    Also in the form of LM Studio. Raises `ExchangeError`. What is said twice in a row by one side becomes one message,
    and system messages become the system prompt in the conversation's settings, whose others are the defaults.
    """
    return [(each.title, each.conversation) for each in _json_text(text) if each.conversation is not None]


def _json_text(text: str) -> list[ReadChat]:
    document = _parsed(text.encode("utf-8", "surrogatepass"))
    chats = document if isinstance(document, list) and all(map(_is_chat, document)) else [document]
    if not chats:
        raise ExchangeError(tr("The file holds no conversation. Export the chats again, and choose that file."))
    return [_chat(each) for each in chats]


def _parsed(content: bytes) -> Any:
    """A value of JSON. Raises `ExchangeError`."""
    try:
        content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise ExchangeError(tr("It is not UTF-8 text.")) from None
    try:
        return parse_json(content, _BYTES_PER_BRACKET)
    except ValueError as error:
        raise ExchangeError(tr("The file is not JSON: {error}.").format(error=tr(str(error)))) from error


def from_markdown(text: str) -> list[tuple[str, Conversation]]:
    """Title and conversation of a file as `exported_markdown` writes it. Raises `ExchangeError`."""
    found = _markdown_chat(text)
    return [(found.title, found.conversation)] if found.conversation is not None else []


def _markdown_chat(text: str) -> ReadChat:
    lines = text.replace("\r\n", "\n").split("\n")
    title = lines[0].removeprefix("# ").strip() if lines[0].startswith("# ") else ""
    turns: list[dict[str, str]] = []
    for line in lines[1 if title else 0 :]:
        name = line.removeprefix("## ")
        if line.startswith("## ") and name in _ROLES:
            turns.append({"role": _ROLES[name], "content": ""})
        elif turns:
            turns[-1]["content"] += (line[1:] if line.startswith("\\") and _TURN.fullmatch(line) else line) + "\n"
    if not turns:
        raise ExchangeError(tr("The file holds no turns; expected are headings such as “## You” and “## Answer”."))
    for turn in turns:
        said = turn["content"].strip("\n")
        turn["content"] = "" if said == _NOTHING else said
    return _chat({"title": title, "messages": turns})


def _is_chat(document: Any) -> bool:
    return isinstance(document, dict) and ("messages" in document or services.is_chat(document))


def _chat(document: Any) -> ReadChat:
    """One conversation. Raises `ExchangeError`."""
    if is_whole(document):
        return read_whole(document)
    if lm_studio.is_empty(document):
        return ReadChat(is_empty=True)
    about, has_versions = About(), lm_studio.is_chat(document)
    if has_versions:
        about, document = lm_studio.about(document), lm_studio.as_usual(document)
    elif services.is_chat(document):
        about, document = services.about(document), services.as_usual(document)
        if not document["messages"]:
            return ReadChat(is_empty=True)
    turns = document.get("messages") if isinstance(document, dict) else document
    if not isinstance(turns, list) or not any(map(_may_be_message, turns)):
        form = '{"messages": [{"role": "user", "content": "…"}]}'
        raise ExchangeError(tr("The file holds no messages; expected is {form}.").format(form=form))
    title = document.get("title") if isinstance(document, dict) else ""
    found = conversation_of_turns(map(_versions if has_versions else _turn, turns), about.created)
    if found.is_empty:
        raise ExchangeError(tr("The file holds no question."))
    return ReadChat(title if isinstance(title, str) else "", found, about=about)


def _may_be_message(turn: Any) -> bool:
    return isinstance(turn, Mapping) and not _MESSAGE_KEYS.isdisjoint(turn)


def _versions(turn: Mapping[str, Any]) -> Turn:
    """A turn of which there are several versions; they are one side's."""
    read = [_turn(each) for each in turn["versions"]]
    shown = read[turn["chosen"]]
    mine = [each for each in read if each.role == shown.role]
    return Turn(shown.role, tuple(each.versions[0] for each in mine), mine.index(shown))


def _turn(turn: Any) -> Turn:
    """Who says what, and the model that wrote it, if that is told."""
    role = turn.get("role") if isinstance(turn, Mapping) else None
    content = turn.get("content") if isinstance(turn, Mapping) else None
    if isinstance(content, list):  # parts, of which the texts are kept
        content = "\n".join(part["text"] for part in content if isinstance(part, dict) and _is_text(part.get("text")))
    if role not in get_args(Role) or not _is_text(content):
        raise ExchangeError(tr("The file holds a message without a role or without text."))
    model = turn.get("model") if isinstance(turn, Mapping) else ""
    return Turn(cast(Role, role), ((str(content), json.text(model, _LONGEST_NAME)),))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file that a conversation is written to and read from.

    A name without one gets the first of the `suffixes`. `read` finds the conversations of a file of so many bytes, and
    raises `ExchangeError`.
    """

    name: str
    suffixes: tuple[str, ...]
    write: Callable[[ConversationRecord, Conversation], str]
    read: Callable[[BinaryIO, int], Iterator[ReadChat]]

    @property
    def kind(self) -> str:
        """What a dialog to export calls it."""
        return f"{tr(self.name)} (*{self.suffixes[0]})"


JSON = Format(mark("JSON with all versions"), (".json",), exported_json, _json_chats)
FORMATS = (Format(mark("Markdown, as shown"), (".md", ".markdown"), _shown_markdown, _markdown_chats), JSON)
"""Every format: the dialogs to export and import offer these, and the end of a file's name chooses among them."""


def _format_of(path: Path, otherwise: Format) -> Format:
    return next((each for each in FORMATS if path.suffix.casefold() in each.suffixes), otherwise)


def export_filters() -> dict[str, str]:
    """What the dialog to export offers, each with the suffix that a name without one gets."""
    return {each.kind: each.suffixes[0] for each in FORMATS}


def chat_files(folder: Path) -> Iterator[Path | None]:
    """The files of a folder and its sub-folders that can be read, in order; None behind each folder that was looked at.

    Where LM Studio keeps its chats, these are the only ones. What is hidden is passed over, and no link followed.
    """
    suffixes = tuple(suffix for each in FORMATS for suffix in each.suffixes)
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        seen = sorted(each for each in files if each.casefold().endswith(suffixes) and not each.startswith("."))
        own = [each for each in seen if each.endswith(lm_studio.SUFFIX)]
        yield from (Path(place, each) for each in own or seen)
        yield None


def import_patterns() -> str:
    """The names of files that can be read."""
    return " ".join(f"*{suffix}" for each in reversed(FORMATS) for suffix in each.suffixes)


def write_conversation(path: Path, record: ConversationRecord, conversation: Conversation) -> None:
    """Write a chat; the end of the name decides how. Raises `OSError`; then the old file is left."""
    text = _format_of(path, FORMATS[0]).write(record, conversation)
    write_chosen(path, text.encode("utf-8", "replace"))


def file_name(title: str) -> str:
    """A title as the name of a file, without a suffix."""
    name = "".join(each if each.isalnum() or each in " -_" else "_" for each in title[:_LONGEST_TITLE])
    return name.strip(" _") or "chat"  # what ended a sentence is no part of a name


def write_copies(
    folder: Path, chats: Sequence[tuple[ConversationRecord, Conversation]], unsent: Sequence[Unsent] = ()
) -> tuple[int, str]:
    """Write each of these into a new file of a folder; returns how many, and why not all.

    A chat has all its versions, and is as it was when it is imported again; an unsent text is a text file, and its
    pictures are files beside it.
    """
    written = 0
    try:
        for record, conversation in chats:
            place = _free(folder, file_name(record.shown_title), JSON.suffixes[0])
            write_conversation(place, record, conversation)
            written += 1
        for name, suffix, content in chain.from_iterable(map(_files_of, unsent)):
            write_chosen(_free(folder, name, suffix), content)
            written += 1
    except OSError as error:
        return written, reason_text(error)
    return written, ""


def _files_of(unsent: Unsent) -> Iterator[tuple[str, str, bytes]]:
    """What is written in it by hand, and its pictures: names, suffixes and contents."""
    for text in unsent.texts:
        yield file_name(tr("Unsent text")), ".txt", text.encode("utf-8", "replace")
    for each in unsent.attachments:
        if each.picture:
            yield file_name(Path(each.name).stem), SUFFIXES.get(kind_of(each.picture), ""), each.picture


def _free(folder: Path, name: str, suffix: str) -> Path:
    """A place in the folder where nothing is yet."""
    names = chain([name], (f"{name} {number}" for number in count(2)))
    return next(place for place in (folder / f"{each}{suffix}" for each in names) if not place.exists())


def read_conversations(path: Path) -> Iterator[ReadChat]:
    """The conversations of a file, one by one; what is none says why, and the next one may be one.

    Raises `ExchangeError` with the reason where nothing more can be read.
    """
    try:
        size = path.stat().st_size
        if size > _LARGEST_BYTES:
            raise ExchangeError(tr("It is larger than {size} MB.").format(size=_LARGEST_BYTES >> 20))
        with open_ordinary(path) as file:
            yield from _format_of(path, JSON).read(file, max(size, 1))
    except OSError as error:
        raise ExchangeError(tr("It cannot be read: {reason}.").format(reason=reason_text(error))) from error
