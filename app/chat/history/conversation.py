"""A conversation as plain data: a tree of messages of which one path is shown; knows nothing of windows or engines."""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise

from app.chat.history.attachment import Attachment, with_attachments
from app.chat.history.chances import Chances
from app.chat.history.records import new_id
from app.chat.history.summary import with_summary
from app.settings.store import GenerationSettings
from engine.protocol.messages import ChatMessage, Role, Statistics

_ROOT = 0


class Ending(Enum):
    """How an answer stands."""

    WAITING = "waiting"  # for an engine that is still starting or loading
    OPEN = "open"
    COMPLETE = "complete"
    LENGTH = "length"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # the engine died

    @property
    def is_final(self) -> bool:
        """Whether nothing more will come."""
        return self not in (Ending.WAITING, Ending.OPEN)

    @property
    def is_early(self) -> bool:
        """Whether there might have been more of the answer."""
        return self in (Ending.LENGTH, Ending.STOPPED, Ending.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn as it is shown. `ending` and `statistics` speak of answers; a person's turn is complete.

    `attachments` are files that a person put into a question; `beginning` are the words that a person had an answer
    start with, `thought_seconds` how long it took the model to think before it, `chances` how likely the target found
    what it says.
    `parent` is the message it follows, 0 for a first one; `created` in seconds since 1970. Two messages that say the
    same are equal.
    """

    role: Role
    text: str
    ending: Ending = Ending.COMPLETE
    statistics: Statistics | None = None
    parent: int = field(default=_ROOT, compare=False)
    id: int = field(default_factory=new_id, compare=False)
    created: float = field(default_factory=time.time, compare=False)
    attachments: tuple[Attachment, ...] = ()
    beginning: str = ""
    thought_seconds: float = 0.0
    chances: Chances | None = field(default=None, compare=False)

    @property
    def content(self) -> str:
        """All that it says, attachments written out."""
        return with_attachments(self.text, self.attachments) if self.attachments else self.text


@dataclass(frozen=True, slots=True)
class Version:
    """Which of several messages at the same place one is: number `index`, from 0, of `count`."""

    index: int
    count: int


class Conversation:
    """Questions and answers in turn. Another version of a message stands beside it: nothing is ever written over.

    `messages` is the path that is shown, oldest first: a question is followed by its answer. `settings` are its own
    ones, None for those of new chats. `reads_from` is the question that the model reads from on, 0 for the first: what
    stands before it had to give way, perhaps to `summary`.
    """

    def __init__(
        self,
        messages: Iterable[Message] = (),
        leaf: int = _ROOT,
        identity: int = 0,
        settings: GenerationSettings | None = None,
        reads_from: int = _ROOT,
        summary: str = "",
    ) -> None:
        """`messages`: of the whole tree, parents first; `leaf`: the last one of the path to show, 0 for the newest."""
        self.id = identity or new_id()
        self.settings = settings
        self.reads_from = reads_from
        self.summary = summary
        self._all: dict[int, Message] = {}
        self._children: dict[int, list[int]] = defaultdict(list)
        self._shown: dict[int, int] = {}  # message -> the child that is shown behind it
        self._changed: dict[int, Message] = {}
        for message in messages:
            self._add(message)
        self._changed.clear()
        self._show_path_to(leaf)
        self._path = self._walk()

    @property
    def messages(self) -> tuple[Message, ...]:
        """All turns that are shown, oldest first."""
        return tuple(self._all[each] for each in self._path)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been asked yet."""
        return not self._path

    @property
    def leaf(self) -> int:
        """The last message that is shown; 0 if there is none."""
        return self._path[-1] if self._path else _ROOT

    @property
    def last_answer(self) -> Message | None:
        """The answer to the last question, None before the first."""
        return self._all[self._path[-1]] if self._path else None

    @property
    def first_read(self) -> int:
        """The number of the turn that the model reads from on."""
        return next((turn for turn, each in enumerate(self._path[::2]) if each == self.reads_from), 0)

    def read_from(self, turn: int, summary: str = "") -> None:
        """Have the model read from this turn on, and no longer what stands before it; instead `summary`, if any."""
        self.reads_from = self._path[2 * turn] if turn else _ROOT
        self.summary = summary if turn else ""

    def version(self, message: int) -> Version:
        """Which of the messages at its place it is."""
        beside = self._children[self._all[message].parent]
        return Version(beside.index(message), len(beside))

    # ---- what changes it --------------------------------------------------------------------------------------------

    def ask(
        self, question: str, attachments: Iterable[Attachment] = (), beginning: str = ""
    ) -> tuple[Message, Message]:
        """Add a question and its answer, of which there is no more than its beginning; returns both."""
        return self._ask_behind(self.leaf, question, attachments, beginning)

    def ask_differently(self, message: int, question: str) -> tuple[Message, Message]:
        """Put another question beside one of the path, and show it with its answer, still empty; returns both."""
        assert self._all[message].role == "user", "only a question can be asked differently"
        return self._ask_behind(self._all[message].parent, question, self._all[message].attachments)

    def answer_again(self) -> Message:
        """Put a new answer, with no more than the beginning of the last one, beside that, and show it."""
        assert self._path, "there is no answer yet"
        last = self._all[self.leaf]
        return self._show_new(_begun(last.parent, last.beginning))

    def answer_differently(self, message: int, text: str) -> Message:
        """Put an answer in a person's own words beside one of the path, and show it; what followed stays behind.

        What an answer to the question is to begin with stays the same; one that ended early can still be continued.
        """
        before = self._all[message]
        assert before.role == "assistant", "only an answer can be given differently"
        ending = Ending.STOPPED if before.ending.is_early else Ending.COMPLETE
        return self._show_new(Message("assistant", text, ending, parent=before.parent, beginning=before.beginning))

    def show_version(self, message: int, index: int) -> Message:
        """Show the version number `index` in the place of this message, and behind it what was last shown there."""
        beside = self._children[self._all[message].parent]
        assert 0 <= index < len(beside), "there is no such version"
        self._shown[self._all[message].parent] = beside[index]
        self._path = self._walk()
        return self._all[beside[index]]

    def change(self, message: Message) -> None:
        """Take a newer state of a message."""
        assert message.id in self._all, "only a message that is there can change"
        self._all[message.id] = self._changed[message.id] = message

    def take_changes(self) -> tuple[Message, ...]:
        """All messages that are new or have changed since the last time."""
        changed, self._changed = tuple(self._changed.values()), {}
        return changed

    # ---- what is made of it -----------------------------------------------------------------------------------------

    def prompt(self, system_prompt: str, first: int | None = None) -> tuple[ChatMessage, ...]:
        """What the engine is asked to continue: every answered question that is read and its answer, then the last one.

        Questions that never got an answer are left out: many chat templates want turns that alternate,
        and a question that was too long for the context must not make the next one too long as well. What there is of
        the last answer comes last: the model goes on from there. `first` is another turn to read from on.
        """
        first = self.first_read if first is None else first
        told = with_summary(system_prompt, self.summary if first else "")
        system = [ChatMessage("system", told)] if told else []
        return (*system, *(each for turn in self.turns()[first:] for each in turn))

    def turns(self) -> list[tuple[ChatMessage, ...]]:
        """Every turn that is shown as the engine gets it; nothing of one that was never answered but for the last."""
        pairs = list(pairwise(self.messages))[::2]
        said = [tuple(ChatMessage(each.role, each.content) for each in pair if each.content) for pair in pairs]
        return [turn if turn is said[-1] or pair[1].text else () for pair, turn in zip(pairs, said, strict=True)]

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _ask_behind(
        self, parent: int, question: str, attachments: Iterable[Attachment], beginning: str = ""
    ) -> tuple[Message, Message]:
        asked = self._show_new(Message("user", question, parent=parent, attachments=tuple(attachments)))
        return asked, self._show_new(_begun(asked.id, beginning))

    def _show_new(self, message: Message) -> Message:
        self._add(message)
        self._shown[message.parent] = message.id
        self._path = self._walk()
        return message

    def _add(self, message: Message) -> None:
        assert message.id not in self._all, "a message is added once"
        assert message.parent == _ROOT or message.parent in self._all, "a parent is there before its children"
        self._all[message.id] = self._changed[message.id] = message
        self._children[message.parent].append(message.id)

    def _show_path_to(self, leaf: int) -> None:
        message = self._all.get(leaf)
        while message is not None:
            self._shown[message.parent] = message.id
            message = self._all.get(message.parent)

    def _walk(self) -> list[int]:
        path, here = [], _ROOT
        while self._children[here]:
            here = self._shown.get(here, self._children[here][-1])
            path.append(here)
        return path


def _begun(parent: int, beginning: str) -> Message:
    return Message("assistant", beginning, Ending.WAITING, parent=parent, beginning=beginning)


def settled(message: Message) -> Message:
    """A message as it is when nobody writes it any more: one that was growing was interrupted."""
    return message if message.ending.is_final else replace(message, ending=Ending.INTERRUPTED)
