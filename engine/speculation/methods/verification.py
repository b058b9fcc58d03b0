"""Verification: how the target draws its tokens, and which path of a tree is accepted by them or by rejection sampling.

Tokens are drawn after penalties and filters, with one uniform number per position.
"""

import hashlib
import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from engine.accelerator import reads_are_free, sent
from engine.errors import ModelError
from engine.protocol.options import SamplingOptions
from engine.protocol.sentences import say
from engine.speculation.interfaces import Sampling
from engine.speculation.methods.dry import Breaker, RepetitionPenalty
from engine.speculation.trees.tree import Path, Tree

COLD = 1e-6  # below it logits are first made relative to the largest one
TINY = torch.finfo(torch.float32).tiny  # what is smaller compares like 0
COLDEST = 1e-30  # lower temperatures mean the same in float32: only the likeliest tokens are left

Choose = Callable[[int], int]
"""(node of the tree) -> the token that the target says next."""


class UniformSource(Protocol):
    """Where the sampler finds the uniform number of each output position."""

    def __getitem__(self, position: int, /) -> float:
        """A number in [0, 1)."""


class Uniforms:
    """One uniform number in [0, 1) per output position, a function of the seed alone.

    Whatever method finds the token at a position, it is drawn with the same number: a tree changes the speed of an
    answer, not its text.
    """

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._uniforms: list[float] = []

    def __getitem__(self, position: int) -> float:
        while len(self._uniforms) <= position:
            self._uniforms.extend(torch.rand(256, generator=self._generator, dtype=torch.float64).tolist())
        return self._uniforms[position]


class Exclusions:
    """At which positions XTC leaves out the likeliest tokens: a function of the seed alone, like `Uniforms`."""

    def __init__(self, options: SamplingOptions) -> None:
        """Nowhere in a greedy answer."""
        self._probability = options.xtc_probability if options.temperature > 0 else 0.0
        self._uniforms = Uniforms(seed_of(options.seed, "exclusion"))

    def __getitem__(self, position: int) -> bool:
        return self._probability > 0 and self._uniforms[position] < self._probability


def seed_of(seed: int, purpose: str) -> int:
    """The seed of a stream of random numbers of its own, in an answer with this one."""
    return int.from_bytes(hashlib.blake2b(f"{purpose} {seed}".encode(), digest_size=7).digest())


class Sampler:
    """Draws the tokens of one answer."""

    def __init__(
        self,
        options: SamplingOptions,
        prompt: Sequence[int],
        uniforms: UniformSource,
        begun: Sequence[int] = (),
        *,
        breakers: Sequence[Breaker] = (),
        ends: Set[int] = frozenset(),
        least: int = 0,
    ) -> None:
        """`begun`: the end of the prompt that belongs to the answer, which goes on from there as if never cut off.

        `breakers`: DRY's, as tokens. `ends` are not drawn before `least` other tokens of the answer, but where nothing
        else may follow.
        """
        self._begun = tuple(begun)
        self._options = options
        self._prompt = sorted(set(prompt))
        self._uniforms = uniforms
        self._exclusions = Exclusions(options)
        self._repetition = RepetitionPenalty(options, breakers, prompt) if options.dry_multiplier else None
        self._ends, self._least = sorted(ends), least

    def draw(self, logits: Tensor, answer: Sequence[int]) -> int:
        """The token that follows `answer`, all tokens generated so far, the path down the tree included.

        logits: [vocabulary], raw, as the target gave them after the last of these tokens.
        """
        return int(self.ahead(answer, 1, logits.device).draw(logits, ()))

    def ahead(self, answer: Sequence[int], count: int, device: torch.device) -> "Ahead":
        """What drawing the next `count` tokens behind `answer` takes, all of it on `device`."""
        options, said = self._options, [*self._begun, *answer]
        seen = self._prompt if options.repetition_penalty != 1.0 else ()
        uniforms = [self._uniforms[len(said) + place] for place in range(count if options.temperature > 0 else 0)]
        tensors = _nothing(device)
        if uniforms or penalises(options):
            told = said if penalises(options) else ()
            tensors = sent(seen, device), sent(told, device), sent(uniforms, device, torch.float64)
        if self._repetition:
            self._repetition.go_to(answer)
        left = self._least - len(answer) if self._ends else 0
        return Ahead(
            options,
            *tensors,
            bias_of(options, device),
            self._repetition,
            Places(self._exclusions, len(said)),
            EndsLater(sent(self._ends, device), left) if left > 0 else None,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """Draws the next tokens of an answer on the device, one after the other, without the host seeing any of them.

    `prompt`, `said`: int64 [n], tokens that penalties apply to; `uniforms`: float64 [count], of the next positions.
    `bias`: None where no token has one. `repetition`: DRY's, which the host looks up; None where it is off.
    """

    options: SamplingOptions
    prompt: Tensor
    said: Tensor
    uniforms: Tensor
    bias: "Bias | None"
    repetition: RepetitionPenalty | None
    exclusions: "Places"
    ends: "EndsLater | None"

    @property
    def reads_tokens(self) -> bool:
        """Whether the host has to see the tokens all the same."""
        return self.repetition is not None

    @property
    def is_plain(self) -> bool:
        """Whether `penalised` changes nothing."""
        return not (self.bias or self.repetition or self.ends or penalises(self.options))

    def draw(self, logits: Tensor, sampled: Sequence[Tensor]) -> Tensor:
        """The token behind those that were `sampled` before, each of them int64 [1]; returns such a one.

        logits: [vocabulary], raw.
        """
        if self.options.temperature == 0:
            return self.penalised(logits, sampled).argmax(0, keepdim=True)
        place = len(sampled)
        return cdf_token(self.distribution(logits, sampled), self.uniforms[place : place + 1])

    def distribution(self, logits: Tensor, sampled: Sequence[Tensor]) -> Tensor:
        """What that token is drawn from, at a temperature above 0: float32 [vocabulary]."""
        return distribution(self.penalised(logits, sampled), self.options, excludes=self.excludes(len(sampled)))

    def excludes(self, place: int) -> bool:
        """Whether XTC acts on the token behind so many that were sampled."""
        return self.exclusions[place]

    def penalised(self, logits: Tensor, sampled: Sequence[Tensor], path: Sequence[int] | None = None) -> Tensor:
        """The logits in float32, bias and penalties applied; `path`: what was sampled, where the host knows it."""
        logits = logits.float() if self.bias is None else self.bias.added(logits.float())
        if penalises(self.options):
            logits = _penalised(logits, self.options, self.prompt, torch.cat([self.said, *sampled]))
        if self.repetition:
            seen = path if path is not None or not sampled else torch.cat([*sampled]).tolist()
            logits = self.repetition.penalised(logits, seen or ())
        return self.ends.barred(logits, len(sampled)) if self.ends else logits


@dataclass(frozen=True, slots=True)
class Places:
    """`Exclusions` by their places behind the first so many positions."""

    exclusions: Exclusions
    begin: int

    def __getitem__(self, place: int) -> bool:
        return self.exclusions[self.begin + place]


@dataclass(frozen=True, slots=True, eq=False)
class EndsLater:
    """Tokens that are not to be said in the next `count` places: int64 [n]."""

    tokens: Tensor
    count: int

    def barred(self, logits: Tensor, place: int) -> Tensor:
        """float32 [vocabulary] without them, unless a constraint leaves nothing else."""
        if place >= self.count:
            return logits
        barred = logits.index_fill(-1, self.tokens, -torch.inf)
        return torch.where(barred.amax(-1, keepdim=True) > -torch.inf, barred, logits)


@lru_cache
def _nothing(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """No tokens in the prompt, none that were said, and no uniforms."""
    return sent((), device), sent((), device), sent((), device, torch.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Bias:
    """What is added to the logits of some tokens before anything else: int64 [n], each once, and float32 [n]."""

    tokens: Tensor
    added_to: Tensor

    def added(self, logits: Tensor) -> Tensor:
        """float32 [..., vocabulary], as a new tensor."""
        return logits.index_add(-1, self.tokens, self.added_to.expand(*logits.shape[:-1], -1))


def bias_of(options: SamplingOptions, device: torch.device) -> Bias | None:
    """The bias of these options, on `device`; None where no token has one. Of a token's several, the last one."""
    if not options.bias:
        return None
    tokens, added = zip(*dict(options.bias).items(), strict=True)
    return Bias(sent(tokens, device), sent(added, device, torch.float32))


def penalises(options: SamplingOptions) -> bool:
    """Whether a token's logit depends on what was said before."""
    return options.repetition_penalty != 1.0 or options.presence_penalty != 0.0 or options.frequency_penalty != 0.0


def _penalised(logits: Tensor, options: SamplingOptions, prompt: Tensor, answer: Tensor) -> Tensor:
    """Repetition penalty (Keskar et al. 2019) over prompt and answer, then presence and frequency penalty (OpenAI's
    API) over the answer.

    A token may be there several times: every one of its places is written with the same number.
    """
    if options.repetition_penalty != 1.0:
        seen = torch.cat([prompt, answer])
        old = logits[seen]
        factor = options.repetition_penalty
        logits = logits.index_copy(0, seen, torch.where(old < 0, old * factor, old / factor))
    if options.presence_penalty != 0.0:
        logits = logits.index_copy(0, answer, logits[answer] - options.presence_penalty)
    if options.frequency_penalty != 0.0:
        # Counts are exact in whatever order they are added up; `bincount` would wait for the device.
        counts = torch.zeros_like(logits).index_add_(0, answer, logits.new_ones(len(answer)))
        logits = logits - options.frequency_penalty * counts
    return logits


def distribution(
    logits: Tensor, options: SamplingOptions, out: Tensor | None = None, *, excludes: bool = False
) -> Tensor:
    """Probabilities after temperature, top-k, top-p and min-p, in this order, as transformers applies them; then XTC.

    logits: float32 [..., vocabulary], temperature above 0; returns float32 of the same shape, each row summing to 1; in
    `out` where that is given. `excludes`: XTC acts.
    """
    scores, temperature = logits, options.temperature
    if temperature < COLD:  # logits / temperature would overflow to infinity, and the softmax to no number
        scores, temperature = scores - scores.amax(-1, keepdim=True), max(temperature, COLDEST)
    scores = scores / temperature
    if 0 < options.top_k < scores.shape[-1]:
        kth_best = scores.topk(options.top_k, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < kth_best, -torch.inf)
    if options.top_p < 1.0:
        scores = _keep_nucleus(scores, options.top_p)
    if options.min_p > 0.0:
        probabilities = scores.softmax(-1)
        floor = options.min_p * probabilities.amax(-1, keepdim=True)
        scores = scores.masked_fill(probabilities < floor, -torch.inf)
    if excludes:
        scores = _without_top_choices(scores, logits, options.xtc_threshold)
    return torch.softmax(scores, -1, out=out)


def _without_top_choices(scores: Tensor, logits: Tensor, threshold: float) -> Tensor:
    """XTC (p-e-w, text-generation-webui, pull request 6335): mask tokens that reach the threshold but the least likely.

    As in llama.cpp's order, what counts are the probabilities after the filters and before the temperature. Where
    several are the least likely, all of them stay: which it is must not depend on how they are sorted.
    """
    is_left = scores > -torch.inf
    probabilities = logits.masked_fill(~is_left, -torch.inf).softmax(-1)
    is_top = is_left & (probabilities >= threshold)
    least = probabilities.masked_fill(~is_top, torch.inf).amin(-1, keepdim=True)
    return scores.masked_fill(probabilities > least, -torch.inf)


def _keep_nucleus(scores: Tensor, top_p: float) -> Tensor:
    """Mask all but the fewest most probable tokens that together reach `top_p` (Holtzman et al. 2020)."""
    probabilities, order = scores.softmax(-1).sort(dim=-1, descending=True, stable=True)
    mass_before = probabilities.cumsum(-1) - probabilities
    beyond = mass_before >= max(top_p, TINY)  # never the first, before which there is nothing
    outside = beyond.scatter(-1, order, beyond)
    return scores.masked_fill(outside, -torch.inf)


def inverse_cdf(probabilities: Tensor, uniform: float) -> int:
    """The token whose interval of the cumulative distribution holds `uniform`; never one of probability 0.

    probabilities: [vocabulary], not all 0.
    """
    return int(cdf_token(probabilities, sent([uniform], probabilities.device, torch.float64)))


def cdf_token(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """`inverse_cdf` on the device: uniform float64 [1], returns int64 [1].

    Summed in double precision: at 128,000 tokens float32 would lose the tail.
    """
    cumulative = probabilities.double().cumsum(0)
    total = cumulative[-1:]
    # Only rounding lets the product reach the total: the largest number below it leads to a token with a probability.
    below = torch.nextafter(total, torch.zeros_like(total))
    found = torch.searchsorted(cumulative, torch.minimum(total * uniform, below), right=True)
    return found.clamp_(max=len(cumulative) - 1)  # of a row without numbers, as `require_numbers` ends the answer


def accept(tree: Tree, logits: Tensor, sampling: Sampling, answer: Sequence[int]) -> Path:
    """Draw from the target along the tree while the drawn token is a child; the first miss is the bonus token.

    Every token is drawn from the target itself, so the output has exactly the target's distribution, whatever the tree
    (Svirschevski et al. 2024, arXiv 2406.02532, section 4). logits: [nodes, vocabulary]; `answer`: all tokens of the
    answer up to the root. The host waits for the device once, whatever the tree; see `TreeOnDevice`. It waits for every
    accepted token where its penalty is looked up on the host.
    """
    levels, device = max(tree.depths) + 1, logits.device
    ahead = sampling.ahead(answer, levels, device)
    sampled: list[Tensor] = []
    if reads_are_free(device) or ahead.reads_tokens:

        def choose(node: int) -> int:
            sampled.append(ahead.draw(logits[node], sampled))
            return int(sampled[-1])

        return follow(tree, choose)
    on_device = TreeOnDevice(tree, device)
    for _ in range(levels):
        sampled.append(ahead.draw(on_device.row(logits), sampled))
        on_device.go_on(sampled[-1])
    return along(tree, torch.cat(sampled).tolist())


def follow(tree: Tree, choose: Choose) -> Path:
    """Go down the tree by the chosen tokens while they are children; the first that is none is the bonus token."""
    nodes = [0]
    while True:
        token = choose(nodes[-1])
        child = tree.child(nodes[-1], token)
        if child is None:
            return Path(tuple(nodes), bonus=token)
        nodes.append(child)


def along(tree: Tree, tokens: Sequence[int]) -> Path:
    """The path down the tree by these tokens, one for each of its levels."""
    each = iter(tokens)
    return follow(tree, lambda _node: next(each))


class TreeOnDevice:
    """Goes down a tree by tokens that the host has not seen: all its levels, as nobody knows where the path ends.

    Beyond that it goes on from anywhere: the host follows the same tokens later and stops where they leave the tree.
    A few small kernels for every level, instead of a wait for every accepted token.
    """

    def __init__(self, tree: Tree, device: torch.device) -> None:
        self.node = sent([0], device)
        self._tokens, self._parents = sent(tree.tokens, device), sent(tree.parents, device)

    def row(self, rows: Tensor) -> Tensor:
        """That of the node where it is: [width] of [nodes, width]."""
        return rows.index_select(0, self.node)[0]

    def go_on(self, token: Tensor) -> None:
        """To the child that carries `token`, int64 [1]."""
        is_child = (self._parents == self.node) & (self._tokens == token)
        self.node = is_child.int().argmax(0, keepdim=True)


@dataclass(frozen=True, slots=True)
class Said:
    """What the target thinks of every token of a path, the bonus token last: its own log-probabilities.

    `likeliest`: of every such place the tokens that would have been likeliest there, likeliest first.
    """

    log_probs: tuple[float, ...]
    likeliest: tuple[tuple[tuple[int, float], ...], ...] = ()

    def cut(self, tokens: int) -> "Said":
        """Of the first so many tokens."""
        return Said(self.log_probs[:tokens], self.likeliest[:tokens])


def require_numbers(log_probs: Sequence[float]) -> None:
    """Raise `ModelError` where the target computed no finite logits for one of these tokens of the answer."""
    if not all(map(math.isfinite, log_probs)):
        raise ModelError(
            say("The target computes logits that are not finite numbers."),
            say("Its weights are damaged, or too large for the chosen number type: try --weights bfloat16 or float32."),
        )


def said_of(tree: Tree, logits: Tensor, path: Path, top: int = 0) -> Said:
    """The target's own word on the path; `top`: how many of the likeliest tokens are wanted.

    logits: [nodes, vocabulary]. Only the rows of the path are looked at, one by one: nothing large is copied. The host
    reads once; double precision holds tokens, too.
    """
    top, parts = min(top, logits.shape[-1]), list[Tensor]()
    for node, token in zip(path.nodes, path.tokens(tree), strict=True):
        row = logits[node].log_softmax(-1, torch.float32)
        parts.append(row[token : token + 1])
        if top:
            best = row.topk(top)
            parts += [best.values, best.indices.double()]
    numbers: list[float] = torch.cat(parts).tolist()
    rows = [numbers[begin : begin + 1 + 2 * top] for begin in range(0, len(numbers), 1 + 2 * top)]
    best_of = (tuple(zip(map(int, row[1 + top :]), row[1 : 1 + top], strict=True)) for row in rows if top)
    return Said(tuple(row[0] for row in rows), tuple(best_of))
