"""The composition root: loads a pair and answers requests, as generators of events. It alone knows all rooms."""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from engine.cancellation import Cancellation
from engine.errors import Cancelled, InputError, ModelError
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
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.network import Network
from engine.model.device import choose_device, choose_dtype
from engine.model.probe import require_faithful_tree
from engine.model.resident import load_resident
from engine.options import EMBEDDED, NO_DRAFT, GenerateOptions, LoadOptions, SpeculationOptions
from engine.round_events import RoundEvents
from engine.sampling import Sampler, Uniforms
from engine.speculation.answer import Answer
from engine.speculation.drafter import Drafter, NoDrafter
from engine.speculation.rounds import rounds
from engine.speculation.specexec import SpecExec
from engine.stats import Stopwatch
from engine.text.text_stream import TextStream
from engine.text.tokenizer import Tokenizer

AUTO_BUDGET = 64
DEFAULT_CONTEXT_TOKENS = 8192
TREE_SLOTS = 1024  # allocated behind the context; a larger tree makes the cache grow


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and maybe a draft that belong together, opened and checked but not loaded."""

    options: LoadOptions
    target: Checkpoint
    draft: Checkpoint | None
    tokenizer: Tokenizer


def open_pair(options: LoadOptions) -> Pair:
    """Open both folders and compare their vocabularies; cheap. Raises `InputError` or `ModelError`."""
    options.check()
    target = open_checkpoint(options.target, role="target")
    tokenizer = Tokenizer.open(target.folder)
    draft_source = options.draft
    if draft_source == "auto":
        draft_source = EMBEDDED if options.target == EMBEDDED else NO_DRAFT
    if draft_source == NO_DRAFT:
        return Pair(options, target, None, tokenizer)
    draft = open_checkpoint(draft_source, role="draft")
    if not Tokenizer.open(draft.folder).same_as(tokenizer):
        raise ModelError(
            f"The draft '{draft.name}' has another tokenizer than the target '{target.name}'.",
            "Choose a draft of the same family, or no draft.",
        )
    return Pair(options, target, draft, tokenizer)


def load(request: int, pair: Pair, cancellation: Cancellation) -> Generator[Event, None, "Engine"]:
    """Load the weights of both models; yields `Loading`, then `Loaded` and `Finished`, and returns the engine."""
    begin = time.perf_counter()
    checkpoints = [checkpoint for checkpoint in (pair.target, pair.draft) if checkpoint]
    device = choose_device(pair.options.device)
    contexts: list[Context] = []
    infos: list[ModelInfo] = []
    context_tokens = 0
    for step, checkpoint in enumerate(checkpoints):
        cancellation.check()
        yield Loading(request, f"Loading {checkpoint.name}", step, len(checkpoints))
        network = load_resident(checkpoint, choose_dtype(pair.options.weights, checkpoint, device), device)
        context_tokens = context_tokens or _context_tokens(pair.options.context_tokens, network, checkpoint)
        context = Context(network, context_tokens + TREE_SLOTS, cancellation.check)
        require_faithful_tree(context, checkpoint.name)
        contexts.append(context)
        infos.append(_describe(checkpoint, network))
    seconds = time.perf_counter() - begin
    yield Loaded(request, infos[0], infos[1] if pair.draft else None, context_tokens, seconds)
    yield Finished(request, "loaded")
    return Engine(pair.tokenizer, contexts[0], contexts[1] if pair.draft else None, context_tokens, cancellation)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the target reads, and what besides its end tokens ends an answer to it."""

    tokens: tuple[int, ...]
    stop: tuple[str, ...] = ()


class Engine:
    """One loaded pair."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        target: Context,
        draft: Context | None,
        context_tokens: int,
        cancellation: Cancellation,
    ) -> None:
        self.target = target
        self.draft = draft
        self._tokenizer = tokenizer
        self._context_tokens = context_tokens
        self._cancellation = cancellation

    @property
    def end_tokens(self) -> frozenset[int]:
        """The tokens that end an answer."""
        return self._tokenizer.eos_ids

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
        sink = TextStream(self._tokenizer, (*options.stop, *prompt.stop))
        room = min(options.max_new_tokens, self._context_tokens - len(tokens))
        answer = Answer(sink, frozenset() if options.ignore_eos else self.end_tokens, room)
        events = RoundEvents(request, self._tokenizer.piece, clock)
        budget = (options.speculation.budget or AUTO_BUDGET) if method != "none" else 0
        cached = 0
        reason: FinishReason = "cancelled"
        try:
            with clock.measure("prefill"):
                cached = self.target.prefill(tokens[:-1])
                drafter.prefill(tokens[:-1])
            yield Prefilled(request, len(tokens), cached, clock["prefill"])
            draw = Sampler(options.sampling, tokens, Uniforms(options.sampling.seed)).draw
            steps = rounds(self.target, drafter, tokens, draw, answer, budget, clock)
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
            seconds=clock.seconds(),
            note=note,
        )
        yield Finished(request, reason, answer.take_rest(), statistics)

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


def _describe(checkpoint: Checkpoint, network: Network) -> ModelInfo:
    return ModelInfo(
        source=checkpoint.source,
        name=checkpoint.name,
        family=str(checkpoint.config["model_type"]),
        parameters=checkpoint.parameters,
        layers=len(network.layers),
        bytes=sum(parameter.nbytes for parameter in network.model.parameters()),
        weights=str(network.dtype).removeprefix("torch."),
        device=str(network.device),
    )
