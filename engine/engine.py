"""The composition root: loads a pair and answers requests, as generators of events. It alone knows all rooms."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.cancellation import Cancellation
from engine.errors import Cancelled, InputError
from engine.loading import LoadedTarget, load_target
from engine.messages import (
    ChatMessage,
    Event,
    Finished,
    FinishReason,
    Loaded,
    Loading,
    ModelInfo,
    Prefilled,
    Statistics,
)
from engine.model.checkpoint import Checkpoint
from engine.model.context import Context
from engine.model.device import choose_device, choose_dtype
from engine.model.network import Network
from engine.model.probe import require_faithful_tree
from engine.model.resident import load_resident
from engine.options import GenerateOptions, LoadOptions, SpeculationOptions
from engine.pair import Pair
from engine.planning import DEFAULT_CONTEXT_TOKENS
from engine.preparation import COMPRESSED
from engine.round_events import RoundEvents
from engine.sampling import Sampler, Uniforms
from engine.speculation.answer import Answer
from engine.speculation.drafter import Drafter, NoDrafter
from engine.speculation.rounds import Speculation, rounds
from engine.speculation.specexec import SpecExec
from engine.stats import Stopwatch
from engine.text.text_stream import TextStream
from engine.text.tokenizer import Tokenizer

AUTO_BUDGET = 64
TREE_SLOTS = 1024  # allocated behind the context; a larger tree makes the cache grow


def load(request: int, pair: Pair, cancellation: Cancellation) -> Generator[Event, None, "Engine"]:
    """Load the weights of both models; yields `Loading`, then `Loaded` and `Finished`, and returns the engine.

    Raises `InputError`, `ModelError` or `Cancelled`; nothing is left behind then.
    """
    begin = time.perf_counter()
    device = choose_device(pair.options.device)
    cancellation.check()
    loaded = yield from load_target(request, pair.target, pair.draft, pair.options, device, cancellation)
    try:
        context_tokens = _context_tokens(pair.options.context_tokens, loaded.network, pair.target)
        target = Context(loaded.network, context_tokens + TREE_SLOTS, cancellation.check)
        require_faithful_tree(target, pair.target.name)
        draft = None
        if pair.draft:
            yield Loading(request, f"Loading {pair.draft.name}", 0, 1)
            cancellation.check()
            network = load_resident(pair.draft, _draft_dtype(pair.draft, pair.options, device), device)
            draft = Context(network, context_tokens + TREE_SLOTS, cancellation.check)
            require_faithful_tree(draft, pair.draft.name)
        engine = Engine(pair, loaded, target, draft, context_tokens)
    except BaseException:
        if loaded.stream:
            loaded.stream.close()
        raise
    yield engine.describe(request, time.perf_counter() - begin)
    yield Finished(request, "loaded")
    return engine


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the target reads, and what besides its end tokens ends an answer to it."""

    tokens: tuple[int, ...]
    stop: tuple[str, ...] = ()


class Engine:
    """One loaded pair."""

    def __init__(
        self, pair: Pair, loaded: LoadedTarget, target: Context, draft: Context | None, context_tokens: int
    ) -> None:
        self.target = target
        self.draft = draft
        self._pair = pair
        self._loaded = loaded
        self._context_tokens = context_tokens
        self._tokenizer: Tokenizer = pair.tokenizer

    def close(self) -> None:
        """End the stream's threads and give its memory back."""
        if self._loaded.stream:
            self._loaded.stream.close()

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

    def describe(self, request: int, seconds: float) -> Loaded:
        """What is loaded, as an event."""
        weights = self._pair.options.weights
        return Loaded(
            request,
            target=_describe(self._pair.target, self.target.network, weights if weights in COMPRESSED else ""),
            draft=_describe(self._pair.draft, self.draft.network) if self._pair.draft and self.draft else None,
            context_tokens=self._context_tokens,
            seconds=seconds,
            tiers=self._loaded.tiers,
        )

    def prompt(self, chat: Sequence[ChatMessage]) -> Prompt:
        """The conversation as the target's chat template puts it, up to where its answer begins."""
        return Prompt(tuple(self._tokenizer.encode_chat(chat)), self._tokenizer.chat_stop)

    def generate(self, request: int, prompt: Prompt, options: GenerateOptions) -> Iterator[Event]:
        """Answer `prompt`: yields `Prefilled`, a `Round` per target pass, and `Finished`.

        A cancelled request finishes too, with what it has. Raises `InputError` before anything is computed.
        """
        options.check()
        tokens = prompt.tokens
        self._check_prompt(tokens)
        drafter, method, note = self._drafter(options.speculation)
        clock = Stopwatch()
        room = min(options.max_new_tokens, self._context_tokens - len(tokens))
        sink = TextStream(self._tokenizer, (*options.stop, *prompt.stop))
        answer = Answer(sink, frozenset() if options.ignore_eos else self.end_tokens, room)
        events = RoundEvents(request, self._tokenizer.piece, clock)
        budget = (options.speculation.budget or AUTO_BUDGET) if method != "none" else 0
        streamed_before = self._bytes_streamed
        cached = 0
        reason: FinishReason = "cancelled"
        try:
            with clock.measure("prefill"):
                cached = self.target.prefill(tokens[:-1])
                drafter.prefill(tokens[:-1])
            yield Prefilled(request, len(tokens), cached, clock["prefill"])
            draw = Sampler(options.sampling, tokens, Uniforms(options.sampling.seed)).draw
            with self._idle_work(drafter, clock):
                steps = rounds(Speculation(self.target, drafter, draw, answer, budget, clock), tokens)
                yield from events.follow(steps, answer.take_text)
            reason = answer.reason
        except Cancelled:
            pass
        statistics = Statistics(
            method=method,
            budget=budget,
            prompt_tokens=len(tokens),
            cached_tokens=cached,
            new_tokens=events.new_tokens,
            passes=events.passes,
            drafted_nodes=events.drafted_nodes,
            first_token_seconds=events.first_token_seconds,
            bytes_streamed=self._bytes_streamed - streamed_before,
            seconds=clock.seconds(),
            note=note,
        )
        yield Finished(request, reason, answer.take_rest(), statistics)

    @property
    def _bytes_streamed(self) -> int:
        return self._loaded.stream.bytes_streamed if self._loaded.stream else 0

    @contextmanager
    def _idle_work(self, drafter: Drafter, clock: Stopwatch) -> Iterator[None]:
        """While a layer is awaited, the draft guesses on: the one place where the stream meets the drafter."""
        stream = self._loaded.stream
        if stream is None or not self._pair.options.overlap:
            yield
            return

        def extend() -> bool:
            with clock.measure("hidden_draft"):
                return drafter.extend()

        stream.idle = extend
        try:
            yield
        finally:
            stream.idle = None

    def _drafter(self, options: SpeculationOptions) -> tuple[Drafter, str, str]:
        """Who drafts, the method's name, and why there is no speculation if there is none."""
        if options.method == "none":
            return NoDrafter(), "none", "Speculation is switched off."
        if self.draft is None:
            if options.method == "auto":
                return NoDrafter(), "none", "No draft model is loaded."
            raise InputError(
                f"The method '{options.method}' needs a draft model.", "Choose a draft, or the method 'none'."
            )
        return SpecExec(self.draft, options, self.target.network.vocabulary), "specexec", ""

    def _check_prompt(self, prompt: Sequence[int]) -> None:
        vocabulary = self.target.network.vocabulary
        if not prompt:
            raise InputError("The prompt is empty.", "Write something first.")
        if wrong := [token for token in prompt if not 0 <= token < vocabulary]:
            raise InputError(
                f"Token id {wrong[0]} is outside the model's vocabulary.", f"Give ids from 0 to {vocabulary - 1}."
            )
        if len(prompt) >= self._context_tokens:
            raise InputError(
                f"The conversation has {len(prompt)} tokens, and the context holds {self._context_tokens}.",
                "Start a new chat, shorten the message, or load the model with a larger context.",
            )


def _context_tokens(asked: int, network: Network, checkpoint: Checkpoint) -> int:
    if asked > network.max_positions:
        raise InputError(
            f"'{checkpoint.name}' reads at most {network.max_positions} tokens, not {asked}.",
            "Choose a shorter context.",
        )
    return asked or min(network.max_positions, DEFAULT_CONTEXT_TOKENS)


def _draft_dtype(draft: Checkpoint, options: LoadOptions, device: torch.device) -> torch.dtype:
    return choose_dtype("auto" if options.weights in COMPRESSED else options.weights, draft, device)


def _describe(checkpoint: Checkpoint, network: Network, codec: str = "") -> ModelInfo:
    return ModelInfo(
        source=checkpoint.source,
        name=checkpoint.name,
        family=str(checkpoint.config["model_type"]),
        parameters=checkpoint.parameters,
        layers=len(network.layers),
        bytes=sum(parameter.nbytes for parameter in network.model.parameters()),
        weights=codec or str(network.dtype).removeprefix("torch."),
        device=str(network.device),
    )
