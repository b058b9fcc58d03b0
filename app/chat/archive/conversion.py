"""Converts conversations to the records of the database and back."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

from app.chat.history.calls import call_details, calls_of
from app.chat.history.conversation import Conversation
from app.chat.history.message import (
    AnswerEnding,
    Message,
    attachment_details,
    attachments_of,
    pictures_of,
    settled,
)
from app.chat.history.records import ConversationRecord, MessageRecord
from app.chat.history.token_probabilities import probabilities_of_details, probability_details
from app.settings.store import read_generation
from engine.protocol.messages import Seconds, Statistics
from engine.protocol.sentences import Sentence, from_json, to_json

_Detail = TypeVar("_Detail", str, float)

_TITLE_LENGTH = 60
_ENDINGS = {each.value: each for each in AnswerEnding}
_LARGEST = 1 << 62  # of a figure; what is larger is damaged, as is what is no number


def records_of(conversation: Conversation, title: str) -> tuple[ConversationRecord, list[MessageRecord]]:
    """A conversation with all its messages; without a title it gets an automatic one."""
    record = ConversationRecord(
        conversation.id,
        title=title,
        auto_title=automatic_title(conversation),
        leaf=conversation.leaf,
        settings=settings_of(conversation),
    )
    return record, [message_record(record.id, each) for each in (*conversation.messages, *conversation.hidden)]


def automatic_title(conversation: Conversation) -> str:
    """A title made of the first question, or of what was attached to it."""
    if conversation.is_empty:
        return ""
    first = conversation.messages[0]
    return title_of(first.text or ", ".join(each.name for each in first.attachments))


def title_of(question: str) -> str:
    """A title made of the first line of a question, cut at a word."""
    line = next((" ".join(each.split()) for each in question.splitlines() if each.strip()), "")
    if len(line) <= _TITLE_LENGTH:
        return line
    cut = line[: _TITLE_LENGTH + 1].rpartition(" ")[0] or line[:_TITLE_LENGTH]
    return cut.rstrip(".,;:!?") + "…"


def message_record(conversation: int, message: Message) -> MessageRecord:
    """A message as it is kept."""
    details: dict[str, Any] = {"statistics": asdict(message.statistics)} if message.statistics else {}
    if message.statistics and isinstance(message.statistics.note, Sentence):
        details["note"] = to_json(message.statistics.note)  # `statistics` holds the English text
    if message.beginning:
        details["beginning"] = message.beginning
    if message.thought_seconds:
        details["thought_seconds"] = round(message.thought_seconds, 3)
    if message.answerer:
        details["answerer"] = message.answerer
    if message.probabilities and message.ending.is_final:
        details["chances"] = probability_details(message.probabilities)
    if message.calls:
        details["calls"] = call_details(message.calls)
    if message.attachments:
        details["attachments"] = attachment_details(message.attachments)
    return MessageRecord(
        message.id, conversation, message.parent, message.role, message.text, message.ending.value, details,
        message.created, pictures_of(message.attachments),
    )  # fmt: skip


def conversation_of(record: ConversationRecord, messages: Sequence[MessageRecord]) -> Conversation:
    """A conversation as it was kept. A question whose answer never reached the disk gets one that was cut off."""
    found = [_message(each) for each in messages]
    answered = {each.parent for each in found if each.role == "assistant"}
    leaf = record.leaf
    for question in [each for each in found if each.role == "user" and each.id not in answered]:
        found.append(Message("assistant", "", AnswerEnding.CLOSED, parent=question.id, created=question.created))
        leaf = found[-1].id if leaf == question.id else leaf
    generation, reads_from, summary = map(record.settings.get, ("generation", "reads_from", "summary"))
    return Conversation(
        found,
        leaf,
        record.id,
        settings=read_generation(generation) if isinstance(generation, dict) else None,
        reads_from=reads_from if isinstance(reads_from, int) else 0,
        summary=summary if isinstance(summary, str) else "",
    )


def settings_of(conversation: Conversation) -> dict[str, Any]:
    """What is kept of a conversation besides its messages."""
    kept: dict[str, Any] = {}
    if conversation.settings is not None:
        kept["generation"] = asdict(conversation.settings)
    if conversation.reads_from:
        kept["reads_from"] = conversation.reads_from
    if conversation.summary:
        kept["summary"] = conversation.summary
    return kept


def _message(record: MessageRecord) -> Message:
    return settled(
        Message(
            record.role,
            record.text,
            _ENDINGS.get(record.ending, AnswerEnding.COMPLETE),
            _statistics(record.details.get("statistics"), record.details.get("note")),
            parent=record.parent,
            id=record.id,
            created=record.created,
            attachments=attachments_of(record.details.get("attachments"), record.pictures),
            beginning=_kept(record, "beginning", ""),
            thought_seconds=_kept(record, "thought_seconds", 0.0),
            answerer=_kept(record, "answerer", ""),
            probabilities=probabilities_of_details(record.details.get("chances")),
            calls=calls_of(record.details.get("calls"), record.text),
        )
    )


def _kept(record: MessageRecord, name: str, default: _Detail) -> _Detail:
    """A detail of a message, if it is of the kind that it should be."""
    value = record.details.get(name)
    return value if isinstance(value, type(default)) else default


def _statistics(kept: object, note: object) -> Statistics | None:
    """Figures of this or another version of the program: what is known of them; with a note that can be translated."""
    if not isinstance(kept, dict):
        return None
    seconds = kept.get("seconds")
    parts = Seconds(**_figures(Seconds, seconds)) if isinstance(seconds, dict) else Seconds()
    found = Statistics(**_figures(Statistics, kept), seconds=parts)
    with suppress(TypeError, ValueError, RecursionError):
        sentence = from_json(note)
        if isinstance(sentence, Sentence) and sentence == found.note:
            return replace(found, note=sentence)
    return found


def _figures(kind: type[Statistics | Seconds], kept: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of these figures, each as its field has it."""
    found: dict[str, Any] = {}
    for each in fields(kind):
        value = kept.get(each.name)
        if isinstance(each.default, float) and isinstance(value, int | float) and abs(value) <= _LARGEST:
            found[each.name] = float(value)
        elif (type(value) is int and type(each.default) is int and abs(value) <= _LARGEST) or (
            isinstance(value, str) and isinstance(each.default, str)
        ):
            found[each.name] = value
    return found
