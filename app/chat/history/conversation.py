"""A conversation as plain data: a tree of messages of which one path is shown; knows nothing of windows or engines."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from app.chat.history.calls import kept_with, turns_of
from app.chat.history.message import ROOT, AnswerEnding, Attachment, Message, Version
from app.chat.history.records import new_id
from app.settings.generation import GenerationSettings
from engine.protocol.messages import ChatMessage

# To the model, not to a person: it is the same in every language of the window.
SUMMARY_PREFACE = "Summary of the conversation before this point:"


@dataclass(frozen=True, slots=True)
class Removal:
    """What was taken out of a conversation, parents first, and what is needed to put it back.

    `moved`: what followed and stays, each with the parent that it had; `leaf`, `reads_from` and `summary` are those of
    before; `place`: from which number of the path on others are shown. `id` is the removal's own.
    """

    messages: tuple[Message, ...]
    moved: tuple[tuple[int, int], ...]
    leaf: int
    reads_from: int
    summary: str
    place: int
    id: int = field(default_factory=new_id)


class Conversation:
    """Questions and answers in turn. Another version of a message stands beside it: nothing is ever written over.

    `messages` is the path that is shown, oldest first: a question is followed by its answer. `settings` are its own
    ones, None for those of new chats. `reads_from` is the question that the model reads from on, 0 for the first: what
    stands before it had to give way, perhaps to `summary`.
    """

    def __init__(
        self,
        messages: Iterable[Message] = (),
        leaf: int = ROOT,
        identity: int = 0,
        settings: GenerationSettings | None = None,
        reads_from: int = ROOT,
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
        return tuple(map(self._all.__getitem__, self._path))  # of a hundred thousand, many times

    @property
    def hidden(self) -> tuple[Message, ...]:
        """All other versions, and what followed them."""
        if len(self._path) == len(self._all):
            return ()
        shown = set(self._path)
        return tuple(each for each in self._all.values() if each.id not in shown)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been asked yet."""
        return not self._path

    @property
    def leaf(self) -> int:
        """The last message that is shown; 0 if there is none."""
        return self._path[-1] if self._path else ROOT

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
        self.reads_from = self._path[2 * turn] if turn else ROOT
        self.summary = summary if turn else ""

    def version(self, message: int) -> Version:
        """Which of the messages at its place it is."""
        beside = self._children[self._all[message].parent]
        return Version(beside.index(message), len(beside))

    @property
    def shown_versions(self) -> dict[int, Version]:
        """Of each message that is shown and has others beside it, which of them it is."""
        parents = zip([ROOT, *self._path], self._path, strict=False)
        return {message: self.version(message) for parent, message in parents if len(self._children[parent]) > 1}

    def versions(self, message: int) -> tuple[Message, ...]:
        """All messages at its place, oldest first."""
        return tuple(self._all[each] for each in self._children[self._all[message].parent])

    # ---- what changes it --------------------------------------------------------------------------------------------

    def ask(
        self, question: str, attachments: Iterable[Attachment] = (), beginning: str = ""
    ) -> tuple[Message, Message]:
        """Add a question and its answer, of which there is no more than its beginning; returns both."""
        return self._ask_behind(self.leaf, question, attachments, beginning)

    def ask_differently(
        self, message: int, question: str, attachments: Iterable[Attachment] = ()
    ) -> tuple[Message, Message]:
        """Put another question beside one of the path, and show it with its answer, still empty; returns both."""
        assert self._all[message].role == "user", "only a question can be asked differently"
        return self._ask_behind(self._all[message].parent, question, attachments)

    def answer_again(self, message: int = 0) -> Message:
        """Put a new answer, with no more than the beginning of this one, beside it, and show it; 0: of the last one.

        What followed stays behind the answer that it followed. A last answer of which nothing came is no version to be
        kept: the new one takes its place.
        """
        assert self._path, "there is no answer yet"
        before = self._all[message or self.leaf]
        assert before.role == "assistant", "only an answer can be given again"
        new = _begun(before.parent, before.beginning)
        if before.id != self.leaf or before.text != before.beginning:
            return self._show_new(new)
        new = replace(new, id=before.id, created=before.created)
        self.change(new)
        return new

    def answer_differently(self, message: int, text: str) -> Message:
        """Put an answer in a person's own words beside one of the path, and show it; what followed stays behind.

        What an answer to the question is to begin with stays the same; one that ended early can still be continued.
        Calls of tools belong to it as far as it says the same.
        """
        before = self._all[message]
        assert before.role == "assistant", "only an answer can be given differently"
        ending = AnswerEnding.STOPPED if before.ending.is_early else AnswerEnding.COMPLETE
        calls = kept_with(before.calls, before.text, text)
        beginning, parent = before.beginning, before.parent
        return self._show_new(Message("assistant", text, ending, parent=parent, beginning=beginning, calls=calls))

    def show_version(self, message: int, index: int) -> Message:
        """Show the version number `index` in the place of this message, and behind it what was last shown there."""
        beside = self._children[self._all[message].parent]
        assert 0 <= index < len(beside), "there is no such version"
        self._shown[self._all[message].parent] = beside[index]
        self._path = self._walk()
        return self._all[beside[index]]

    def remove(self, message: int) -> Removal:
        """Take a message of the path out: a version of an answer, or a question with its answers.

        An answer without other versions goes with its question: turns are whole. What followed stays, behind the
        version that is shown in its place, or behind the turn before; what followed a question's other answers goes.
        """
        top = self._all[message]
        if top.role == "assistant" and len(self._children[top.parent]) == 1:
            top = self._all[top.parent]
        place = self._path.index(top.id)
        last = place if top.role == "assistant" else place + 1
        moved, ahead = list(self._children[self._path[last]]), ROOT
        if last + 1 < len(self._path):
            ahead = self._path[last + 1]
        gone = self._below(top.id, without=moved)
        beside = self._children[top.parent]
        others = [each for each in beside if each != top.id]
        neighbour = others[max(0, beside.index(top.id) - 1)] if others else ROOT
        heir = neighbour if top.role == "assistant" else top.parent
        removal = Removal(
            tuple(self._all[each] for each in gone),
            tuple((each, self._all[each].parent) for each in moved),
            self.leaf, self.reads_from, self.summary, place,
        )  # fmt: skip
        self._children[top.parent] = others
        for each in gone:
            self._forget(each)
        for each in moved:
            self._move(each, heir)
        if top.role == "assistant":
            self._show_behind(top.parent, heir)
            self._show_behind(heir, ahead or self._shown.get(heir, ROOT))
        else:
            self._show_behind(heir, ahead or neighbour)
        if self.reads_from in gone:
            self.reads_from, self.summary = ahead, self.summary if ahead else ""
        self._path = self._walk()
        return removal

    def restore(self, removal: Removal) -> None:
        """Put back what was removed, the last removal first, and show the path of before."""
        for message in removal.messages:
            self._add(message)
        self._sort(removal.messages[0].parent)
        for child, parent in removal.moved:
            self._children[self._all[child].parent].remove(child)
            self._move(child, parent)
        self.reads_from, self.summary = removal.reads_from, removal.summary
        self._show_path_to(removal.leaf)
        self._path = self._walk()

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

    def prompt_of(self, answer: int, system_prompt: str) -> tuple[ChatMessage, ...]:
        """What the engine would be asked for another answer in the place of this one, to a question of the path."""
        turn = self._path.index(self._all[answer].parent) // 2
        first = self.first_read if self.first_read <= turn else 0
        told = with_summary(system_prompt, self.summary if first else "")
        question, before = self._all[self._path[2 * turn]], self.turns()[first:turn]
        asked = [ChatMessage("user", question.content, pictures=question.pictures)]
        begun = [ChatMessage("assistant", beginning)] if (beginning := self._all[answer].beginning) else []
        system = [ChatMessage("system", told)] if told else []
        return (*system, *(each for said in before for each in said), *asked, *begun)

    def turns(self) -> list[tuple[ChatMessage, ...]]:
        """Every turn that is shown as the engine gets it; nothing of one that was never answered but for the last."""
        pairs = list(pairwise(self.messages))[::2]
        said = [tuple(turn for each in pair for turn in _as_read(each)) for pair in pairs]
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
        assert message.parent == ROOT or message.parent in self._all, "a parent is there before its children"
        self._all[message.id] = self._changed[message.id] = message
        self._children[message.parent].append(message.id)

    def _move(self, message: int, parent: int) -> None:
        """Have a message follow another one; it has been taken from the one before."""
        self._all[message] = self._changed[message] = replace(self._all[message], parent=parent)
        self._children[parent].append(message)
        self._sort(parent)

    def _forget(self, message: int) -> None:
        del self._all[message]
        self._children.pop(message, None)
        self._shown.pop(message, None)
        self._changed.pop(message, None)

    def _sort(self, parent: int) -> None:
        """Versions stand in the order in which they were made, as when they are loaded."""
        self._children[parent].sort(key=lambda each: (self._all[each].created, each))

    def _show_behind(self, parent: int, child: int) -> None:
        if child:
            self._shown[parent] = child
        else:
            self._shown.pop(parent, None)

    def _below(self, top: int, without: Iterable[int]) -> list[int]:
        """A message and all that follows it, parents first, but for these and what follows them."""
        found, kept = [top], set(without)
        for each in found:  # it grows
            found += [child for child in self._children[each] if child not in kept]
        return found

    def _show_path_to(self, leaf: int) -> None:
        message = self._all.get(leaf)
        while message is not None:
            self._shown[message.parent] = message.id
            message = self._all.get(message.parent)

    def _walk(self) -> list[int]:
        path, here = [], ROOT
        while self._children[here]:
            here = self._shown.get(here, self._children[here][-1])
            path.append(here)
        return path


def _begun(parent: int, beginning: str) -> Message:
    return Message("assistant", beginning, AnswerEnding.WAITING, parent=parent, beginning=beginning)


def _as_read(message: Message) -> tuple[ChatMessage, ...]:
    """A message as the engine gets it; nothing of one that says nothing."""
    if message.calls:
        return turns_of(message.text, message.calls)
    is_empty = not (message.content or message.pictures)
    return () if is_empty else (ChatMessage(message.role, message.content, pictures=message.pictures),)


def counted_text(turn: Iterable[ChatMessage]) -> str:
    """All that is written in a turn, to be counted."""
    return "\n".join(
        "\n".join([each.content, *(f"{call.name} {call.arguments}" for call in each.tool_calls)]) for each in turn
    )


def with_summary(system_prompt: str, summary: str) -> str:
    """The system prompt for a conversation whose first turns are read as a summary."""
    return "\n\n".join(filter(None, (system_prompt.strip(), f"{SUMMARY_PREFACE}\n{summary}" if summary else "")))
