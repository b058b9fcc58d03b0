"""`/v1/messages`: Anthropic's Messages API, and how long the prompt of a message would be."""

import asyncio

from fastapi import APIRouter, Response

from engine.protocol.options import GenerateOptions
from engine.serving.context import AskerOf, Service, ServiceOf
from engine.serving.event_stream import SENT, EventStream, begin, exhaust
from engine.serving.messages.blocks import chat_of
from engine.serving.messages.events import MessageWriter
from engine.serving.messages.request import CountFields, MessagesFields
from engine.serving.messages.resource import MessageResource, TokenCount
from engine.serving.model_names import require_served
from engine.serving.question import Question, answer_to

router = APIRouter()


@router.post("/v1/messages", response_model=MessageResource, responses=SENT)
async def message(asked: MessagesFields, service: ServiceOf, asker: AskerOf) -> MessageResource | Response:
    """Answer, whole or as a stream of events."""
    model = require_served(service.engine, asked.model)
    options = asked.options(asked.max_tokens, asked.stop_sequences, constraint=asked.constraint())
    writer = MessageWriter(model, options.stop, asked.shows_thoughts)
    steps = await begin(answer_to(service, asker, question_of(asked, service, options)))
    if asked.stream:
        return EventStream(steps, writer.follow, writer.fail)
    await exhaust(steps, writer.follow)
    return writer.message


@router.post("/v1/messages/count_tokens")
async def count_tokens(asked: CountFields, service: ServiceOf) -> TokenCount:
    """How many tokens would be read before an answer."""
    require_served(service.engine, asked.model)
    request = question_of(asked, service, GenerateOptions()).request(0)
    prompt = await asyncio.to_thread(service.engine.prompt_of, request)
    return TokenCount(input_tokens=len(prompt.tokens))


def question_of(asked: CountFields, service: Service, options: GenerateOptions) -> Question:
    """What is asked. Raises `InputError`, and `NoModel`."""
    chat = chat_of(asked.messages, asked.system, service.engine.reasoning_marks)
    return Question(chat, options, asked.offered, asked.choice)
