"""What a client asks of `/v1/completions`."""

from typing import Annotated

from pydantic import Field

from engine.errors import InputError
from engine.protocol.options import MOST_TOP_LOG_PROBS, GenerateOptions
from engine.protocol.sentences import say
from engine.serving.bounds import Text
from engine.serving.endpoints.chunked_fields import MOST_CHOICES, ChunkedFields

MOST_PROMPTS = 32
MOST_PROMPT_TOKENS = 1 << 20
MOST_ANSWERS = 64  # to all prompts of a request
DEFAULT_TOKENS = 16

TokenPrompt = Annotated[
    list[Annotated[int, Field(ge=0, lt=1 << 31)]], Field(min_length=1, max_length=MOST_PROMPT_TOKENS, fail_fast=True)
]
TextPrompts = Annotated[list[Text], Field(min_length=1, max_length=MOST_PROMPTS)]
TokenPrompts = Annotated[list[TokenPrompt], Field(min_length=1, max_length=MOST_PROMPTS)]


class CompletionFields(ChunkedFields):
    """A request for completions of texts as they stand, or of tokens. What is not known here is passed over.

    `prompt`: one or several, each with `n` choices. `max_tokens`: 16 where it is missing, as OpenAI has it, and -1 for
    as many as the context holds. `logprobs`: how many of the likeliest tokens are told of in each place. `echo`: the
    prompt is told first. `suffix`: what comes behind the text. `best_of`: so many choices are written of every prompt,
    and those told whose tokens were likeliest, on average.
    """

    prompt: Text | TextPrompts | TokenPrompt | TokenPrompts
    logprobs: int | None = Field(default=None, ge=0, le=MOST_TOP_LOG_PROBS)
    echo: bool | None = None
    suffix: Text | None = None
    best_of: int | None = Field(default=None, ge=1, le=MOST_CHOICES)

    def check(self) -> None:
        """Raise `InputError` for fields that this server does not support."""
        if self.echo and self.logprobs is not None:
            words = say("The log-probabilities of prompts are not told here.")
            raise InputError(words, say("Leave out 'echo' or 'logprobs'."))
        if self.suffix and not all(isinstance(each, str) for each in self.prompts):
            raise InputError(say("A suffix goes with a text."), say("Send the prompt as a text, not as tokens."))
        if self.best_of and (self.stream or self.best_of < self.choices):
            words = say("The best of several answers are found when all are written.")
            raise InputError(words, say("Ask for no stream, and for no more with 'n' than with 'best_of'."))
        if len(self.prompts) * self.written > MOST_ANSWERS:
            words = say("These are more than {most} answers in one request.", most=MOST_ANSWERS)
            raise InputError(words, say("Send fewer prompts at once, or ask for fewer choices."))

    @property
    def written(self) -> int:
        """How many answers to every prompt are written, which may be more than are told."""
        return self.best_of or self.choices

    @property
    def prompts(self) -> tuple[str | tuple[int, ...], ...]:
        """Each as the engine reads it."""
        if isinstance(self.prompt, str):
            return (self.prompt,)
        if isinstance(self.prompt[0], int):
            return (tuple(self.prompt),)  # the others are numbers, too
        return tuple(each if isinstance(each, str) else tuple(each) for each in self.prompt)

    def generation(self, choice: int) -> GenerateOptions:
        """The options of one choice. Raises `InputError` for fields that contradict each other."""
        most = DEFAULT_TOKENS if self.max_tokens is None else self.max_tokens
        top = self.logprobs or 0
        return self.options(most, self.stop, choice=choice, top_log_probs=top, constraint=self.constraint())
