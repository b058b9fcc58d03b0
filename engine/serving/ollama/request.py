"""What a client asks of Ollama's addresses, of `/api/chat` and `/api/generate` above all."""

import json
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from engine.errors import InputError
from engine.protocol.messages import ChatMessage, TemplateValues
from engine.protocol.options import Constraint, GenerateOptions
from engine.protocol.reasoning import Marks
from engine.protocol.sentences import say
from engine.protocol.tools import Tool
from engine.serving.bounds import MOST_TOKENS, MOST_TOOLS, MOST_TURNS, Name, Text
from engine.serving.chat.request import ToolField
from engine.serving.conversation import Conversation, Told, only_tools
from engine.serving.endpoints.constraint_fields import Schema
from engine.serving.endpoints.sampling_fields import SEEDS, Asked, SamplingFields, StopField
from engine.serving.endpoints.template_fields import values_of_effort, values_of_switch
from engine.serving.ollama.turns import Images, TurnField, told_with
from engine.serving.pictures import refuse_pictures_in_text

ENDLESS = (0, -1, -2)  # for Ollama the same as -1, without end, and until the context is full: here all the same


def _whole(number: object) -> object:
    """What Ollama takes for a whole number, too: some languages write all of theirs with a point."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


Whole = Annotated[int, BeforeValidator(_whole)]


class OptionsField(SamplingFields):
    """`options`. What is missing is as Ollama's documents have it, but for the penalty of repetition: none."""

    temperature: float | None = Field(default=0.8, ge=0, le=100)
    top_k: Whole | None = Field(default=40, ge=-1, le=MOST_TOKENS)
    top_p: float | None = Field(default=0.9, ge=0, le=1)
    seed: Whole | None = Field(default=None, ge=-SEEDS, lt=SEEDS)
    num_predict: Whole | None = Field(default=None, ge=-2, le=MOST_TOKENS)
    stop: StopField = None


class AnswerFields(Asked):
    """What chats and texts have in common. Answers are streamed unless `stream` is false.

    `think`: whether, or how much, the model reasons, where its chat template knows that; false also keeps reasoning
    from the answer.
    """

    model: Name
    options: OptionsField | None = None
    format: Literal["", "json"] | Schema | None = None
    stream: bool | None = None
    think: bool | Name | None = None

    @property
    def is_streamed(self) -> bool:
        """Whether the answer is sent as it is written."""
        return self.stream is not False

    @property
    def shows_thoughts(self) -> bool:
        """Whether reasoning is sent."""
        return self.think is not False

    @property
    def template_values(self) -> TemplateValues:
        """What the model's chat template is told of reasoning."""
        if self.think is None:
            return ()
        effort = self.think if isinstance(self.think, str) else None
        return (*values_of_switch(self.think is not False), *values_of_effort(effort))

    def generation(self) -> GenerateOptions:
        """The options of the answer. Raises `InputError` for fields that contradict each other."""
        asked = self.options or OptionsField()
        asked.refuse_rounds()
        most = None if asked.num_predict in ENDLESS else asked.num_predict
        return asked.options(most, asked.stop, constraint=self._constraint())

    def _constraint(self) -> Constraint | None:
        if isinstance(self.format, dict):
            return Constraint("json_schema", json.dumps(self.format, ensure_ascii=False))
        return Constraint("json") if self.format else None


class OllamaChatFields(AnswerFields):
    """A conversation to go on with; without messages the model is only to be loaded, which it is."""

    messages: list[TurnField] | None = Field(default=None, max_length=MOST_TURNS, fail_fast=True)
    tools: list[Annotated[ToolField, only_tools("function")]] | None = Field(default=None, max_length=MOST_TOOLS)

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        return tuple(each.tool for each in self.tools or ())


class GenerateFields(AnswerFields):
    """A prompt to answer; `raw`: a text to go on with as it stands. Without one the model is only to be loaded.

    `suffix`: what comes behind the prompt, which is a text then.
    """

    prompt: Text | None = None
    system: Text | None = None
    suffix: Text | None = None
    template: Text | None = None
    raw: bool | None = None
    images: Images | None = None

    def check(self) -> None:
        """Raise `InputError` for fields that this server does not support."""
        if self.template:
            words = say("The model's own chat template is used here.")
            raise InputError(words, say("Leave out 'template', or send what it would make of the prompt, with 'raw'."))
        if self.images and (self.raw or self.suffix):
            refuse_pictures_in_text()

    @property
    def is_question(self) -> bool:
        """Whether anything is asked."""
        return bool(self.prompt or self.suffix or self.images)

    def chat(self, marks: Marks) -> tuple[ChatMessage, ...]:
        """The prompt as a conversation; long pictures take a while. Raises `InputError` as `Conversation` does.

        `marks`: what stands around reasoning in the text of the model's answers.
        """
        conversation = Conversation(marks)
        if self.system:
            conversation.say("system", Told(self.system))
        conversation.say("user", told_with(self.prompt, self.images))
        return conversation.chat


class ShowFields(Asked):
    """Which model is asked about; `name` is what older clients say."""

    model: Name | None = None
    name: Name | None = None
