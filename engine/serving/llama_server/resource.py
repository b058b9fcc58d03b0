"""What llama-server's addresses answer with, as objects."""

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from engine import __version__
from engine.protocol.options import GenerateOptions
from engine.serving.bounds import MOST_TOKENS
from engine.serving.figures import Timings
from engine.serving.llama_server.request import LlamaFields
from engine.serving.model_names import served_name

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.serving.desk import Desk

SLOT = 0  # there is one: answers are written one after the other
UNSEEN_SEED = (1 << 32) - 1  # what llama-server calls one that is drawn anew for every answer

StopType = Literal["none", "eos", "limit", "word"]


class LikelyToken(BaseModel):
    """A token and the logarithm of its probability. `bytes`: empty where the token breaks a character."""

    token: str
    bytes: list[int]
    logprob: float


class TokenProbability(LikelyToken):
    """A token of the answer, and the likeliest ones in its place."""

    id: int
    top_logprobs: list[LikelyToken]


class Settings(BaseModel):
    """How an answer is written, as far as it can be told here. `n_predict`: -1 for as much as the context holds."""

    n_ctx: int
    n_predict: int
    max_tokens: int
    seed: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: list[str]
    xtc_probability: float
    xtc_threshold: float
    logit_bias: list[tuple[int, float]]
    n_probs: int
    stop: list[str]
    ignore_eos: bool
    grammar: str
    samplers: list[str]
    stream: bool
    timings_per_token: bool = False
    post_sampling_probs: bool = False


class LlamaCompletion(BaseModel):
    """An answer, or the fields of it that were asked for, by their paths. `tokens_cached`: in the context."""

    model_config = ConfigDict(extra="allow")

    index: int = 0
    content: str = ""
    tokens: list[int] = []
    id_slot: int = SLOT
    stop: bool = True
    model: str = ""
    tokens_predicted: int = 0
    tokens_evaluated: int = 0
    generation_settings: Settings | None = None
    prompt: str = ""
    has_new_line: bool = False
    truncated: bool = False
    stop_type: StopType = "none"
    stopping_word: str = ""
    tokens_cached: int = 0
    timings: Timings | None = None
    completion_probabilities: list[TokenProbability] = []


class DefaultSettings(BaseModel):
    """What holds for an answer where nothing is asked for."""

    id: int = SLOT
    n_ctx: int
    speculative: bool
    is_processing: bool
    params: Settings


class Modalities(BaseModel):
    """Of what is read."""

    vision: bool = False
    audio: bool = False
    video: bool = False


class Props(BaseModel):
    """The loaded pair. `model_path` is its name, too: clients are told no paths of this computer."""

    default_generation_settings: DefaultSettings
    total_slots: int = 1
    model_alias: str
    model_path: str
    modalities: Modalities
    endpoint_slots: bool = True
    endpoint_props: bool = False
    endpoint_metrics: bool = True
    chat_template: str
    bos_token: str
    eos_token: str
    build_info: str = f"coppice-{__version__}"
    is_sleeping: bool = False


class WrittenTemplate(BaseModel):
    """A conversation as the model reads it."""

    prompt: str


def settings_of(
    options: GenerateOptions, context_tokens: int, stream: bool, timings_per_token: bool = False
) -> Settings:
    """As an answer is written."""
    drawn = options.sampling
    most = -1 if options.max_new_tokens == MOST_TOKENS else options.max_new_tokens
    constraint = options.constraint
    return Settings(
        n_ctx=context_tokens,
        n_predict=most,
        max_tokens=most,
        seed=drawn.seed,
        temperature=drawn.temperature,
        top_k=drawn.top_k,
        top_p=drawn.top_p,
        min_p=drawn.min_p,
        repeat_penalty=drawn.repetition_penalty,
        presence_penalty=drawn.presence_penalty,
        frequency_penalty=drawn.frequency_penalty,
        dry_multiplier=drawn.dry_multiplier,
        dry_base=drawn.dry_base,
        dry_allowed_length=drawn.dry_allowed_length,
        dry_penalty_last_n=drawn.dry_penalty_last_n,
        dry_sequence_breakers=[*drawn.dry_sequence_breakers],
        xtc_probability=drawn.xtc_probability,
        xtc_threshold=drawn.xtc_threshold,
        logit_bias=[*drawn.bias],
        n_probs=options.top_log_probs,
        stop=[*options.stop],
        ignore_eos=options.ignore_eos,
        grammar=constraint.text if constraint and constraint.kind in ("gbnf", "lark") else "",
        samplers=["penalties", "dry", "temperature", "top_k", "top_p", "min_p", "xtc"],
        stream=stream,
        timings_per_token=timings_per_token,
    )


def slot_of(engine: "Engine", desk: "Desk") -> DefaultSettings:
    """What it is at."""
    settings = settings_of(LlamaFields.model_validate({}).generation(0), engine.context_tokens, stream=False)
    return DefaultSettings(
        n_ctx=engine.context_tokens,
        speculative=engine.draft is not None,
        is_processing=desk.is_busy,
        params=settings.model_copy(update={"seed": UNSEEN_SEED}),
    )


def props_of(engine: "Engine", desk: "Desk") -> Props:
    """The loaded pair."""
    tokenizer = engine.tokenizer
    begin, end = tokenizer.role("bos_token"), tokenizer.role("eos_token")
    return Props(
        default_generation_settings=slot_of(engine, desk),
        model_alias=served_name(engine),
        model_path=served_name(engine),
        modalities=Modalities(vision=engine.reads_pictures),
        chat_template=tokenizer.chat_template,
        bos_token="" if begin is None else tokenizer.piece(begin),
        eos_token="" if end is None else tokenizer.piece(end),
    )
