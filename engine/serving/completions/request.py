"""What a client asks of `/v1/completions`."""

from typing import Annotated

from pydantic import Field

from engine.errors import InputError
from engine.protocol.options import MOST_TOP_LOG_PROBS, GenerateOptions
from engine.protocol.sentences import say
from engine.serving.bounds import Text
from engine.serving.endpoints.chunked_fields import ChunkedFields

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
    as many as the context holds. `logprobs`: how many of the likeliest tokens are told of in each place. There is no
    `echo`, and no `suffix`.
    """

    prompt: Text | TextPrompts | TokenPrompt | TokenPrompts
    logprobs: int | None = Field(default=None, ge=0, le=MOST_TOP_LOG_PROBS)
    echo: bool | None = None
    suffix: Text | None = None

    def check(self) -> None:
        """Raise `InputError` for fields that this server does not support."""
        if self.echo:
            raise InputError(say("Prompts are not echoed here."), say("Leave out 'echo'."))
        if self.suffix:
            raise InputError(say("Texts are not completed before a suffix here."), say("Leave out 'suffix'."))
        if len(self.prompts) * self.choices > MOST_ANSWERS:
            words = say("These are more than {most} answers in one request.", most=MOST_ANSWERS)
            raise InputError(words, say("Send fewer prompts at once, or ask for fewer choices."))

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
