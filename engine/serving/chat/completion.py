"""A chat completion, written step by step: the chunks of all its choices, and the whole that they add up to."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence, Set
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any
from weakref import ref

from engine.protocol.messages import Finished, Prefilled, Reading, Round, Statistics
from engine.protocol.round_json import round_to_json
from engine.serving.answers import Alive, Ended, Progress, Step
from engine.serving.chat.request import ChatFields
from engine.serving.chat.resource import ChatFinishReason
from engine.serving.chat.turns import chat_of
from engine.serving.chunk_stream import Chunk, head_of
from engine.serving.context import Asker, Service
from engine.serving.figures import CompletionDetails, ReasoningTokens, RunningFigures, progress_of, usage_of
from engine.serving.question import Question, held_to_its_choice, steps_of
from engine.serving.token_log_probs import Likely, said_tokens
from engine.text.backend import REPLACEMENT
from engine.text.pieces import CallArguments, CallBegun, Content, Piece, Thought

Part = dict[str, Any]


class ChoiceWriter:
    """Writes the choice of this index."""

    def __init__(self, index: int, asked: ChatFields, end_tokens: Set[int]) -> None:
        """`end_tokens`: which say nothing."""
        self.figures = RunningFigures()
        self.reasoning = ReasoningTokens()
        self.finished = Finished(0, "length")
        self._index, self._asked, self._end_tokens = index, asked, end_tokens
        self._thoughts, self._content = list[str](), list[str]()
        self._calls = list[Part]()
        self._tokens = list[Part]()
        self._reason: ChatFinishReason = "length"

    @property
    def statistics(self) -> Statistics:
        """As far as it is written."""
        return self.figures.statistics

    @property
    def has_called(self) -> bool:
        """Whether it asks for a tool."""
        return bool(self._calls)

    def take(self, step: Step) -> Iterator[Part]:
        """The step as parts of chunks; none where there is nothing to tell."""
        self.figures.take(step)
        timings = {"timings": self.figures.timings} if self._asked.tells_timings else {}
        match step:
            case Reading():
                if self._asked.tells_progress:
                    yield {**self._part({"role": "assistant", "content": None}), **progress_of(step)}
            case Prefilled():
                progress = progress_of(step) if self._asked.tells_progress else {}
                part = self._part({"role": "assistant", "content": ""}, own={"prefilled": asdict(step)})
                yield {**part, **progress}
            case Progress(round=of, pieces=pieces, calling=calling):
                self.reasoning.take(step)
                own = {"round": round_to_json(of)} if self._asked.tells_rounds else {}
                own |= {"calling": asdict(calling)} if own and calling else {}
                yield from ({**part, **timings} for part in self._say(pieces, self._log_probs(of), own))
            case Ended(finished=finished, pieces=pieces):
                yield from self._say(pieces, None, {})
                self.finished = finished
                if finished.reason == "stop":
                    self._reason = "tool_calls" if self._calls else "stop"
                part = self._part({}, own={"finished": asdict(finished)}, reason=self._reason)
                yield {**part, "timings": self.figures.timings}
            case Alive():
                return

    def choice(self) -> Part:
        """All of it."""
        content, thoughts = "".join(self._content), "".join(self._thoughts)
        message: Part = {"role": "assistant", "content": content if content or not self._calls else None}
        if thoughts:
            message["reasoning_content"] = thoughts
        if self._calls:
            message["tool_calls"] = self._calls
        log_probs = {"content": self._tokens} if self._asked.logprobs else None
        return {"index": self._index, "message": message, "logprobs": log_probs, "finish_reason": self._reason}

    def _say(self, pieces: Sequence[Piece], log_probs: Part | None, own: Part) -> Iterator[Part]:
        """What was told once goes with the first of the pieces, or stands alone."""
        deltas = [self._delta(piece) for piece in pieces] or ([{}] if log_probs or own else [])
        for delta in deltas:
            yield self._part(delta, log_probs, own)
            log_probs, own = None, {}

    def _part(
        self,
        delta: Part,
        log_probs: Part | None = None,
        own: Part | None = None,
        reason: ChatFinishReason | None = None,
    ) -> Part:
        choice = {"index": self._index, "delta": delta, "logprobs": log_probs, "finish_reason": reason}
        return {"choices": [choice], **({"coppice": own} if own and self._asked.tells_rounds else {})}

    def _delta(self, piece: Piece) -> Part:
        match piece:
            case Thought(text):
                self._thoughts.append(text)
                return {"reasoning_content": text}
            case Content(text):
                self._content.append(text)
                return {"content": text}
            case CallBegun(place, call, name):
                function = {"name": name, "arguments": ""}
                self._calls.append({"id": call, "type": "function", "function": dict(function)})
                return {"tool_calls": [{"index": place, "id": call, "type": "function", "function": function}]}
            case CallArguments(place, text):
                self._calls[place]["function"]["arguments"] += text
                return {"tool_calls": [{"index": place, "function": {"arguments": text}}]}

    def _log_probs(self, of: Round) -> Part | None:
        if not self._asked.logprobs:
            return None
        tokens = [
            {**_likely(token.said), "top_logprobs": [_likely(other) for other in token.top]}
            for token in said_tokens(of, self._end_tokens)
        ]
        self._tokens += tokens
        return {"content": tokens} if tokens else None


def _likely(token: Likely) -> Part:
    piece, log_prob = token
    return {"token": piece, "logprob": log_prob, "bytes": None if REPLACEMENT in piece else list(piece.encode())}


class ChatWriter:
    """Writes the completion of one request: its choices, one after the other."""

    def __init__(self, asked: ChatFields, service: Service, asker: Asker, model: str) -> None:
        """`model`: what the loaded one is called. Raises `InputError` for fields that contradict each other."""
        self._asked, self._service, self._asker = asked, service, asker
        engine = service.engine
        self._head, self._marks = head_of("chatcmpl", model), engine.reasoning_marks
        told = asked.offered, asked.choice, asked.template_values
        self._question = Question(ref(engine), (), asked.generation(0), *told)
        self._choices = [ChoiceWriter(index, asked, engine.end_tokens) for index in range(asked.choices)]
        self._newest = 0

    async def prepare(self) -> None:
        """What takes time, beside the server's other work. Raises `InputError` for what cannot be asked."""
        chat = await asyncio.to_thread(chat_of, self._asked.messages, self._marks)
        self._question = await held_to_its_choice(self._service, replace(self._question, chat=chat))

    async def chunks(self) -> AsyncGenerator[Chunk | Alive, None]:
        """All choices as they are written."""
        usage = {"usage": None} if self._asked.includes_usage else {}
        head = {**self._head, "object": "chat.completion.chunk", **usage}
        for index, choice in enumerate(self._choices):
            self._newest = index
            asker = replace(self._asker, is_admitted=index > 0)
            async with aclosing(steps_of(self._service, asker, self._of_choice(index))) as steps:
                async for step in steps:
                    if isinstance(step, Alive):
                        yield step
                    for part in choice.take(step):
                        yield {**head, **part}
        if usage:
            yield {**head, "choices": [], **self._figures()}

    @property
    def newest(self) -> ChoiceWriter:
        """The choice that was written last."""
        return self._choices[self._newest]

    def whole(self) -> Chunk:
        """The completion, once all its chunks were told."""
        choices = [choice.choice() for choice in self._choices]
        return {**self._head, "object": "chat.completion", "choices": choices, **self._figures()}

    def _of_choice(self, index: int) -> Question:
        held = self._question.options.constraint
        return replace(self._question, options=replace(self._asked.generation(index), constraint=held))

    def _figures(self) -> Chunk:
        last = self._choices[-1]
        usage = usage_of([[choice.statistics for choice in self._choices]])
        reasoning = CompletionDetails(reasoning_tokens=sum(int(choice.reasoning) for choice in self._choices))
        return {
            "usage": usage.model_copy(update={"completion_tokens_details": reasoning}).model_dump(),
            "timings": last.figures.timings,
        }
