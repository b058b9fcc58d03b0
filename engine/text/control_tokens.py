"""Control tokens that somebody typed, kept from becoming control tokens."""

import re
from collections.abc import Iterable, Mapping

from engine.protocol.messages import ChatMessage

# Tokens that steer the model, though many tokenizers do not flag them as special.
CONTROL_SHAPE = re.compile(r"<[|｜].+[|｜]>")
PRIVATE_USE = range(0xE000, 0xF900)


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

    def choose_seam(self, messages: Iterable[ChatMessage]) -> str:
        """A character that occurs neither in the messages nor in the template.

        A conversation that has every private character in it loses the first of them: it is taken for the seam.
        """
        used = set(self._template).union(*(message.content for message in messages))
        return next((character for character in map(chr, PRIVATE_USE) if character not in used), chr(PRIVATE_USE[0]))

    def has_control(self, text: str) -> bool:
        """Whether a control token is written in the text."""
        return any(token in text for token in self._always)

    def break_up(self, message: ChatMessage, seam: str) -> ChatMessage:
        """The message with a seam in every control token in its text."""
        tokens = self._always if message.role == "assistant" else self._typed
        present = [token for token in tokens if token in message.content]
        if not present:
            return message
        start = re.compile(f"(?=(?:{'|'.join(map(re.escape, present))}))(.)", re.DOTALL)
        return ChatMessage(message.role, start.sub(rf"\g<1>{seam}", message.content))
