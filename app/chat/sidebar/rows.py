"""What the list shows, row by row: pure, from records and the time of day."""

import datetime
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from app.chat.history.records import HIT_BEGIN, HIT_END, ConversationRecord, SearchHit
from app.i18n.wording import mark

PINNED, TODAY, YESTERDAY, WEEK, MONTH, EARLIER = (
    mark("Pinned"), mark("Today"), mark("Yesterday"),
    mark("Previous 7 days"), mark("Previous 30 days"), mark("Earlier"),
)  # fmt: skip
IN_TITLES, IN_TEXTS = mark("In titles"), mark("In messages")


@dataclass(frozen=True, slots=True)
class HeaderRow:
    """A line above a group. What is dropped on it goes to `folder`; empty: out of every folder.

    Of one that `is_closed` the conversations are not shown, only how many there are.
    """

    text: str
    folder: str = ""
    count: int = 0
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A conversation; `excerpt` is where a search found its words, and `message` in which message."""

    record: ConversationRecord
    excerpt: str = ""
    message: int = 0
    is_found: bool = False

    @property
    def folder_elsewhere(self) -> str:
        """The folder of one that was found, or stands among the pinned ones; of all others the header tells it."""
        return self.record.folder if self.is_found or self.record.is_pinned else ""


Row = HeaderRow | ChatRow


def rows_of(records: Sequence[ConversationRecord], now: float, closed: AbstractSet[str] = frozenset()) -> list[Row]:
    """Pinned ones, then folders by name, then the rest by age; `records` newest first, `now` in seconds since 1970.

    Folders whose names are in `closed` show none of their conversations.
    """
    begins, names = zip(*reversed(_day_begins(now)), strict=True)  # the earliest first
    names = (EARLIER, *names)
    pinned: list[ChatRow] = []
    folders: dict[str, list[ChatRow]] = {}
    ages: dict[str, list[ChatRow]] = {name: [] for name in (TODAY, YESTERDAY, WEEK, MONTH, EARLIER)}
    for each in records:
        if each.is_pinned:
            pinned.append(ChatRow(each))
        elif each.folder:
            folders.setdefault(each.folder, []).append(ChatRow(each))
        else:
            ages[names[bisect_right(begins, each.updated)]].append(ChatRow(each))
    in_order = sorted(folders.items(), key=lambda each: each[0].casefold())
    named = {HeaderRow(name, name, len(found), name in closed): found for name, found in in_order}
    return _flat({HeaderRow(PINNED): pinned, **named, **{HeaderRow(name): found for name, found in ages.items()}})


def hit_rows(hits: Sequence[SearchHit]) -> list[Row]:
    """What a search found: titles first, then the best message of every conversation."""
    titled = [hit for hit in hits if not hit.message]
    inside: dict[int, SearchHit] = {}
    for hit in hits:
        if hit.message:
            inside.setdefault(hit.conversation.id, hit)
    groups = {HeaderRow(IN_TITLES): titled, HeaderRow(IN_TEXTS): list(inside.values())}
    return _flat(
        {
            header: [ChatRow(hit.conversation, hit.excerpt, hit.message, is_found=True) for hit in found]
            for header, found in groups.items()
        }
    )


def found_words(searched: str, excerpt: str) -> str:
    """What of a search stands together in an excerpt: all that was typed, or else the first word that was found."""
    typed = " ".join(searched.split())
    shown = " ".join(excerpt.replace(HIT_BEGIN, "").replace(HIT_END, "").split())
    if typed and typed.casefold() in shown.casefold():
        return typed
    return excerpt.partition(HIT_BEGIN)[2].partition(HIT_END)[0].strip()


def _flat(groups: Mapping[HeaderRow, Sequence[ChatRow]]) -> list[Row]:
    """Every group that has something in it, below its header."""
    rows: list[Row] = []
    for header, found in groups.items():
        if found:
            rows += [header] if header.is_closed else [header, *found]
    return rows


def _day_begins(now: float) -> list[tuple[float, str]]:
    """When each group begins, in seconds since 1970, the latest first; days begin at local midnight."""
    today = datetime.datetime.fromtimestamp(now, tz=datetime.UTC).astimezone().date()
    groups = ((0, TODAY), (1, YESTERDAY), (7, WEEK), (30, MONTH))
    midnights = [
        (datetime.datetime.combine(today, datetime.time()) - datetime.timedelta(days), name) for days, name in groups
    ]
    return [(midnight.astimezone().timestamp(), name) for midnight, name in midnights]
