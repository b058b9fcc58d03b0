"""The composition root: loads a pair and answers requests, as generators of events. It alone knows all rooms."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from engine.cancellation import Cancellation
from engine.errors import Cancelled, InputError
from engine.loading.allocator import give_back_large_blocks
from engine.loading.experience import remember_answer
from engine.loading.good_settings import GoodSettings
from engine.loading.guarded_context import GuardedContext
from engine.loading.learned import Learned
from engine.loading.lessons import LessonsFiles
from engine.loading.loading import LoadedTarget, draft_dtype, load_planned, load_ready
from engine.loading.pair import Pair
from engine.loading.pair_measurement import PairMeasurements
from engine.loading.planning import context_for
from engine.loading.preparation import COMPRESSED
from engine.loading.retreat import load_retreating
from engine.loading.sampled_methods import SAMPLED, sampled_method
from engine.loading.self_draft import COPY, load_copies
from engine.model.context import Context
from engine.model.device import choose_device
from engine.model.probe import require_faithful_tree
from engine.model.shared_context import SharedContext
from engine.observing.description import describe_model, describe_residence
from engine.observing.passing import layers_seen
from engine.observing.round_events import RoundEvents
from engine.observing.watcher import Watcher
from engine.protocol.messages import (
    ChatMessage,
    Count,
    Counted,
    Event,
    Finished,
    FinishReason,
    Loaded,
    Prefilled,
    Statistics,
)
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.speculation.answer import Answer
from engine.speculation.interfaces import Method, Observer, Sampling, Strategy
from engine.speculation.methods.acceptance_counts import counted
from engine.speculation.methods.lookup import Autoregression, Lookup
from engine.speculation.methods.sampling import Sampler, Uniforms
from engine.speculation.methods.specexec import BorrowingSpecExec, SpecExec
from engine.speculation.rounds import Speculation, rounds
from engine.speculation.tuning.tree_limit import TreeLimit
from engine.stats import Stopwatch
from engine.text.prompt import Prompt, count_tokens, require_readable, text_of_answer, write_prompt
from engine.text.tokenizer import Tokenizer
from engine.weights.planning.memory import memory_now
from engine.weights.planning.needs import Workload
from engine.weights.planning.placement import Plan


def load(request: int, pair: Pair, cancellation: Cancellation) -> Generator[Event, None, "Engine"]:
    """Load the weights of both models; yields `Loading`, then `Loaded` and `Finished`, and returns the engine.

    Raises `InputError`, `ModelError`, `OutOfMemory` or `Cancelled`; nothing is left behind then.
    """
    begin = time.perf_counter()
    give_back_large_blocks()
    device = choose_device(pair.options.device)
    cancellation.check()
    good = GoodSettings(pair, device, memory_now(device.type))

    def attempt(plan: Plan) -> Generator[Event, None, Engine]:
        return _load(request, pair, plan, good, device, cancellation)

    engine = yield from load_retreating(request, pair, device, good, cancellation, attempt)
    yield engine.describe(request, time.perf_counter() - begin)
    yield Finished(request, "loaded")
    return engine


def _load(
    request: int, pair: Pair, plan: Plan, good: GoodSettings, device: torch.device, cancellation: Cancellation
) -> Generator[Event, None, "Engine"]:
    """Both models as planned; nothing is left behind by whatever is raised."""
    loaded = yield from load_planned(request, pair.target, plan, pair.options, device, cancellation)
    try:
        context_tokens = context_for(pair.target.name, loaded.network.max_positions, pair.options.context_tokens)
        work = Workload(context_tokens, room=plan.largest_tree)
        target = Context(loaded.network, work.draft_slots if pair.drafts_itself else work.slots, cancellation.check)
        require_faithful_tree(target, pair.target.name)
        draft: Context | None = None
        if pair.drafts_itself:
            copies = yield from load_copies(request, pair.target, loaded, pair.options, cancellation)
            loaded = replace(loaded, copies=copies)
            draft = SharedContext(copies.network, target, cancellation.check)
        elif pair.draft:
            dtype = draft_dtype(pair.draft, pair.options, device)
            network = yield from load_ready(request, pair.draft, dtype, device, cancellation)
            draft = Context(network, work.draft_slots, cancellation.check)
            require_faithful_tree(draft, pair.draft.name)
        return Engine(pair, loaded, target, draft, context_tokens, good)
    except BaseException:
        loaded.close()
        raise


class Engine:
    """One loaded pair."""

    def __init__(
        self,
        pair: Pair,
        loaded: LoadedTarget,
        target: Context,
        draft: Context | None,
        context_tokens: int,
        good: GoodSettings,
    ) -> None:
        """`good`: what memory has shown to work, held to and kept up to date."""
        self.target = target
        self.draft = draft
        self._pair = pair
        self._loaded = loaded
        self._context_tokens = context_tokens
        self._good = good
        kept = LessonsFiles(pair, loaded.tiers, str(target.network.device))
        self._learned = Learned(loaded.plan.largest_tree, kept)
        self._tokenizer: Tokenizer = pair.tokenizer
        self._tree_limit = TreeLimit(good.setting.tree_nodes, good.setting.tree_patience)

    def close(self) -> None:
        """End the streams' threads and give their memory back."""
        self._loaded.close()

    @property
    def options(self) -> LoadOptions:
        """What it was loaded with."""
        return self._pair.options

    @property
    def source(self) -> Path:
        """The target's folder."""
        return self._pair.target.folder

    @property
    def end_tokens(self) -> frozenset[int]:
        """The tokens that end an answer."""
        return self._tokenizer.eos_ids

    @property
    def measurements(self) -> PairMeasurements:
        """How this pair accepts, and how long its passes take; raises `InputError` where nothing drafts."""
        return PairMeasurements(self._pair, self._loaded.tiers, str(self.target.network.device))

    def describe(self, request: int, seconds: float) -> Loaded:
        """What is loaded, as an event."""
        weights = self._pair.options.weights
        target = describe_model(self._pair.target, self.target.network, weights if weights in COMPRESSED else "")
        draft = describe_model(self._pair.draft, self.draft.network) if self._pair.draft and self.draft else None
        if copies := self._loaded.copies:
            draft = replace(target, name=f"{target.name}, layers copied", bytes=copies.nbytes, weights=COPY)
        return Loaded(
            request,
            target=target,
            draft=draft,
            context_tokens=self._context_tokens,
            seconds=seconds,
            tiers=self._loaded.tiers,
            residence=describe_residence(self._loaded.plan),
        )

    def prompt(self, chat: Sequence[ChatMessage]) -> Prompt:
        """The conversation as the target's chat template puts it, up to where its answer begins or goes on."""
        return write_prompt(self._tokenizer, chat)

    def raw_prompt(self, text: str) -> Prompt:
        """The text as it stands, without a chat template, behind the token that begins every text, if there is one."""
        return Prompt(tuple(self._tokenizer.encode_raw(text)))

    def count(self, question: Count) -> Counted:
        """How many tokens a conversation and texts have; may be called from any thread, whatever runs."""
        return count_tokens(self._tokenizer, question, self._context_tokens)

    def generate(
        self, request: int, prompt: Prompt, options: GenerateOptions, watcher: Watcher | None = None
    ) -> Iterator[Event]:
        """Answer `prompt`: yields `Prefilled`, a `Round` per target pass, and `Finished`.

        A cancelled request finishes too, with what it has. Raises `InputError` before anything is computed, and
        `OutOfMemory` where not even a pass without a tree is possible. `watcher` tells what is asked for beside these.
        """
        options.check()
        tokens = prompt.tokens
        require_readable(tokens, self.target.network.vocabulary, self._context_tokens)
        sampler = Sampler(options.sampling, tokens, Uniforms(options.sampling.seed), prompt.answer)
        observer = watcher or Watcher()
        counts, is_greedy = self._learned.acceptance(options), options.sampling.temperature == 0
        method, note = self._method(options, sampler, observer)
        if self.draft and options.speculation.method in SAMPLED:
            sampled = sampled_method(
                options, sampler, tokens, self.target, self.draft, self.measurements, counts, observer
            )
            method, options, note = sampled.method, sampled.options, sampled.note
        strategy = self._learned.strategy(method, options, sampler)
        clock = Stopwatch()
        room = min(options.max_new_tokens, self._context_tokens - len(tokens))
        sink = text_of_answer(self._tokenizer, prompt, options.stop)
        answer = Answer(sink, frozenset() if options.ignore_eos else self.end_tokens, room)
        events = RoundEvents(request, self._tokenizer.piece, clock, self._loaded.stream, observer.take_verdicts)
        target = GuardedContext(self.target, "the target")
        limit = self._tree_limit
        limit.begin()
        streamed_before = self._bytes_streamed
        cached = 0
        observer.begin(request, self._tokenizer.piece, self._loaded.stream)
        reason: FinishReason = "cancelled"
        try:
            with layers_seen(self.target.network.layers, observer.come_to):
                with clock.measure("prefill"):
                    cached = target.prefill(tokens[:-1])
                    strategy.prefill(tokens[:-1])
                yield Prefilled(request, len(tokens), cached, clock["prefill"])
                with self._idle_work(strategy, clock):
                    parts = Speculation(target, strategy, answer, clock, limit, observer, lambda: self.target.reach)
                    steps = rounds(parts, tokens)
                    yield from events.follow(counted(steps, counts, is_greedy), answer.take_written)
            reason = answer.reason
        except Cancelled:
            pass
        except BaseException:
            self._keep_limit()
            raise
        finally:
            observer.end()
        statistics = Statistics(
            method=events.method or method.name,
            budget=events.budget,
            prompt_tokens=len(tokens),
            cached_tokens=cached,
            new_tokens=events.new_tokens,
            passes=events.passes,
            drafted_nodes=events.drafted_nodes,
            first_token_seconds=events.first_token_seconds,
            bytes_streamed=self._bytes_streamed - streamed_before,
            seconds=clock.seconds(),
            note=" ".join(filter(None, (note, self._learned.complaint, strategy.reason, limit.words))),
        )
        yield Finished(request, reason, answer.take_rest(), statistics)
        # Only now: every file waits for the disk, which may be the one that the layers stream from.
        self._keep_limit()
        self._learned.keep()
        remember_answer(self._pair, options.speculation, statistics)

    def _keep_limit(self) -> None:
        limit = self._tree_limit
        setting = replace(self._good.setting, tree_nodes=limit.nodes, tree_patience=limit.patience)
        self._good.remember(setting)

    @property
    def _bytes_streamed(self) -> int:
        return self._loaded.stream.bytes_streamed if self._loaded.stream else 0

    @contextmanager
    def _idle_work(self, strategy: Strategy, clock: Stopwatch) -> Iterator[None]:
        """While a layer is awaited, the draft guesses on: the one place where the stream meets the speculation."""
        stream = self._loaded.stream
        if stream is None or not self._pair.options.overlap:
            yield
            return

        def extend() -> bool:
            with clock.measure("hidden_draft"):
                return strategy.extend()

        stream.idle = extend
        try:
            yield
        finally:
            stream.idle = None

    def _method(self, answer: GenerateOptions, sampling: Sampling, observer: Observer) -> tuple[Method, str]:
        """The method for one answer, and why there is no speculation if there is none."""
        options = answer.speculation
        if options.method == "none":
            return Autoregression(sampling), "Speculation is switched off."
        if options.method == "lookup":
            return Lookup(Autoregression(sampling), "lookup"), ""
        if self.draft is None:
            if options.method == "auto" and options.lookup:
                return Lookup(Autoregression(sampling), "lookup"), "No draft model is loaded: the text alone suggests."
            if options.method == "auto":
                return Autoregression(sampling), "No draft model is loaded."
            raise InputError(
                f"The method '{options.method}' needs a draft model.", "Choose a draft, or the method 'lookup'."
            )
        calibration = self._learned.lessons(answer).calibration if options.calibrate else None
        ranks = self._learned.acceptance(answer) if answer.sampling.temperature == 0 else None
        draft, vocabulary = GuardedContext(self.draft, "the draft"), self.target.network.vocabulary
        kind = BorrowingSpecExec if self._loaded.copies else SpecExec
        method = kind(draft, sampling, options, vocabulary, calibration, observer, ranks)
        return (Lookup(method, method.name) if options.lookup else method), ""
