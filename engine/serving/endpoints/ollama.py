"""Ollama's addresses, for clients that know no other: `/api/chat`, `/api/generate`, and what they ask before that.

What makes or removes models is not among them: that is done in the window.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any
from weakref import ref

from fastapi import Response
from starlette.responses import PlainTextResponse

from engine.protocol.messages import Generate
from engine.serving.answers import Alive, Step, answer
from engine.serving.context import AskerOf, Service, ServiceOf
from engine.serving.event_stream import EventStream, SentEvent
from engine.serving.guard.routes import Router
from engine.serving.infilling import ending_there, read_gap
from engine.serving.model_names import served_name
from engine.serving.ollama.lines import LINES, NDJSON, LineWriter
from engine.serving.ollama.request import GenerateFields, OllamaChatFields, ShowFields
from engine.serving.ollama.resource import (
    ChatAnswer,
    GeneratedAnswer,
    ListedModels,
    RunningModels,
    ShownModel,
    Version,
    running_model,
    shown_model,
)
from engine.serving.ollama.turns import chat_of
from engine.serving.question import Question, events_of
from engine.text.infill import Gap

LATEST = ":latest"  # which clients put behind a name that has no tag
SPOKEN = "0.12.0"  # clients ask for a version that knows tools and reasoning, and this is one
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {NDJSON: {}}}}

router = Router()


@router.head("/", include_in_schema=False)
@router.get("/", include_in_schema=False)
async def alive() -> PlainTextResponse:
    """What clients of Ollama look at first."""
    return PlainTextResponse("Coppice is running")


@router.get("/api/version")
async def version() -> Version:
    """Which version of Ollama's API this is."""
    return Version(version=SPOKEN)


@router.get("/api/tags")
async def tags(service: ServiceOf) -> ListedModels:
    """What is loaded: other models of this computer cannot be asked."""
    return ListedModels(models=[*_running(service).models])


@router.get("/api/ps")
async def running(service: ServiceOf) -> RunningModels:
    """What is loaded, and what it takes."""
    return _running(service)


@router.post("/api/show")
async def show(asked: ShowFields, service: ServiceOf) -> ShownModel:
    """What the loaded model can do."""
    _served(service, asked.model or asked.name or "")
    return shown_model(service.engine)


@router.post("/api/chat", response_model=ChatAnswer, response_model_exclude_unset=True, responses=STREAMED)
async def chat(asked: OllamaChatFields, service: ServiceOf, asker: AskerOf) -> Response | SentEvent:
    """Answer a conversation, as a stream of lines or whole."""
    writer = LineWriter(_served(service, asked.model), is_chat=True, shows_thoughts=asked.shows_thoughts)
    if not asked.messages:
        return writer.loaded()
    made_for = ref(service.engine)
    turns = await asyncio.to_thread(chat_of, asked.messages, service.engine.reasoning_marks)
    question = Question(made_for, turns, asked.generation(), asked.offered, values=asked.template_values)
    return await _written(events_of(service, asker, question, writer.follow), writer, asked.is_streamed)


@router.post("/api/generate", response_model=GeneratedAnswer, response_model_exclude_unset=True, responses=STREAMED)
async def generate(asked: GenerateFields, service: ServiceOf, asker: AskerOf) -> Response | SentEvent:
    """Answer a prompt, or go on with a text as it stands."""
    writer = LineWriter(_served(service, asked.model), is_chat=False, shows_thoughts=asked.shows_thoughts)
    asked.check()
    if not asked.is_question:
        return writer.loaded()
    made_for, options = ref(service.engine), asked.generation()
    if asked.suffix:
        options = ending_there(service.engine, options)
        tokens = await read_gap(service, made_for, Gap(asked.prompt or "", asked.suffix))
        ask = partial(Generate, chat=(), options=options, raw=tokens)
        events = _followed(answer(service, asker, ask, made_for=made_for), writer)
    elif asked.raw:
        ask = partial(Generate, chat=(), options=options, raw=asked.prompt)
        events = _followed(answer(service, asker, ask, made_for=made_for), writer)
    else:
        turns = await asyncio.to_thread(asked.chat, service.engine.reasoning_marks)
        question = Question(made_for, turns, options, values=asked.template_values)
        events = events_of(service, asker, question, writer.follow)
    return await _written(events, writer, asked.is_streamed)


async def _followed(steps: AsyncGenerator[Step, None], writer: LineWriter) -> AsyncGenerator[SentEvent | Alive, None]:
    async with aclosing(steps):
        async for step in steps:
            for line in writer.follow(step):
                yield line


async def _written(
    lines: AsyncGenerator[SentEvent | Alive, None], writer: LineWriter, as_stream: bool
) -> Response | SentEvent:
    if as_stream:
        return await EventStream.begin(lines, LINES)
    async for _ in lines:
        pass
    return writer.whole()


def _served(service: Service, name: str) -> str:
    """The name of the loaded model; raises `ApiError` (404) where a client asks for another one, and `NoModel`."""
    return service.model(name if name == served_name(service.engine) else name.removesuffix(LATEST))


def _running(service: Service) -> RunningModels:
    engine = service.desk.engine
    return RunningModels(models=[running_model(engine)] if engine else [])
