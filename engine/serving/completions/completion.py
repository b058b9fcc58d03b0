"""A completion of texts, written step by step: the chunks of all its choices, and the whole that they add up to."""

from collections.abc import AsyncGenerator, Iterator, Sequence, Set
from contextlib import aclosing
from dataclasses import asdict, replace
from functools import partial
from typing import Any
from weakref import ref

from engine.protocol.messages import Finished, Generate, Prefilled, Reading, Round, Statistics
from engine.protocol.round_json import round_to_json
from engine.serving.answers import Alive, Ended, Progress, Step, answer
from engine.serving.chunk_stream import Chunk, head_of
from engine.serving.completions.request import CompletionFields
from engine.serving.context import Asker, Service
from engine.serving.figures import RunningFigures, progress_of, usage_of
from engine.serving.infilling import ending_there, read_gap
from engine.serving.token_log_probs import SaidToken, said_tokens
from engine.text.backend import REPLACEMENT
from engine.text.infill import Gap

Part = dict[str, Any]


class TextChoiceWriter:
    """Writes the choice of this index. Reasoning is text like all other here."""

    def __init__(self, index: int, asked: CompletionFields, end_tokens: Set[int]) -> None:
        """`end_tokens`: which say nothing."""
        self.figures = RunningFigures()
        self.finished = Finished(0, "length")
        self._index, self._asked, self._end_tokens = index, asked, end_tokens
        self._texts, self._log_probs = list[str](), list[Part]()
        self._characters = 0  # that came with the tokens so far
        self._reason = "length"
        self._echoed, self._said = "", list[float]()

    @property
    def statistics(self) -> Statistics:
        """As far as it is written."""
        return self.figures.statistics

    @property
    def has_called(self) -> bool:
        """Texts call no tools."""
        return False

    @property
    def likelihood(self) -> float:
        """How likely its tokens were, as the mean of the logarithms."""
        return sum(self._said) / max(1, len(self._said))

    def echo(self, prompt: str) -> None:
        """Have the prompt told before the answer."""
        self._echoed = prompt

    def take(self, step: Step) -> Iterator[Part]:
        """The step as parts of chunks; none where there is nothing to tell."""
        self.figures.take(step)
        if isinstance(step, Reading) and self._asked.tells_progress:
            yield {**self._part("", {}), **progress_of(step)}
        elif isinstance(step, Prefilled) and (self._asked.tells_rounds or self._echoed or self._asked.tells_progress):
            progress = progress_of(step) if self._asked.tells_progress else {}
            yield {**self._part(self._echoed, {"prefilled": asdict(step)}), **progress}
        elif isinstance(step, Progress):
            of = step.round
            self._said += [token.said[1] for token in said_tokens(of, self._end_tokens)]
            log_probs, own = self._likelihoods(of), {"round": round_to_json(of)} if self._asked.tells_rounds else {}
            if of.text or log_probs or own:
                timings = {"timings": self.figures.timings} if self._asked.tells_timings else {}
                yield {**self._part(of.text, own, log_probs), **timings}
        elif isinstance(step, Ended):
            yield self._end(step.finished)

    def choice(self) -> Part:
        """All of it."""
        log_probs: Part | None = None
        if self._asked.logprobs is not None:
            log_probs = self._told({name: _joined([each[name] for each in self._log_probs]) for name in _NAMES})
        text = "".join(self._texts)
        return {"index": self._index, "text": text, "logprobs": log_probs, "finish_reason": self._reason}

    def _end(self, finished: Finished) -> Part:
        self.finished = finished
        self._reason = "stop" if finished.reason == "stop" else "length"
        part = self._part(finished.text, {"finished": asdict(finished)}, reason=self._reason)
        return {**part, "timings": self.figures.timings}

    def _part(self, text: str, own: Part, log_probs: Part | None = None, reason: str | None = None) -> Part:
        self._texts.append(text)
        choice = {"index": self._index, "text": text, "logprobs": log_probs, "finish_reason": reason}
        return {"choices": [choice], **({"coppice": own} if self._asked.tells_rounds else {})}

    def _likelihoods(self, of: Round) -> Part | None:
        if self._asked.logprobs is None:
            return None
        told: Part = {name: [] for name in _NAMES}
        for token in said_tokens(of, self._end_tokens):
            told["tokens"].append(token.said[0])
            told["token_logprobs"].append(token.said[1])
            told["top_logprobs"].append(dict(reversed(token.top)))  # of two that look the same, the likelier one
            told["text_offset"].append(self._characters)
            self._characters += _characters_of(token)
        self._log_probs.append(told)
        return self._told(told)

    def _told(self, log_probs: Part) -> Part:
        return log_probs if self._asked.logprobs else {**log_probs, "top_logprobs": None}


def _characters_of(token: SaidToken) -> int:
    """How many of the text are the token's own. What a stop string held back comes with a later token."""
    piece = token.said[0]
    return min(token.length, len(piece)) if REPLACEMENT in piece else len(piece)


_NAMES = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


def _joined(parts: Sequence[list[Any]]) -> list[Any]:
    return [each for part in parts for each in part]


class TextWriter:
    """Writes the completions of one request: of every prompt its choices, one after the other."""

    def __init__(self, asked: CompletionFields, service: Service, asker: Asker, model: str) -> None:
        """`model`: what the loaded one is called. Raises `InputError` for what is not to be had here."""
        asked.check()
        self._asked, self._service, self._asker = asked, service, asker
        self._head = {**head_of("cmpl", model), "object": "text_completion"}
        engine = service.engine
        self._made_for = ref(engine)  # no more than a reference: weights are large
        self._prompts: list[str | tuple[int, ...]] = [*asked.prompts]
        self._options = [asked.generation(choice) for _ in self._prompts for choice in range(asked.written)]
        if asked.suffix:
            self._options = [ending_there(engine, each) for each in self._options]
        ends = engine.end_tokens | self._options[0].end_tokens
        self._choices = [TextChoiceWriter(index, asked, ends) for index in range(len(self._options))]
        self._newest = 0

    async def prepare(self) -> None:
        """Read the prompts, beside the server's other work. Raises `InputError` where one of several cannot be read."""
        engine = self._service.desk.engine_for(self._made_for)
        if self._asked.echo:
            for index, choice in enumerate(self._choices):
                prompt = self._prompts[index // self._asked.written]
                if not isinstance(prompt, str):
                    prompt = await self._service.read(partial(engine.tokenizer.text_of, prompt))
                choice.echo(prompt)
        if self._asked.suffix:
            gaps = [Gap(each, self._asked.suffix) for each in self._prompts if isinstance(each, str)]
            self._prompts = [await read_gap(self._service, self._made_for, gap) for gap in gaps]
        if len(self._prompts) > 1:  # a single one is read when it is answered
            for index in range(0, len(self._choices), self._asked.written):
                await self._service.read(partial(engine.require_readable, self._request(index, 0)))

    async def chunks(self) -> AsyncGenerator[Chunk | Alive, None]:
        """All choices as they are written."""
        usage = {"usage": None} if self._asked.includes_usage else {}
        for index, choice in enumerate(self._choices):
            self._newest = index
            ask = partial(self._request, index)
            asker = replace(self._asker, is_admitted=index > 0)
            async with aclosing(answer(self._service, asker, ask, made_for=self._made_for)) as steps:
                async for step in steps:
                    if isinstance(step, Alive):
                        yield step
                    for part in choice.take(step):
                        yield {**self._head, **usage, **part}
        if usage:
            yield {**self._head, "choices": [], **self._figures()}

    @property
    def newest(self) -> TextChoiceWriter:
        """The choice that was written last."""
        return self._choices[self._newest]

    def whole(self) -> Chunk:
        """The completion, once all its chunks were told."""
        each, told = self._asked.written, list[TextChoiceWriter]()
        for begin in range(0, len(self._choices), each):
            best = sorted(self._choices[begin : begin + each], key=lambda choice: -choice.likelihood)
            told += best[: self._asked.choices] if self._asked.best_of else self._choices[begin : begin + each]
        choices = [{**choice.choice(), "index": index} for index, choice in enumerate(told)]
        return {**self._head, "choices": choices, **self._figures()}

    def _request(self, index: int, request: int) -> Generate:
        return Generate(request, (), self._options[index], raw=self._prompts[index // self._asked.written])

    def _figures(self) -> Chunk:
        last, each = self._choices[-1], self._asked.written
        statistics = [choice.statistics for choice in self._choices]
        by_prompt = [statistics[begin : begin + each] for begin in range(0, len(statistics), each)]
        return {
            "usage": usage_of(by_prompt).model_dump(exclude_none=True),
            "timings": last.figures.timings,
        }
