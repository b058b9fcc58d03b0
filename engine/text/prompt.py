"""What the target reads before it answers, and whether it can."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.errors import InputError, TooLong
from engine.picture_tokens import WrittenPicture, is_row, without_rows
from engine.protocol.messages import ChatMessage, Count, Counted, TemplateValues
from engine.protocol.pictures import Picture
from engine.protocol.sentences import Amount, say
from engine.protocol.tools import Tool
from engine.text.reasoning import Sign
from engine.text.text_stream import ReasoningStream, TextStream
from engine.text.tokenizer import Tokenizer
from engine.text.tools.headers import Headers


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens to read, and the strings that end an answer besides the target's end tokens.

    The last `begun` of the tokens are an answer that is continued. `thinks`: it continues inside the model's reasoning;
    `shown` is the part of the reasoning that the prompt wrote itself; the text of the answer begins with it. `calls`:
    the answer may call tools, so its text has the marks around calls. `pictures`: those whose rows are among the
    tokens, in their order.
    """

    tokens: tuple[int, ...]
    stop: tuple[str, ...] = ()
    begun: int = 0
    thinks: bool = False
    shown: str = ""
    calls: bool = False
    pictures: tuple[Picture, ...] = ()

    @property
    def answer(self) -> tuple[int, ...]:
        """The tokens of the answer that is continued; none for a new one."""
        return self.tokens[len(self.tokens) - self.begun :]


def write_prompt(
    tokenizer: Tokenizer,
    chat: Sequence[ChatMessage],
    tools: Sequence[Tool] = (),
    values: TemplateValues = (),
    written: Sequence[WrittenPicture] = (),
) -> Prompt:
    """The conversation as the model's chat template puts it; raises `InputError` where there is nothing to answer.

    `written`: how the pictures of the conversation are, in their order.
    """
    encoded = tokenizer.encode_whole(chat, tools, values, written)
    tokens, pictures = (*encoded.opening, *encoded.answer), pictures_of(chat)
    begun, calls = len(encoded.answer), bool(tools)
    return Prompt(tokens, tokenizer.chat_stop, begun, encoded.thinks, encoded.shown, calls, pictures)


def pictures_of(chat: Sequence[ChatMessage]) -> tuple[Picture, ...]:
    """The pictures of a conversation, in their order."""
    return tuple(picture for message in chat for picture in message.pictures)


def text_of_answer(tokenizer: Tokenizer, prompt: Prompt, stop: Sequence[str]) -> ReasoningStream:
    """What turns the tokens of the answer into text; `stop` are strings that end it beside the prompt's own."""
    text = TextStream(tokenizer, (*stop, *prompt.stop), prompt.answer)
    headers = Headers(tokenizer.call_marks, _is_in_header(tokenizer, prompt)) if prompt.calls else None
    return ReasoningStream(text, tokenizer, tokenizer.signs, prompt.shown, prompt.thinks, headers)


def _is_in_header(tokenizer: Tokenizer, prompt: Prompt) -> bool:
    """Whether the header of the answer's message is not complete, as `<|start|>assistant` is not."""
    signs = (tokenizer.signs.get(token) for token in reversed(prompt.tokens))
    return next(filter(None, signs), None) is Sign.HEADER


def count_tokens(
    tokenizer: Tokenizer,
    question: Count,
    context_tokens: int,
    write: Callable[[Sequence[Picture]], Sequence[WrittenPicture]],
) -> Counted:
    """How many tokens a prompt and texts have; a conversation that cannot be answered counts as 0.

    `write` tells how pictures are written, and raises `InputError` for those that cannot be read.
    """
    try:
        written = write(pictures_of(question.chat))
        tokens = len(tokenizer.encode_chat(question.chat, question.tools, pictures=written))
    except InputError:
        tokens = 0
    return Counted(question.id, tokens, context_tokens, tuple(len(tokenizer.encode(text)) for text in question.texts))


def require_readable(prompt: Prompt, vocabulary: int, context_tokens: int) -> None:
    """Raise `InputError` unless the target knows every token, and has room for one more."""
    tokens = prompt.tokens
    if not tokens:
        raise InputError(say("The prompt is empty."), say("Write something first."))
    require_known(without_rows(tokens) if prompt.pictures else tokens, vocabulary)
    if is_row(tokens[-1]):
        raise InputError(say("The prompt ends with a picture."), say("Write something behind it."))
    if len(tokens) >= context_tokens:
        raise TooLong(
            say(
                "The conversation has {count} tokens, and the context holds {room}.",
                count=Amount(f"{len(tokens):,}"),
                room=Amount(f"{context_tokens:,}"),
            ),
            say("Start a new chat, shorten the message, or load the model with a larger context."),
        )


def require_known(tokens: Sequence[int], vocabulary: int) -> None:
    """Raise `InputError` unless the target knows every token."""
    if wrong := [token for token in tokens if not 0 <= token < vocabulary]:
        words = say("Token id {number} is outside the model's vocabulary.", number=wrong[0])
        raise InputError(words, say("Give ids from 0 to {most}.", most=vocabulary - 1))
