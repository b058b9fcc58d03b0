"""Every option a request can carry, with its default and its legal range."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from engine.errors import InputError
from engine.protocol.sentences import say

METHODS: tuple[str, ...] = ("auto", "specexec", "sequoia", "specinfer", "chain", "lookup", "none")
DEVICES: tuple[str, ...] = ("auto", "cpu", "cuda")
WEIGHTS: tuple[str, ...] = ("auto", "float32", "bfloat16", "float16", "int8", "nf4")
Place = Literal["auto", "device", "ram", "ssd"]
PLACES: tuple[str, ...] = ("auto", "device", "ram", "ssd")
KV: tuple[str, ...] = ("auto", "fit", "8")
ACTIVATIONS: tuple[str, ...] = ("exact", "int8")

LARGEST_BUDGET = 16384
LARGEST_MAP = 4096  # nodes of a prescribed tree, with the root
AUTO_ROOM = 256  # drafted nodes that memory is kept for at least, where the budget is automatic
SEQUENCE_BREAKERS = ("\n", ":", '"', "*")  # llama.cpp's
MOST_BREAKERS = 64
LONGEST_BREAKER = 40  # characters, as in llama.cpp

EMBEDDED = "embedded"
NO_DRAFT = "none"
UNMEASURED = "prior"
SELF_DRAFT = "self"
OWN_HEADS = "heads"
WITH_HEADS = "+heads"  # behind the source of a draft


def _require(condition: bool, option: str, hint: str) -> None:
    if not condition:
        raise InputError(say("{option} is out of range.", option=option), hint)


def _require_one_of(names: tuple[str, ...], name: str, option: str) -> None:
    _require(name in names, option, say("Give one of {names}.", names=", ".join(names)))


def _require_between(least: float, number: float, most: float, option: str) -> None:
    hint = say("Give a number from {least} to {most}.", least=least, most=most)
    _require(least <= number <= most, option, hint)


def _require_budget(budget: int) -> None:
    hint = say("Give a number of nodes from 1 to {most}, or auto.", most=LARGEST_BUDGET)
    _require(0 <= budget <= LARGEST_BUDGET, say("Budget {number}", number=budget), hint)


def is_grow_map(parents: tuple[int, ...]) -> bool:
    """Whether these are the parents of a tree, level by level, root first; no parents are no map, which is fine."""
    in_order = all(earlier <= later for earlier, later in pairwise(parents))
    above = all(0 <= parent < node for node, parent in enumerate(parents) if node)
    return not parents or (parents[0] == -1 and 2 <= len(parents) <= LARGEST_MAP and in_order and above)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Which pair to load, and where to.

    A source is `embedded`, a model folder, a GGUF file, or the id of a model in the local hub cache; `draft` may also
    be `auto` (the embedded draft for the embedded target, otherwise none), `none`, `self`: 4-bit copies of those of the
    target's layers that stream, or `heads`: those for further tokens that come with the target; `+heads` behind the
    source of a draft model merges them with it.
    `context_tokens` is the longest conversation kept, prompt and answer together; 0 means what the model allows,
    within what the engine finds sensible. `place` is where the target's layers are kept; the limits bound what is
    taken of each memory, 0 for what is free; `force` loads even what the plan says does not fit. `cache_dir` holds
    prepared models; empty for the platform's own cache folder. `overlap` lets the draft work while layers are awaited.
    `budget` is the largest tree that room is kept for, in drafted nodes, 0 for automatic: a larger one is possible, but
    takes memory that was not planned for.
    `kv`: how the target's keys and values are kept: `auto` as they are computed; `8` in 8 bits, with the error that
    this makes; `fit` in 8 bits where they do not fit otherwise.
    `activations`: what the target's quantised weights are multiplied with: `exact` as it is; `int8` rounded to 8 bits,
    where there are loops for that.
    """

    target: str = EMBEDDED
    draft: str = "auto"
    device: str = "auto"
    weights: str = "auto"
    context_tokens: int = 0
    place: Place = "auto"
    vram_limit_bytes: int = 0
    ram_limit_bytes: int = 0
    force: bool = False
    cache_dir: str = ""
    overlap: bool = True
    budget: int = 0
    kv: str = "auto"
    activations: str = "exact"

    def check(self) -> None:
        """Raise `InputError` if a field is outside its range."""
        _require_one_of(KV, self.kv, say("Keys and values '{name}'", name=self.kv))
        _require_one_of(ACTIVATIONS, self.activations, say("Activations '{name}'", name=self.activations))
        _require_one_of(PLACES, self.place, say("Place '{name}'", name=self.place))
        _require(self.vram_limit_bytes >= 0, say("The limit of GPU memory"), say("Give a number above 0."))
        _require(self.ram_limit_bytes >= 0, say("The limit of RAM"), say("Give a number above 0."))
        if not self.target:
            raise InputError(say("No model is given."), say("Give a model folder, a hub id or 'embedded'."))
        _require_one_of(DEVICES, self.device, say("Device '{name}'", name=self.device))
        _require_one_of(WEIGHTS, self.weights, say("Weights '{name}'", name=self.weights))
        context = say("Context {number}", number=self.context_tokens)
        _require(self.context_tokens >= 0, context, say("Give a number of tokens, or 0 for automatic."))
        _require_budget(self.budget)


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How one token is drawn from the target's distribution. Temperature 0 is greedy; top_k 0 means no limit.

    `repetition_penalty` divides (or multiplies, if negative) the logits of tokens seen so far, as in
    Keskar et al. 2019 (CTRL); `presence_penalty` is subtracted once from the logits of tokens already generated,
    `frequency_penalty` once for every time that they were. `bias`: added to the logits of tokens, (token, number).

    DRY (p-e-w, text-generation-webui pull request 5677), as llama.cpp has it: where a token would make a repetition of
    prompt and answer longer, its logit is lowered by `dry_multiplier` * `dry_base` ^ (tokens repeated so far -
    `dry_allowed_length`), if these are at least as many as allowed. Looked at are the last `dry_penalty_last_n` tokens,
    -1 for all; nothing repeats across one of the `dry_sequence_breakers`. XTC (p-e-w, pull request 6335): with a chance
    of `xtc_probability` at each position, of the tokens that have at least `xtc_threshold` all but the least likely
    are left out. A multiplier or probability of 0 is off.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    seed: int = 0
    frequency_penalty: float = 0.0
    bias: tuple[tuple[int, float], ...] = ()
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: tuple[str, ...] = SEQUENCE_BREAKERS
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1

    def check(self) -> None:
        """Raise `InputError` if a field is outside its range."""
        _require_between(0, self.temperature, 100, say("Temperature {number}", number=self.temperature))
        top_p = say("Top-p {number}", number=self.top_p)
        _require(0.0 < self.top_p <= 1.0, top_p, say("Give a number above 0 and up to 1."))
        _require(self.top_k >= 0, say("Top-k {number}", number=self.top_k), say("Give a whole number, 0 for no limit."))
        min_p = say("Min-p {number}", number=self.min_p)
        _require(0.0 <= self.min_p < 1.0, min_p, say("Give a number from 0 to below 1."))
        penalty = say("Repetition penalty {number}", number=self.repetition_penalty)
        _require_between(0.1, self.repetition_penalty, 10, penalty)
        penalty = say("Presence penalty {number}", number=self.presence_penalty)
        _require_between(-10, self.presence_penalty, 10, penalty)
        penalty = say("Frequency penalty {number}", number=self.frequency_penalty)
        _require_between(-10, self.frequency_penalty, 10, penalty)
        for token, added in self.bias:
            _require_between(-100, added, 100, say("The bias of token {number}", number=token))
        self._check_dry()
        chance = say("XTC probability {number}", number=self.xtc_probability)
        _require_between(0, self.xtc_probability, 1, chance)
        _require_between(0, self.xtc_threshold, 1, say("XTC threshold {number}", number=self.xtc_threshold))
        seeds = say("Give a whole number from {least} to {most}.", least=0, most="2^63 - 1")
        _require(0 <= self.seed < 2**63, say("Seed {number}", number=self.seed), seeds)

    def _check_dry(self) -> None:
        _require_between(0, self.dry_multiplier, 100, say("DRY multiplier {number}", number=self.dry_multiplier))
        _require_between(1, self.dry_base, 100, say("DRY base {number}", number=self.dry_base))
        allowed = say("DRY allowed length {number}", number=self.dry_allowed_length)
        _require(self.dry_allowed_length >= 0, allowed, say("Give a whole number of tokens, 0 or more."))
        last = say("DRY range {number}", number=self.dry_penalty_last_n)
        _require(self.dry_penalty_last_n >= -1, last, say("Give a whole number of tokens, or -1 for all."))
        breakers = say("The number of sequence breakers")
        _require(
            len(self.dry_sequence_breakers) <= MOST_BREAKERS, breakers, say("Give at most {most}.", most=MOST_BREAKERS)
        )
        for breaker in self.dry_sequence_breakers:
            lengths = say("Give texts of 1 to {most} characters.", most=LONGEST_BREAKER)
            _require(1 <= len(breaker) <= LONGEST_BREAKER, say("Sequence breaker '{text}'", text=breaker), lengths)


@dataclass(frozen=True, slots=True)
class SpeculationOptions:
    """How the draft grows its tree. Defaults for batch, depth, width and decay are SpecExec's (arXiv 2406.02532).

    `budget` counts drafted nodes, without the root; 0 means automatic. `lookup` adds branches that repeat what the
    text said before; `calibrate` ranks drafted nodes by how often such ones were accepted, not by the draft's word.
    `acceptance` is a file that `bench --calibrate` wrote, for Sequoia; empty for the one in the cache folder, if any;
    `prior` for none. `expansions` are SpecInfer's children of every node, level by level; empty for sequences that
    share nothing but the root. `grow_map` are the parents of Sequoia's tree, -1 for the root, where its shape is given.
    """

    method: str = "auto"
    budget: int = 0
    batch: int = 128
    depth: int = 32
    width: int = 32
    decay: float = 0.95
    acceptance: str = ""
    lookup: bool = True
    calibrate: bool = True
    expansions: tuple[int, ...] = ()
    grow_map: tuple[int, ...] = ()

    def check(self) -> None:
        """Raise `InputError` if a field is outside its range."""
        _require_one_of(METHODS, self.method, say("Method '{name}'", name=self.method))
        _require_budget(self.budget)
        _require_between(1, self.batch, 4096, say("Draft batch {number}", number=self.batch))
        _require_between(1, self.depth, 256, say("Tree depth {number}", number=self.depth))
        _require_between(1, self.width, 1024, say("Branch width {number}", number=self.width))
        decay = say("Score decay {number}", number=self.decay)
        _require(0.0 < self.decay <= 1.0, decay, say("Give a number above 0 and up to 1."))
        if self.acceptance and self.method != "sequoia":
            words = say("The method '{method}' knows no acceptance.", method=self.method)
            raise InputError(words, say("Leave out --acceptance."))
        if self.expansions and self.method != "specinfer":
            words = say("The method '{method}' knows no expansions.", method=self.method)
            raise InputError(words, say("Leave out --expansions."))
        if not all(1 <= each <= 64 for each in self.expansions):
            raise InputError(say("An expansion is out of range."), say("Give numbers of children from 1 to 64."))
        if self.grow_map and self.method != "sequoia":
            words = say("The method '{method}' knows no grow map.", method=self.method)
            raise InputError(words, say("Leave out --grow-map."))
        if not is_grow_map(self.grow_map):
            hint = say("Give parents like -1,0,0,1: each before its children.")
            raise InputError(say("The grow map is out of range."), hint)


ConstraintKind = Literal["json", "json_schema", "regex", "lark", "gbnf"]
CONSTRAINTS: tuple[str, ...] = ("json", "json_schema", "regex", "lark", "gbnf")
MOST_CONSTRAINT = 1 << 18  # characters of a schema or grammar
MOST_TOP_LOG_PROBS = 20


@dataclass(frozen=True, slots=True)
class CallMark:
    """What begins a call in an answer: `text`, which is `opening` in the grammar of the calls.

    `place`: where it counts: anywhere, only first in the answer, or as the recipient in a message's header.
    """

    text: str
    opening: str
    place: Literal["anywhere", "first", "recipient"] = "anywhere"


@dataclass(frozen=True, slots=True)
class Constraint:
    """What an answer must look like: `text` is a JSON schema, a regular expression or a grammar; `json` needs none.

    A model that reasons does so freely; its answer is held to it. `gbnf` is llama.cpp's form of a grammar. `whole`: all
    that the model writes is held to it, also its reasoning. `marks`: it is a grammar of calls, which holds from one of
    these on; what comes before them is free, or the whole answer is of the `other` form.
    """

    kind: ConstraintKind
    text: str = ""
    whole: bool = False
    marks: tuple[CallMark, ...] = ()
    other: "Constraint | None" = None

    def check(self) -> None:
        """Raise `InputError` if a field is outside its range."""
        _require_one_of(CONSTRAINTS, self.kind, say("Constraint '{name}'", name=self.kind))
        size = say("The size of the constraint")
        _require(len(self.text) <= MOST_CONSTRAINT, size, say("Give at most {most} characters.", most=MOST_CONSTRAINT))
        if self.other:
            self.other.check()


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """One answer: how its tokens are drawn, how they are speculated on, and when it ends.

    `constraint`: what the answer must look like. `top_log_probs`: how many of the likeliest tokens are told of at
    every position (`Round.top`). `verdicts`: every `Round` has its `verdicts`, also where nobody watches.
    `conversation`: what the answer belongs to, by any name; what was read for it may be kept on disk under that name,
    and nothing without one (see `KeepTexts`). `end_tokens` end the answer beside the model's own, also where these are
    ignored. `prediction`: what the answer may be, such as a file before a small change; it drafts as the text does, and
    changes the speed of an answer alone. `min_new_tokens`: no end token is said before so many others.
    """

    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    speculation: SpeculationOptions = field(default_factory=SpeculationOptions)
    max_new_tokens: int = 512
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    constraint: Constraint | None = None
    top_log_probs: int = 0
    verdicts: bool = False
    conversation: str = ""
    end_tokens: frozenset[int] = frozenset()
    prediction: str = ""
    min_new_tokens: int = 0

    def check(self) -> None:
        """Raise `InputError` if a field, here or below, is outside its range."""
        self.sampling.check()
        self.speculation.check()
        tokens = say("Max new tokens {number}", number=self.max_new_tokens)
        _require(self.max_new_tokens >= 1, tokens, say("Give a whole number of at least 1."))
        fewest = say("Min new tokens {number}", number=self.min_new_tokens)
        _require_between(0, self.min_new_tokens, self.max_new_tokens, fewest)
        stops = say("Give stop strings with at least one character.")
        _require(all(self.stop), say("An empty stop string"), stops)
        likeliest = say("Likeliest tokens {number}", number=self.top_log_probs)
        _require_between(0, self.top_log_probs, MOST_TOP_LOG_PROBS, likeliest)
        if self.constraint:
            self.constraint.check()
