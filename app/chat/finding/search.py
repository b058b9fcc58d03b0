"""The search through all messages of a conversation, a little at a time; what was read once is kept."""

from collections.abc import Iterator, Sequence

from app.chat.finding.hits import Hits
from app.chat.finding.needle import Needle, Wanted
from app.chat.finding.visible_text import Lines, VisibleText
from app.chat.history.answer_parts import Part, head_and_rest, parts_of
from app.chat.history.message import TEXT, THOUGHT, Message
from app.chat.text.plain_text_view import PlainStream, as_shown
from app.chat.typesetting.layout_cost import Budget, is_long


class _MessageText:
    """What is seen of a message, its thinking included; files of a question are not shown, so they are not read."""

    def __init__(self, message: Message) -> None:
        is_plain = message.role == "user"
        self._written: tuple[object, ...] = ("",)
        self._short: Lines | None = None
        self._parts = {TEXT: VisibleText(PlainStream)} if is_plain else {THOUGHT: VisibleText(), TEXT: VisibleText()}

    def follow(self, message: Message) -> None:
        """It says this by now."""
        now = (message.text, message.calls, message.opening)
        if now == self._written:
            return
        self._written = now
        if message.role == "user":
            self._short = None if is_long(message.text) else tuple(message.text.split("\n"))
            self._parts[TEXT].follow("" if self._short else as_shown(message.text))
        else:
            thought, said, rest = head_and_rest(parts_of(*now))
            numbered = {THOUGHT: thought, TEXT: said, **dict(enumerate(rest, TEXT + 1))}
            for number in [each for each in self._parts if each not in numbered]:
                del self._parts[number]
            for number, part in numbered.items():
                self._parts.setdefault(number, VisibleText()).follow(part.text if isinstance(part, Part) else "")

    def work(self, budget: Budget) -> bool:
        """Go on reading; whether nothing is left."""
        return all(each.work(budget) for each in self._parts.values())

    def sections(self) -> Iterator[tuple[int, int, Lines]]:
        """Part, number and lines of everything that was read."""
        if self._short is not None:
            yield TEXT, 0, self._short
            return
        for part, text in self._parts.items():
            for number, lines in enumerate(text.sections()):
                yield part, number, lines


class Search:
    """Finds in the messages of one path. `hits` are complete as soon as `work` says so."""

    def __init__(self) -> None:
        self.hits = Hits()
        self.needle = Needle(Wanted())
        self._messages: list[Message] = []
        self._next = 0  # the first message that is not searched yet
        self._going: Iterator[tuple[int, int, Lines]] | None = None  # what is left of that one
        self._texts: dict[int, _MessageText] = {}  # by ids

    @property
    def is_done(self) -> bool:
        """Whether every message was searched."""
        return self._next >= len(self._messages)

    def begin(self, wanted: Wanted, messages: Sequence[Message]) -> None:
        """Look for something, from the first message on."""
        self.needle = Needle(wanted)
        self.hits = Hits()
        self._messages = list(messages) if wanted.words else []
        self._next, self._going = 0, None

    def change_last(self, message: Message) -> None:
        """The last message has grown, or has come."""
        if not self._messages or self._messages[-1].id != message.id:
            return
        self._messages[-1] = message
        last = len(self._messages) - 1
        if self._next >= last:
            self.hits.truncate(last)
            self._next, self._going = last, None

    def forget(self) -> None:
        """Another conversation: keep nothing of what was read."""
        self._texts.clear()
        self.begin(Wanted(), ())

    def work(self, budget: Budget) -> bool:
        """Go on until everything is searched or the time is up; whether everything is."""
        while not self.is_done:
            if self._going is None and not self._read(self._messages[self._next], budget):
                return False
            for part, section, lines in self._going or ():
                self.hits.add((self._next, part, section), sum(map(self.needle.count, lines)))
                if budget.is_spent:
                    return False
            self._next, self._going = self._next + 1, None
            if budget.is_spent:
                break
        return self.is_done

    def _read(self, message: Message, budget: Budget) -> bool:
        """Have the sections of a message that may have a hit; False if there was no time for all of it."""
        if not self.needle.may_be_in(message.text):
            self._going = iter(())
            return True
        if message.id not in self._texts:
            self._texts[message.id] = _MessageText(message)
        text = self._texts[message.id]
        text.follow(message)
        if not text.work(budget):
            return False
        self._going = text.sections()
        return True
