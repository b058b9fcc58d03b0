"""What a client asks of llama-server's own addresses, of `/completion` and `/infill` above all."""

from collections import Counter
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from engine.errors import InputError
from engine.protocol.options import MOST_TOP_LOG_PROBS, GenerateOptions, SamplingOptions
from engine.protocol.sentences import say
from engine.serving.bounds import MOST_PARTS, MOST_TOKENS, Name, Text
from engine.serving.completions.request import MOST_ANSWERS, MOST_PROMPT_TOKENS, MOST_PROMPTS, TokenPrompt
from engine.serving.endpoints.chunked_fields import MOST_CHOICES, StreamFields
from engine.serving.endpoints.constraint_fields import ConstraintFields
from engine.serving.endpoints.sampling_fields import MOST_BIASES, Asked, Biases, SamplingFields, StopField
from engine.serving.pictures import refuse_pictures_in_text
from engine.text.infill import OtherFile

ENDLESS = (None, -1, -2)  # without end, and until the context is full: here the same
INFILL = "infill"  # of samplers
NEVER = -100.0  # as a bias, which llama-server's `false` is here
MOST_OTHERS = 1024  # other files, or parts of them
MOST_FIELDS = 64

TokenField = Annotated[int, Field(ge=0, lt=1 << 31)]
Parts = Annotated[list[TokenField | Text], Field(min_length=1, max_length=MOST_PROMPT_TOKENS, fail_fast=True)]
Prompt = str | tuple[int | str, ...]
"""A text, or tokens with texts among them."""


def _by_number(biases: object) -> object:
    """Biases as OpenAI has them, by the numbers of tokens; llama-server's own are pairs."""
    if not isinstance(biases, list) or len(biases) > MOST_BIASES or not all(map(_is_bias, biases)):
        return biases
    return {str(token): NEVER if added is False else added for token, added in biases}


def _is_bias(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int and pair[1] is not True


def _require_few(prompt: object) -> object:
    """A prompt or several as they are; raises `InputError` for too many before each of the kinds is tried for each."""
    if not isinstance(prompt, list):
        return prompt
    kinds = Counter(map(type, prompt))
    if len(prompt) > MOST_PROMPTS and (not kinds[int] or kinds.keys() & {list, dict}):
        raise _too_many()
    for mixed in (prompt, *(each for each in prompt if isinstance(each, list))):
        if sum(isinstance(part, str) for part in mixed) > MOST_PARTS:
            words = say("A prompt has more than {most} texts among its tokens.", most=MOST_PARTS)
            raise InputError(words, say("Join texts that follow each other."))
    return prompt


def _too_many() -> InputError:
    words = say("These are more than {most} answers in one request.", most=MOST_ANSWERS)
    return InputError(words, say("Send fewer prompts at once, or ask for fewer choices."))


class PromptObject(Asked):
    """A text; pictures are shown in chats alone."""

    prompt_string: Text
    multimodal_data: list[Any] | None = None


class LlamaFields(SamplingFields, ConstraintFields, StreamFields):
    """How a text is gone on with. What is missing is as llama-server documents it; what is not known is passed over.

    `n_predict`: as many tokens at most; 0 has the prompt read, and one token written. `n_probs`: how many of the
    likeliest tokens are told of in each place. `n_indent`: the answer ends before a line that is indented less, and
    `t_max_predict_ms`: at the first end of a line that comes later. `response_fields`: what of the answer is told.
    """

    model: Name | None = None
    temperature: float | None = Field(default=0.8, ge=0, le=100)
    top_k: int | None = Field(default=40, ge=-1, le=MOST_TOKENS)
    top_p: float | None = Field(default=0.95, ge=0, le=1)
    min_p: float | None = Field(default=0.05, ge=0, lt=1)
    logit_bias: Annotated[Biases | None, BeforeValidator(_by_number)] = None
    n_predict: int | None = Field(default=None, ge=-2, le=MOST_TOKENS)
    n_cmpl: int | None = Field(default=None, ge=1, le=MOST_CHOICES)
    n: int | None = Field(default=None, ge=1, le=MOST_CHOICES)
    n_probs: int | None = Field(default=None, ge=0, le=MOST_TOP_LOG_PROBS)
    n_indent: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    t_max_predict_ms: float | None = Field(default=None, le=MOST_TOKENS)
    stop: StopField = None
    return_tokens: bool | None = None
    post_sampling_probs: bool | None = None
    samplers: list[Name] | Name | None = Field(default=None, max_length=256)
    response_fields: list[Name] | None = Field(default=None, max_length=MOST_FIELDS)

    @property
    def choices(self) -> int:
        """How many answers are asked for, of every prompt."""
        return self.n_cmpl or self.n or 1

    def sampling(self, choice: int = 0) -> SamplingOptions:
        """How the tokens of one answer are drawn: the likeliest where an editor asks for llama-server's `infill`.

        That leaves hardly any other token.
        """
        drawn = super().sampling(choice)
        is_settled = INFILL in (self.samplers or ()) and "temperature" not in self.model_fields_set
        return replace(drawn, temperature=0.0) if is_settled else drawn

    def check(self) -> None:
        """Raise `InputError` for fields that this server does not support."""
        self.refuse_rounds()
        if self.post_sampling_probs and self.n_probs:
            words = say("Probabilities are told as the model itself has them, before they are filtered.")
            raise InputError(words, say("Leave out 'post_sampling_probs'."))

    def generation(self, choice: int) -> GenerateOptions:
        """The options of one answer. Raises `InputError` for fields that contradict each other."""
        most = None if self.n_predict in ENDLESS else max(1, self.n_predict or 0)
        return self.options(
            most, self.stop, choice=choice, top_log_probs=self.n_probs or 0, constraint=self.constraint()
        )


class CompletionFields(LlamaFields):
    """A text to go on with, as it stands, or tokens, or both in turn; or several of these."""

    prompt: Annotated[
        Text
        | PromptObject
        | TokenPrompt
        | Annotated[
            list[TokenField | Text | Parts | PromptObject],
            Field(min_length=1, max_length=MOST_PROMPT_TOKENS, fail_fast=True),
        ],
        BeforeValidator(_require_few),
    ]

    def check(self) -> None:
        """Raise `InputError` for fields that this server does not support, and for too much at once."""
        super().check()
        if len(self.prompts) * self.choices > MOST_ANSWERS:
            raise _too_many()

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """Each by itself: a list with numbers and without lists is one of them. Raises `InputError` for pictures."""
        if not isinstance(self.prompt, list):
            return (_prompt_of(self.prompt),)
        are_parts = all(isinstance(each, int | str) for each in self.prompt)
        if are_parts and any(isinstance(each, int) for each in self.prompt):
            return (tuple(each for each in self.prompt if isinstance(each, int | str)),)
        return tuple(map(_prompt_of, self.prompt))


def _prompt_of(asked: int | str | list[int | str] | PromptObject) -> Prompt:
    if isinstance(asked, PromptObject):
        if asked.multimodal_data:
            refuse_pictures_in_text()
        return asked.prompt_string
    if isinstance(asked, int):
        return (asked,)
    return asked if isinstance(asked, str) else tuple(asked)


class OtherFileField(Asked):
    """What of another file may help."""

    text: Text
    filename: Name = ""


class InfillFields(LlamaFields):
    """A text with a gap; `prompt`: what stands between `input_prefix` and the gap."""

    input_prefix: Text
    input_suffix: Text
    input_extra: list[OtherFileField] = Field(default=[], max_length=MOST_OTHERS, fail_fast=True)
    prompt: Text = ""

    @property
    def others(self) -> tuple[OtherFile, ...]:
        """The other files."""
        return tuple(OtherFile(each.filename, each.text) for each in self.input_extra)
