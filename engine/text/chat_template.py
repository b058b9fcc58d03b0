"""A conversation written out as the one text that a model continues, in which nothing typed becomes a control token."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.sentences import say
from engine.text.backend import complaint_of
from engine.text.template_renderer import TemplateRefusal
from engine.text.tools.turns import join_user_turns, map_message

# Tokens that steer the model, though many tokenizers do not flag them as special.
CONTROL_SHAPE = re.compile(r"<[|｜].+[|｜]>")
PRIVATE_USE = range(0xE000, 0xF900)

Render = Callable[[Sequence[ChatMessage]], str]

PLAIN_STOP = "\nUser:"
PLAIN_GAP = " "  # between "Assistant:" and the answer


class ControlTokens:
    """Knows which strings a tokenizer turns into control tokens, and breaks them where a person typed them.

    A seam, a character found nowhere else in the conversation, is put behind the first character of each such string.
    It travels through the chat template like any other character; the text is then encoded seam by seam, so that no
    string that was typed is ever seen whole. A conversation without such strings stays as it is, to the last token.
    """

    def __init__(self, added_tokens: Mapping[str, bool], template: str) -> None:
        """`added_tokens` says of each token beside the learnt vocabulary whether it is special."""
        strings = {token: special for token, special in added_tokens.items() if len(token) > 1}
        self._template = template
        self._always = [token for token, special in strings.items() if special or CONTROL_SHAPE.fullmatch(token)]
        # Marks that the template itself writes, such as those around a tool's answer, are no more to be typed by a
        # person; but in an answer they are the model's own words, such as the marks around its reasoning.
        self._typed = self._always + [
            token for token in strings if token in template and not token.isspace() and not token.isalnum()
        ]

    def choose_seam(self, texts: Iterable[str]) -> str:
        """A character that occurs neither in the texts of a conversation nor in the template.

        A conversation that has every private character in it loses the first of them: it is taken for the seam.
        """
        used = set(self._template).union(*texts)
        return next((character for character in map(chr, PRIVATE_USE) if character not in used), chr(PRIVATE_USE[0]))

    def has_control(self, text: str) -> bool:
        """Whether a control token is written in the text."""
        return any(token in text for token in self._always)

    def break_up(self, message: ChatMessage, seam: str) -> ChatMessage:
        """The message with a seam in every control token in its text, and in what it says of calls."""
        told = map_message(message, lambda text: self.broken(text, seam))
        if message.role == "assistant":
            return replace(told, content=self._broken(message.content, seam, self._always))
        return told

    def broken(self, text: str, seam: str) -> str:
        """A text that the model itself did not write, with a seam in every control token."""
        return self._broken(text, seam, self._typed)

    def _broken(self, text: str, seam: str, tokens: Sequence[str]) -> str:
        present = [token for token in tokens if token in text]
        if not present:
            return text
        start = re.compile(f"(?=(?:{'|'.join(map(re.escape, present))}))(.)", re.DOTALL)
        return start.sub(rf"\g<1>{seam}", text)


def parted(messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], str]:
    """The conversation up to the question, and the answer to continue, empty for a new one.

    Raises `InputError` unless there is something to answer.
    """
    if not messages:
        raise InputError(say("The conversation is empty."), say("Write a message first."))
    begun = messages[-1].content if messages[-1].role == "assistant" else ""
    asked = list(messages[:-1] if messages[-1].role == "assistant" else messages)
    if not asked or asked[-1].role not in ("user", "tool") or messages[-1].tool_calls:
        raise InputError(say("The conversation does not end with a message to answer."), say("Write a message first."))
    if asked[-1].role == "user" and not asked[-1].content.strip():
        raise InputError(say("The message is empty."), say("Write something first."))
    return asked, begun


def write_chat(messages: Sequence[ChatMessage], render: Render) -> str:
    """The conversation in the words of the model's template.

    A template that refuses a system message, or leaves it out, gets it as the beginning of the first user message.
    Raises `InputError` with the template's own sentence when it refuses the conversation all the same, and whatever
    else `render` raises.
    """
    refusal = ""
    for turns in (list(messages), _without_system(messages)):
        try:
            text = render(turns)
        except TemplateRefusal as error:
            refusal = refusal or complaint_of(error)
            continue
        if all(turn.content.strip() in text for turn in turns if turn.role == "system"):
            return text
    words = say("The model's chat template refuses this conversation: {reason}.", reason=refusal)
    raise InputError(words, say("Change the conversation, or choose another model."))


def write_plain(messages: Sequence[ChatMessage]) -> str:
    """The conversation as `User:` and `Assistant:` lines, for a model that has no template."""
    names = {"system": "", "user": "User: ", "assistant": "Assistant: "}
    return "\n".join([names[turn.role] + turn.content for turn in messages] + ["Assistant:"])


def _without_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The conversation with all system messages put before the text of the first user message.

    Users' messages that a system message parted are one turn then.
    """
    system = [turn.content for turn in messages if turn.role == "system"]
    others = [turn for turn in messages if turn.role != "system"]
    first = next((index for index, turn in enumerate(others) if turn.role == "user"), None)
    if first is None:  # a tool answers what nobody asked
        return [ChatMessage("user", "\n\n".join(system)), *others] if system else others
    others[first] = ChatMessage("user", "\n\n".join([*system, others[first].content]))
    return join_user_turns(others) if system else others


def place_of_answer(opening: str, whole: str, mark: str, has_control: Callable[[str], bool]) -> tuple[str, str]:
    """The prompt before an answer that is continued, and the text between the two.

    `opening` is the conversation with the generation prompt, `whole` the conversation with a finished answer `mark`.
    Use the generation prompt: the model wrote its answer behind it, with its reasoning, which templates drop or close
    in finished answers. Except where `whole` has control tokens between the two, such as the name of a channel: these
    are missing from the text of the answer, and have to be put back.
    """
    before, found, _ = whole.rpartition(mark)
    if not found or not before.startswith(opening):
        return opening, ""
    between = before[len(opening) :]
    if not between.strip():
        return opening, between
    return (before, "") if has_control(between) else (opening, "")
