"""Composes one answer of a loaded pair, room by room: text, what was learned, method and strategy, rounds, events."""

from collections.abc import Generator, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from engine import accelerator
from engine.errors import Cancelled
from engine.loading.loaded_pair import LoadedPair
from engine.loading.oom_retry import guarded
from engine.loading.planning import AUTO_BUDGET
from engine.model.passes.light.likeliest import likeliest
from engine.observing.round_events import RoundEvents
from engine.observing.watcher import Watcher
from engine.picture_tokens import without_rows
from engine.protocol.messages import Event
from engine.protocol.options import GenerateOptions
from engine.speculation.constrained_scorer import constrained
from engine.speculation.method_choice import MethodInputs, choose_method, strategy_for
from engine.speculation.methods.acceptance_rates import counted
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.text.grammars.constrained_answer import state_of_answer
from engine.text.prompt import Prompt, require_known, require_readable, text_of_answer
from engine.text.sequence_breakers import breakers_of
from engine.text.tokenizer import Tokenizer


class Answering:
    """One answer, ready to begin: nothing is computed before the first of its `events` is asked for."""

    def __init__(
        self,
        loaded: LoadedPair,
        prompt: Prompt,
        options: GenerateOptions,
        watcher: Watcher,
        *,
        is_trial: bool = False,
    ) -> None:
        """Raises `InputError` for what cannot be answered, or not by the method that is asked for.

        `is_trial`: it is written for what it teaches.
        """
        options.check()
        tokenizer, tokens, network = loaded.pair.tokenizer, prompt.tokens, loaded.target.network
        require_readable(prompt, network.vocabulary, loaded.context_tokens)
        require_known([token for token, _ in options.sampling.bias], network.vocabulary)
        text, begun = text_of_answer(tokenizer, prompt, options.stop), prompt.answer
        state = state_of_answer(tokenizer, prompt, options.constraint) if options.constraint else None

        self._stream, forgets = loaded.stream, loaded.draft_forgets
        target, own_draft = loaded.guarded(options.conversation, prompt)
        draft, is_free = own_draft, state is None or bool(options.constraint and options.constraint.marks)
        if state is not None:
            target, draft = constrained(target, draft, state, len(tokens), forgets)
        end_tokens = options.end_tokens | (frozenset() if options.ignore_eos else tokenizer.eos_ids)
        room = loaded.context_tokens - len(tokens)
        sampling = _sampler(tokenizer, tokens, begun, options, end_tokens)
        made = _inputs(loaded, tokens, sampling, options, watcher)
        predicted = tokenizer.encode_onward(options.prediction) if options.prediction else []
        predicted = [token for token in predicted if token < network.vocabulary]
        inputs = replace(made, draft=draft, is_trial=is_trial, end_tokens=end_tokens, predicted=predicted)
        self._chosen = choose_method(options, inputs, AUTO_BUDGET)
        strategy = strategy_for(self._chosen, inputs, AUTO_BUDGET)
        answer = Answer(text, end_tokens, min(options.max_new_tokens, room))
        loaded.limit.begin()
        reach = partial(getattr, loaded.target, "reach")
        top = options.top_log_probs
        self._parts = Speculation(target, strategy, answer, Stopwatch(), loaded.limit, watcher, reach, top, guarded)
        self._rounds = counted(rounds(self._parts, tokens), inputs.counts, options.sampling.temperature == 0)
        tells = draft and not forgets and is_free and options.speculation.method in ("auto", "specexec")
        self._replayed = replace(inputs, draft=own_draft) if tells else None

        self._loaded, self._tokens, self._options, self._watcher = loaded, tokens, options, watcher

    def events(self, request: int) -> Generator[Event, None, None]:
        """`Prefilled`, a `Round` per target pass, and `Finished`, also where the answer was cancelled.

        Raises `OutOfMemory` where not even a pass without a tree is possible.
        """
        loaded, watcher, tokenizer = self._loaded, self._watcher, self._loaded.pair.tokenizer
        piece = tokenizer.piece
        told = watcher.take_target_log_probs, loaded.complaints, tokenizer.is_silent
        events = RoundEvents(request, piece, self._parts, self._stream, *told)
        is_complete = False
        try:
            with watcher.answering(request, piece, loaded.target.network.layers, self._stream):
                part, pictures = PartRead(loaded, len(self._tokens)), loaded.pictures
                with watcher.reading(part, lambda: pictures.seconds), pictures.told(watcher.look):
                    prefilled = events.prefilled(self._tokens)
                yield prefilled
                with self._idle_drafting():
                    yield from events.follow(self._rounds)
            is_complete = True
        except Cancelled:
            pass
        except BaseException:
            loaded.remember_limit()
            raise
        finished = events.finished(is_complete, self._chosen.method.name, self._chosen.note)
        yield finished
        # Only now: every file waits for the disk, which may be the one that the layers stream from.
        assert finished.statistics, "every answer has its figures"
        inputs = self._replayed if is_complete else None
        loaded.remember(self._options, finished.statistics, inputs, self._parts.answer.tokens)

    @contextmanager
    def _idle_drafting(self) -> Iterator[None]:
        """While a layer is awaited, the draft adds nodes: the one place where the stream meets the speculation."""
        stream = self._stream
        if stream is None or not self._loaded.pair.options.overlap:
            yield
            return
        stream.on_wait = self._keep_drafting
        try:
            yield
        finally:
            stream.on_wait = None

    def _keep_drafting(self) -> bool:
        """One pass of the draft, and what it gives: both where the target's layers are not ahead of them."""
        with accelerator.on_stream(self._loaded.draft_stream):
            return self._parts.keep_drafting()


class PartRead:
    """How much of a prompt the target has read of what it had not, by the layer that a pass has come to."""

    def __init__(self, loaded: LoadedPair, tokens: int) -> None:
        """`tokens`: of the whole prompt, whose last one is read with the first tree."""
        self.tokens = tokens
        self._target, self._layers = loaded.target, len(loaded.target.network.layers)
        self._begin: int | None = None  # of the first pass: what is kept of earlier turns is there by then

    @property
    def cached(self) -> int:
        """What had been read before, once a pass has begun."""
        return self._begin or 0

    def __call__(self, layer: int) -> float:
        """From 0 to 1."""
        target, tokens = self._target, self.tokens - 1
        self._begin = target.length if self._begin is None else self._begin
        rows = min(target.pass_rows, tokens - target.length)
        read = target.length - self._begin + rows * layer / self._layers
        # Less than nothing where memory ran out, and all is read again.
        return max(0.0, read) / max(1, tokens - self._begin)


def _sampler(
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    begun: Sequence[int],
    options: GenerateOptions,
    end_tokens: Set[int],
) -> Sampler:
    """`begun`: the end of the prompt, see `Sampler`."""
    drawn = options.sampling
    breakers = breakers_of(tokenizer, drawn.dry_sequence_breakers) if drawn.dry_multiplier else ()
    return Sampler(
        drawn,
        without_rows(prompt),
        Uniforms(drawn.seed),
        begun,
        breakers=breakers,
        ends=end_tokens,
        least=options.min_new_tokens,
    )


def _inputs(
    loaded: LoadedPair, prompt: Sequence[int], sampling: Sampler, options: GenerateOptions, watcher: Watcher
) -> MethodInputs:
    """What the methods of an answer are made from, but for the draft."""
    network = loaded.target.network
    return MethodInputs(
        prompt=prompt,
        vocabulary=network.vocabulary,
        counts=loaded.learned.acceptance(options),
        learned=partial(loaded.learned.state, options),
        measured=partial(loaded.measured, options),
        forgets=loaded.draft_forgets,
        device=loaded.draft.network.device if loaded.draft else network.device,
        observer=watcher,
        largest_tree=loaded.weights.plan.largest_tree,
        routing=lambda: loaded.routing,
        mixture=loaded.mixture,
        expected=loaded.weights.plan.expected,
        likeliest=likeliest,
        sampling=sampling,
    )
