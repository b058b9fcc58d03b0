"""What a benchmark compares: our methods at several budgets, and what a user would otherwise run."""

import argparse
import atexit
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from engine.cli.arguments import generate_options
from engine.cli.session import Session
from engine.engine import Engine
from engine.errors import InputError
from engine.model.checkpoint import open_checkpoint
from engine.model.heads.head_context import HeadContext
from engine.model.streamable_network import load_layerwise
from engine.protocol.messages import Seconds
from engine.protocol.options import METHODS, GenerateOptions
from engine.text.prompt import Prompt
from engine.weights.store.disk import drop_from_cache

Timed = tuple[tuple[int, ...], float, int]
"""(token ids, decode seconds, tokens written in these seconds)."""

Baseline = Callable[[Sequence[int], int], Timed]
"""(prompt, max new tokens) -> one answer."""

REFERENCE = "none"
"""The method that all others are measured against."""
AUTO = "auto"
EVERY = "all"
"""Stands for all methods."""


class FirstTokenClock(transformers.generation.streamers.BaseStreamer):  # type: ignore[misc]
    """Notes when the first token came, so that the baselines' decoding too is timed without their prefill."""

    def __init__(self) -> None:
        self.first_at = 0.0
        self.first_count = 0
        self._calls = 0

    def put(self, value: Tensor) -> None:
        """Called with the prompt, then with the tokens of every step."""
        self._calls += 1
        if self._calls == 2:
            self.first_at = time.perf_counter()
            self.first_count = value.numel()

    def end(self) -> None:
        """Nothing to close."""


def plain(engine: Engine, options: GenerateOptions) -> Baseline:
    """`model.generate`, one token per pass."""
    return _generate(engine, options, {})


def assisted(engine: Engine, options: GenerateOptions) -> Baseline:
    """`model.generate(assistant_model=...)`: the draft guesses a chain of tokens, the target checks it."""
    if engine.draft is None:
        raise InputError("The baseline 'assisted' needs a draft model.", "Choose a draft, or leave the baseline out.")
    if isinstance(engine.draft, HeadContext):
        raise InputError(
            "The baseline 'assisted' needs a draft model; heads are none.", "Choose a draft, or leave the baseline out."
        )
    if engine.translates:
        raise InputError(
            "The baseline 'assisted' needs a draft with the target's tokenizer.",
            "Choose another draft, or leave the baseline out.",
        )
    return _generate(engine, options, {"assistant_model": engine.draft.network.model})


def accelerate(engine: Engine, options: GenerateOptions) -> Baseline:
    """`model.generate` with accelerate's disk offload: how a model that does not fit is commonly run."""
    try:
        from accelerate import disk_offload  # noqa: PLC0415  # only who asks for this baseline needs it
    except ImportError as error:
        raise InputError("The baseline 'accelerate' needs the package accelerate.", "Install it with pip.") from error
    network = engine.target.network
    model = _loaded_again(engine)
    folder = Path(tempfile.mkdtemp(prefix="coppice-offload-", dir=engine.source.parent))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    disk_offload(model, folder, execution_device=network.device)
    # Before every pass: a model bigger than memory would never find its layers in the page cache.
    model.register_forward_pre_hook(lambda _model, _inputs: forget(folder))
    return _generate(engine, options, {}, model)


def _loaded_again(engine: Engine) -> Any:
    """The target once more, in RAM: `from_pretrained` would open files that the checkpoint was not checked for."""
    steps = load_layerwise(open_checkpoint(str(engine.source)), engine.target.network.dtype, torch.device("cpu"))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value.model


def forget(folder: Path) -> None:
    """Drop a folder's files from the page cache, but for those that are mapped."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            drop_from_cache(file.fileno())


def _generate(engine: Engine, options: GenerateOptions, extra: dict[str, Any], model: Any = None) -> Baseline:
    model, sampling = model or engine.target.network.model, options.sampling
    end_tokens = None if options.ignore_eos else sorted(engine.end_tokens)
    drawn = {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p or None,
    }

    @torch.inference_mode()
    def run(prompt: Sequence[int], max_new_tokens: int) -> Timed:
        torch.manual_seed(sampling.seed)
        clock = FirstTokenClock()
        ids = torch.tensor([list(prompt)], device=engine.target.network.device)
        config = transformers.GenerationConfig(
            max_new_tokens=max_new_tokens,
            eos_token_id=end_tokens,
            pad_token_id=(end_tokens or [0])[0],
            repetition_penalty=sampling.repetition_penalty,
            **(drawn if sampling.temperature > 0 else {"do_sample": False}),
        )
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), generation_config=config, streamer=clock, **extra
        )
        seconds = time.perf_counter() - clock.first_at
        tokens = tuple(output[0, len(prompt) :].tolist())
        return tokens, seconds, len(tokens) - clock.first_count

    return run


BASELINES: dict[str, Callable[[Engine, GenerateOptions], Baseline]] = {
    "transformers": plain,
    "assisted": assisted,
    "accelerate": accelerate,
}


@dataclass(frozen=True, slots=True)
class Run:
    """One answer by one contender, of at most `limit` tokens. `passes` is 0 for baselines, which do not report it."""

    limit: int
    token_ids: tuple[int, ...]
    decode_seconds: float
    timed_tokens: int
    passes: int = 0
    seconds: Seconds = field(default_factory=Seconds)
    bytes_streamed: int = 0

    def agrees_with(self, other: "Run") -> bool:
        """Whether both wrote the same tokens up to the lower limit."""
        limit = min(self.limit, other.limit)
        return self.token_ids[:limit] == other.token_ids[:limit]


@dataclass(frozen=True, slots=True)
class Contender:
    """`answer`: (prompt, max new tokens) -> one answer. `budget` 0: automatic, or it has none."""

    method: str
    budget: int
    temperature: float
    answer: Callable[[Prompt, int], Run]

    @property
    def name(self) -> str:
        """As the table calls it."""
        return f"{self.method} {self.budget}" if self.budget else self.method


def contenders(arguments: argparse.Namespace, session: Session) -> list[Contender]:
    """Every contender, per temperature; the reference is always there, ahead of the others."""
    found: list[Contender] = []
    for temperature in temperatures(arguments):
        found.extend(_ours(session, options) for options in our_options(arguments, temperature))
        found.extend(_baseline(arguments, session, name, temperature) for name in arguments.baselines)
    return found


def temperatures(arguments: argparse.Namespace) -> Sequence[float]:
    """What everything is measured at."""
    return arguments.temperatures or [arguments.temperature]


def our_options(arguments: argparse.Namespace, temperature: float) -> list[GenerateOptions]:
    """What our methods are asked for, the reference first; raises `InputError` for what is out of range."""
    found = [_options(arguments, REFERENCE, 0, temperature)]
    for method in METHODS if EVERY in arguments.methods else arguments.methods:
        for budget in arguments.budgets or [arguments.budget]:
            if method != REFERENCE and not (method == AUTO and budget and EVERY in arguments.methods):
                found.append(_options(arguments, method, budget, temperature))
    for options in found:
        options.check()
    return found


def _options(arguments: argparse.Namespace, method: str, budget: int, temperature: float) -> GenerateOptions:
    options = generate_options(arguments, method, budget, arguments.seed)
    return replace(options, sampling=replace(options.sampling, temperature=temperature))


def _ours(session: Session, options: GenerateOptions) -> Contender:
    def answer(prompt: Prompt, max_new_tokens: int) -> Run:
        written = session.collect(prompt, replace(options, max_new_tokens=max_new_tokens))
        seconds, tokens = written.statistics.seconds, tuple(written.token_ids)
        statistics = written.statistics
        passes, streamed = statistics.passes, statistics.bytes_streamed
        return Run(max_new_tokens, tokens, seconds.decode, len(tokens), passes, seconds, streamed)

    speculation = options.speculation
    return Contender(speculation.method, speculation.budget, options.sampling.temperature, answer)


def _baseline(arguments: argparse.Namespace, session: Session, name: str, temperature: float) -> Contender:
    options = _options(arguments, REFERENCE, 0, temperature)
    run = BASELINES[name](session.engine, options)
    return Contender(name, 0, temperature, lambda prompt, count: Run(count, *run(prompt.tokens, count)))
