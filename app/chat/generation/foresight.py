"""What will be read with the next question, found out before it is sent: by the same rule, from the same counts."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from app.chat.generation.context_fit import answer_reserve, first_turn_to_read, summary_reserve
from app.chat.generation.context_use import ContextUse
from app.chat.generation.shown_pictures import shown_pictures
from app.chat.history.conversation import Conversation, counted_text, with_summary
from app.chat.history.message import Attachment, Message, pictures_of, with_attachments
from app.settings.generation import STOP, SUMMARISE, GenerationSettings
from engine.protocol.messages import ChatMessage, Counted
from engine.protocol.pictures import MOST_PICTURES, Picture

Question = tuple[tuple[ChatMessage, ...], tuple[str, ...]]
"""A conversation and texts whose tokens are to be counted."""

_FIRST_LETTERS = 48  # of a turn, in a list of them


@dataclass(frozen=True, slots=True)
class Draft:
    """A question as it is being written; empty: none is."""

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    beginning: str = ""

    @property
    def turn(self) -> tuple[ChatMessage, ...]:
        """The turn that it will be."""
        if not (self.text.strip() or self.attachments):
            return ()
        shown = tuple(map(Picture, pictures_of(self.attachments)))
        asked = ChatMessage("user", with_attachments(self.text.strip(), self.attachments), pictures=shown)
        return (asked, ChatMessage("assistant", self.beginning)) if self.beginning else (asked,)


@dataclass(frozen=True, slots=True)
class NextPrompt:
    """What there is to read: the turns so far, as they will be read, and the next one.

    `reads_pictures`: what is loaded does.
    """

    turns: tuple[tuple[ChatMessage, ...], ...]
    next: tuple[ChatMessage, ...]
    system_prompt: str
    summary: str
    reads_pictures: bool = True

    def read_from(self, first: int) -> tuple[ChatMessage, ...]:
        """The prompt that begins with this turn."""
        told = with_summary(self.system_prompt, self.summary if first else "")
        system = [ChatMessage("system", told)] if told else []
        chat = (*system, *(each for turn in self.turns[first:] for each in turn), *self.next)
        return shown_pictures(chat, self.reads_pictures)

    @property
    def unread_pictures(self) -> int:
        """How many pictures of the turns so far are not read, whatever is."""
        said = sum(len(each.pictures) for turn in self.turns for each in turn)
        asked = sum(len(each.pictures) for each in self.next)
        return min(said, max(0, said + asked - MOST_PICTURES)) if self.reads_pictures else said


def next_prompt(conversation: Conversation, system_prompt: str, draft: Draft, reads_pictures: bool) -> NextPrompt:
    """A question that was never answered is not read any more when the next one is asked."""
    turns, answer = conversation.turns(), conversation.last_answer
    if draft.turn and answer is not None and not answer.text:
        turns[-1] = ()
    return NextPrompt(tuple(turns), draft.turn, system_prompt, conversation.summary, reads_pictures)


def foresee(
    conversation: Conversation,
    generation: GenerationSettings,
    draft: Draft,
    known: dict[str, int],
    reads_pictures: bool = True,
) -> Generator[Question, Counted, ContextUse]:
    """Ask for the counts that are needed, mostly one, and tell what they mean. `known` keeps lengths of turns."""
    prompt = next_prompt(conversation, generation.system_prompt, draft, reads_pictures)
    asked = conversation.messages[::2]
    stops = generation.when_full == STOP
    now = 0 if stops else conversation.first_read
    counted = yield prompt.read_from(now), tuple(each.written_out for each in draft.attachments)
    context = counted.context_tokens
    reserve = answer_reserve(generation.max_new_tokens, context)
    unread = prompt.unread_pictures
    use = ContextUse(counted.tokens, context, reserve, generation.when_full, unread_pictures=unread)
    if stops or not prompt.turns or not counted.tokens or (not now and counted.tokens + reserve <= context):
        return use
    texts = [counted_text(turn) for turn in prompt.turns]
    tokens = counted.tokens
    if (unknown := _forget_others(known, texts)) or now:
        whole = yield prompt.read_from(0) if now else (), unknown
        known.update(zip(unknown, whole.texts, strict=False))
        tokens = whole.tokens if now else tokens
    lengths = [*(known.get(each, 0) for each in texts), 0]  # the next turn is always read, however long it is
    has_summary = bool(prompt.summary)
    first = first_turn_to_read(tokens, lengths, context, generation.max_new_tokens, now, has_summary)
    if first <= now:
        return use
    after = tokens - sum(lengths[:first])  # at most: templates write around turns
    if after + reserve > context:
        alone = yield prompt.read_from(first), ()
        after = alone.tokens + (summary_reserve(context) if generation.when_full == SUMMARISE else 0)
    named = tuple(_first_words(asked[turn]) for turn in range(now, first) if prompt.turns[turn])
    return replace(use, left_out=named, first=first, tokens_after=after)


def _forget_others(known: dict[str, int], texts: Sequence[str]) -> tuple[str, ...]:
    """Keep the lengths of these texts alone; returns those whose length is not known."""
    for other in known.keys() - set(texts):
        del known[other]
    return tuple(dict.fromkeys(each for each in texts if each not in known))


def _first_words(question: Message) -> str:
    said = " ".join((question.text or ", ".join(each.name for each in question.attachments)).split())
    return said if len(said) <= _FIRST_LETTERS else f"{said[:_FIRST_LETTERS].rstrip()}…"
