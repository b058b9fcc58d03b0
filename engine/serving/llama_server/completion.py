"""A completion in llama-server's own form, written step by step: the events of all answers, and what they add up to."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import ref

from engine.protocol.messages import Finished, Generate, Prefilled, Reading, Round
from engine.protocol.options import GenerateOptions
from engine.serving.answers import Alive, Ended, Progress, Step, answer
from engine.serving.context import Asker, Service
from engine.serving.event_stream import SentEvent
from engine.serving.figures import RunningFigures, progress_of
from engine.serving.infilling import ending_there, read_gap, room_for
from engine.serving.llama_server.line_limits import LineLimits
from engine.serving.llama_server.request import CompletionFields, InfillFields, LlamaFields, Prompt
from engine.serving.llama_server.resource import SLOT, StopType, settings_of
from engine.serving.token_log_probs import Likely, said_tokens
from engine.text.backend import REPLACEMENT
from engine.text.infill import Gap
from engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A prompt as the engine reads it, and as text."""

    raw: str | tuple[int, ...]
    text: str


def read_prompt(tokenizer: Tokenizer, prompt: Prompt) -> ReadPrompt:
    """A text stays one, which the engine itself reads; texts among tokens become some."""
    if isinstance(prompt, str):
        return ReadPrompt(prompt, prompt)
    tokens: list[int] = []
    for place, part in enumerate(prompt):
        if isinstance(part, int):
            tokens.append(part)
        else:
            tokens += tokenizer.encode_onward(part) if place else tokenizer.encode_raw(part)
    return ReadPrompt(tuple(tokens), tokenizer.text_of(tokens))


class AnswerWriter:
    """Writes the answer of this index. Reasoning is text like all other here. `is_over`: all of it is told."""

    def __init__(self, index: int, asked: LlamaFields, options: GenerateOptions, context_tokens: int) -> None:
        self.is_over = False
        self._index, self._asked, self._options, self._context = index, asked, options, context_tokens
        self._limits = LineLimits(asked.n_indent or 0, (asked.t_max_predict_ms or 0) / 1000)
        self._texts, self._tokens, self._likely = list[str](), list[int](), list[SentEvent]()
        self._figures = RunningFigures()
        self._end: SentEvent = {}

    def take(self, step: Step) -> Iterator[SentEvent]:
        """The step as events; none where there is nothing to tell."""
        self._figures.take(step)
        if isinstance(step, Reading | Prefilled) and self._asked.tells_progress:
            yield {**self._head("", []), "stop": False, **progress_of(step)}
        elif isinstance(step, Progress):
            yield from self._told(self._limits.let_through(step.round.text), step.round)
            if self._limits.is_over:
                yield self._ending("limit", "")
        elif isinstance(step, Ended):
            rest = self._limits.let_through(step.finished.text)
            yield from self._told(rest + self._limits.release(), None)
            yield self._ending(_stop_type_of(step.finished), step.finished.stop)

    def whole(self, model: str, prompt: str) -> SentEvent:
        """All of it, or what of it was asked for."""
        likely = {"completion_probabilities": self._likely} if self._asked.n_probs else {}
        tokens = self._tokens if self._asked.return_tokens else []
        return self._chosen({**self._end, "content": "".join(self._texts), "tokens": tokens, **likely}, model, prompt)

    def last(self, model: str, prompt: str) -> SentEvent:
        """The event that ends a stream: the same, without what was told already."""
        return self._chosen(self._end, model, prompt)

    def _told(self, text: str, of: Round | None) -> Iterator[SentEvent]:
        said = list(said_tokens(of)) if of else []
        likely = [_probability(each.token, each.said, each.top) for each in said] if self._asked.n_probs else []
        tokens = [each.token for each in said]
        self._texts.append(text)
        self._tokens += tokens
        self._likely += likely
        if text or tokens:  # of the latter the text may come later, or never
            told: SentEvent = {"completion_probabilities": likely} if likely else {}
            told |= {"timings": self._figures.timings} if self._asked.tells_timings else {}
            yield {**self._head(text, tokens), "stop": False, **told}

    def _head(self, text: str, tokens: Sequence[int]) -> SentEvent:
        return {
            "index": self._index,
            "content": text,
            "tokens": tokens,
            "id_slot": SLOT,
            "tokens_predicted": self._figures.statistics.new_tokens,
            "tokens_evaluated": self._figures.statistics.prompt_tokens,
        }

    def _ending(self, stop_type: StopType, stopping_word: str) -> SentEvent:
        its = self._figures.statistics
        total = its.prompt_tokens + its.new_tokens
        asked = self._asked
        settings = settings_of(self._options, self._context, bool(asked.stream), asked.tells_timings)
        self.is_over = True
        self._end = {
            **self._head("", []),
            "stop": True,
            "generation_settings": settings.model_dump(),
            "has_new_line": any("\n" in text for text in self._texts),
            "truncated": stop_type == "limit" and total >= self._context,
            "stop_type": stop_type,
            "stopping_word": stopping_word,
            "tokens_cached": max(0, total - 1),  # the last one was not read
            "timings": self._figures.timings,
        }
        return self._end

    def _chosen(self, event: SentEvent, model: str, prompt: str) -> SentEvent:
        event = {**event, "model": model, "prompt": prompt}
        names = self._asked.response_fields
        return event if names is None else {name: value for name in names if (value := _at(event, name)) is not None}


def _at(event: SentEvent, path: str) -> Any:
    """What stands at a path such as `timings/prompt_n`; None where nothing does."""
    value: Any = event
    for name in path.split("/"):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _stop_type_of(finished: Finished) -> StopType:
    if finished.stop:
        return "word"
    return "eos" if finished.reason == "stop" else "limit"


def _probability(token: int, said: Likely, top: Sequence[Likely]) -> SentEvent:
    return {"id": token, **_likely(said), "top_logprobs": [_likely(other) for other in top]}


def _likely(token: Likely) -> SentEvent:
    piece, log_prob = token
    return {"token": piece, "bytes": [] if REPLACEMENT in piece else list(piece.encode()), "logprob": log_prob}


class CompletionWriter:
    """Writes the answers of one request: of every prompt its own, one after the other."""

    def __init__(self, asked: CompletionFields | InfillFields, service: Service, asker: Asker, model: str) -> None:
        """`model`: what the loaded one is called. Raises `InputError` for what is not to be had here."""
        asked.check()
        engine = service.engine
        self._asked, self._service, self._asker, self._model = asked, service, asker, model
        self._made_for = ref(engine)  # no more than a reference: weights are large
        count = len(asked.prompts) if isinstance(asked, CompletionFields) else 1
        options = [asked.generation(choice) for _ in range(count) for choice in range(asked.choices)]
        if isinstance(asked, InfillFields):
            options = [ending_there(engine, each) for each in options]
        self._options = options
        self._prompts: list[ReadPrompt] = []
        self._answers = [AnswerWriter(at, asked, each, engine.context_tokens) for at, each in enumerate(options)]

    async def prepare(self) -> None:
        """Read the prompts, beside the server's other work. Raises `InputError` where one of several cannot be read."""
        engine = self._service.desk.engine_for(self._made_for)
        asked = self._asked
        if isinstance(asked, InfillFields):
            gap = Gap(asked.input_prefix + asked.prompt, asked.input_suffix, asked.others)
            tokens = await read_gap(self._service, self._made_for, gap, room_for(engine, self._options[0]))
            text = await self._service.read(partial(engine.tokenizer.text_of, tokens))
            self._prompts = [ReadPrompt(tokens, text)]
            return
        self._prompts = [
            await self._service.read(partial(read_prompt, engine.tokenizer, each)) for each in asked.prompts
        ]
        if len(self._prompts) > 1:  # a single one is read when it is answered
            for index in range(0, len(self._answers), asked.choices):
                await self._service.read(partial(engine.require_readable, self._request(index, 0)))

    async def events(self) -> AsyncGenerator[SentEvent | Alive, None]:
        """All answers as they are written."""
        for index, writer in enumerate(self._answers):
            ask = partial(self._request, index)
            asker = replace(self._asker, is_admitted=index > 0)
            async with aclosing(answer(self._service, asker, ask, made_for=self._made_for)) as steps:
                async for step in steps:
                    if isinstance(step, Alive):
                        yield step
                    for event in writer.take(step):
                        yield writer.last(self._model, self._prompt(index).text) if event["stop"] else event
                    if writer.is_over:
                        break

    def whole(self) -> SentEvent | list[SentEvent]:
        """The completion, once all its events were told; a list where there are several answers."""
        told = [writer.whole(self._model, self._prompt(index).text) for index, writer in enumerate(self._answers)]
        return told[0] if len(told) == 1 else told

    def _prompt(self, index: int) -> ReadPrompt:
        return self._prompts[index // self._asked.choices]

    def _request(self, index: int, request: int) -> Generate:
        return Generate(request, (), self._options[index], raw=self._prompt(index).raw)
