"""The rotary embedding as a GGUF file describes it, in the terms of transformers' `rope_parameters`."""

import math
from collections.abc import Mapping

from engine.errors import ModelError
from engine.model.gguf.header import GgufHeader, GgufTensor, small_numbers
from engine.model.gguf.networks.names import FREQUENCIES, LONG_FACTORS, SHORT_FACTORS
from engine.model.gguf.settings import Settings
from engine.model.safe_config import AXES
from engine.protocol.sentences import say, shown

LOCAL_BASE = 10_000.0  # of layers with a window in Gemma 3 and later
# How the factors of Llama 3.1 and later, and of Llama 4, were made; they are published in no other way.
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
LLAMA4 = {**LLAMA3, "high_freq_factor": 1.0}
# Of Step 3.5, whose files have factors for frequencies of a whole head, though half of it turns.
STEP = {**LLAMA3, "high_freq_factor": 32.0, "original_max_position_embeddings": 131_072}
PHI_MOE = {"short_mscale": 1.243163121016122, "long_mscale": 1.243163121016122}  # of Phi 3.5 MoE; in no file
# By which Gemma 4's converter divides the frequencies that do not turn at all.
STANDING = 1e29
# Networks that turn half of a head, or a quarter, if their config.json does not say otherwise.
PARTIAL = ("chatglm", "mimo2", "phi2", "gptneox", "glm4", "glm4moe", "nemotron", "stablelm", "orion")
WITH_AXES = (
    "qwen35",
    "qwen35moe",
    "qwen4exp",
)  # positions have several, which are the same in text, and config.json says so
BY_ALPHA = ("hunyuan-dense", "hunyuan_vl")  # whose files may say the base before it was raised for long texts
DEEPSEEK = ("deepseek2", "deepseek32", "glm-dsa", "mistral4")
DEEPSEEK_LOG_FACTOR = 0.1  # what `yarn_log_multiplier` is times of `mscale_all_dim`, in these files alone

Rope = dict[str, object]


def rope_of(header: GgufHeader, settings: Settings, head_dim: int) -> dict[str, object]:
    """The entries of config.json about the rotary embedding; raises `ModelError` for kinds that are not known."""
    base = settings.real("rope.freq_base", 10_000.0)
    if settings.architecture in BY_ALPHA and (alpha := settings.real("rope.scaling.alpha", 0.0)) > 0 and head_dim > 2:
        base *= alpha ** (head_dim / (head_dim - 2))
    turned = settings.whole("rope.dimension_count", head_dim)
    if not 1 <= base < math.inf:
        raise settings.refused("rope.freq_base")
    if not 0 < turned <= head_dim or turned % 2:
        raise settings.refused("rope.dimension_count")
    if settings.architecture == "gemma4":
        return _by_kind(_proportional(header, settings, base), settings, LOCAL_BASE)
    if settings.architecture == "step35":
        return _step35(header, settings, base, head_dim)
    rope: Rope = {"rope_theta": base, **_scaling(header, settings, base, turned)}
    if turned < head_dim or settings.architecture in PARTIAL:
        rope["partial_rotary_factor"] = turned / head_dim
    if settings.architecture in WITH_AXES:
        sections = [section for section in settings.several("rope.dimension_sections") if section]
        if len(sections) < AXES or not all(type(part) is int and part > 0 for part in sections):
            raise settings.refused("rope.dimension_sections")
        rope |= {"mrope_section": sections, "mrope_interleaved": True}
    if settings.architecture in ("gemma3", "gemma3n", "mimo2", "laguna"):
        return _by_kind(rope, settings, LOCAL_BASE)
    if settings.architecture == "mellum" or (
        settings.architecture == "olmo2" and settings.has("attention.sliding_window")
    ):
        return _by_kind(rope, settings, base)
    return {"rope_parameters": rope}


def _by_kind(rope: Rope, settings: Settings, local_base: float) -> Rope:
    """Layers with a window have an embedding of their own, which is not scaled."""
    local: Rope = {"rope_theta": settings.real("rope.freq_base_swa", local_base), "rope_type": "default"}
    if settings.architecture == "mimo2":
        local["partial_rotary_factor"] = rope["partial_rotary_factor"]
    if settings.has("rope.dimension_count_swa"):
        turned = settings.whole("rope.dimension_count_swa")
        head_dim = settings.whole("attention.key_length_swa", settings.whole("attention.key_length"))
        if not 0 < turned <= head_dim:
            raise settings.refused("rope.dimension_count_swa")
        if turned < head_dim:
            local["partial_rotary_factor"] = turned / head_dim
    return {"rope_parameters": {"full_attention": rope, "sliding_attention": local}}


def _step35(header: GgufHeader, settings: Settings, base: float, turned: int) -> Rope:
    """Half of a head turns in layers that see everything, and all of it in those with a window."""
    if settings.whole("rope.dimension_count", turned) != turned:
        raise settings.refused("rope.dimension_count")
    rope: Rope = {"rope_theta": base, "partial_rotary_factor": 0.5, "rope_type": "default"}
    if FREQUENCIES in header.tensors:
        factors = _factors(header.tensors[FREQUENCIES])
        if _is_llama3(factors, base, turned, STEP):
            rope |= {"rope_type": "llama3", "factor": max(factors), **STEP}
        else:
            rope |= _by_frequency(factors[: turned // 4], base, turned // 2, settings)
    return _by_kind(rope, settings, LOCAL_BASE)


def _proportional(header: GgufHeader, settings: Settings, base: float) -> Rope:
    """The slowest frequencies stand still: the file divides them by a number that makes them nothing."""
    if FREQUENCIES not in header.tensors:
        raise settings.refused("rope.dimension_count")
    factors = _factors(header.tensors[FREQUENCIES])
    turning = factors.count(1.0)
    if factors[:turning] != [1.0] * turning or min(factors[turning:], default=STANDING) < STANDING:
        raise settings.refused("rope.dimension_count")
    part = turning / len(factors) if factors else 1.0
    return {"rope_theta": base, "rope_type": "proportional", "partial_rotary_factor": part}


def _scaling(header: GgufHeader, settings: Settings, base: float, turned: int) -> Rope:
    if SHORT_FACTORS in header.tensors and LONG_FACTORS in header.tensors:
        return _longrope(header, settings)
    if FREQUENCIES in header.tensors:
        return _by_frequency(_factors(header.tensors[FREQUENCIES]), base, turned, settings)
    kind, factor = settings.text("rope.scaling.type"), settings.real("rope.scaling.factor", 0.0)
    if not kind and settings.has("rope.scale_linear"):  # as the oldest files call it
        kind, factor = "linear", settings.real("rope.scale_linear")
    if kind in ("", "none") or factor in (0.0, 1.0):
        return {"rope_type": "default"}
    if not 0 < factor < math.inf:
        raise settings.refused("rope.scaling.factor")
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind == "yarn":
        return _yarn(settings, factor)
    raise settings.refused("rope.scaling.type")


def _yarn(settings: Settings, factor: float) -> Rope:
    rope: Rope = {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": settings.whole("rope.scaling.original_context_length"),
        "beta_fast": settings.real("rope.scaling.yarn_beta_fast", 32.0),
        "beta_slow": settings.real("rope.scaling.yarn_beta_slow", 1.0),
    }
    if settings.has("rope.scaling.attn_factor"):
        rope["attention_factor"] = settings.real("rope.scaling.attn_factor") * (0.1 * math.log(factor) + 1.0)
    if settings.has("rope.scaling.yarn_attn_factor"):  # which llama.cpp does not use
        rope["attention_factor"] = settings.real("rope.scaling.yarn_attn_factor")
    if settings.has("rope.scaling.yarn_log_multiplier"):
        multiplier = settings.real("rope.scaling.yarn_log_multiplier")
        is_deepseek = settings.architecture in DEEPSEEK
        every = round(multiplier / DEEPSEEK_LOG_FACTOR, 6) if is_deepseek else multiplier
        mscale = every if is_deepseek else settings.real("rope.scaling.mscale", 1.0)  # which files of Ollama say
        rope |= {"mscale": mscale, "mscale_all_dim": every}
    if settings.has("attention.temperature_scale"):
        rope["llama_4_scaling_beta"] = settings.real("attention.temperature_scale")
    if settings.architecture == "gpt-oss":
        rope["truncate"] = False
    return rope


def _longrope(header: GgufHeader, settings: Settings) -> Rope:
    short, long = (_factors(header.tensors[name]) for name in (SHORT_FACTORS, LONG_FACTORS))
    if not (short and long):
        return {"rope_type": "default"}
    rope: Rope = {
        "rope_type": "longrope",
        "short_factor": short,
        "long_factor": long,
        "original_max_position_embeddings": settings.whole(
            "rope.scaling.original_context_length", settings.whole("context_length")
        ),
    }
    if settings.has("rope.scaling.attn_factor"):
        rope["attention_factor"] = settings.real("rope.scaling.attn_factor")
    return rope | PHI_MOE if settings.architecture == "phimoe" else rope


def _by_frequency(factors: list[float], base: float, turned: int, settings: Settings) -> Rope:
    """What each frequency is divided by: as Llama 3 has it, or else longrope with the same factors at any length."""
    if factors and len(factors) != turned // 2:
        raise settings.refused("rope.dimension_count")
    largest = max(factors, default=1.0)
    if largest == 1.0:
        return {"rope_type": "default"}
    for known in (LLAMA3, LLAMA4):
        if _is_llama3(factors, base, turned, known):
            return {"rope_type": "llama3", "factor": largest, **known}
    return {
        "rope_type": "longrope",
        "short_factor": factors,
        "long_factor": factors,
        "attention_factor": 1.0,
        "original_max_position_embeddings": settings.whole("context_length"),
    }


def _is_llama3(factors: list[float], base: float, turned: int, known: Mapping[str, float]) -> bool:
    """Whether factors were made as Llama 3 makes them, with these numbers, for frequencies of so many dimensions."""
    high, length = known["high_freq_factor"], known["original_max_position_embeddings"]
    frequencies = [base ** (-2 * index / turned) for index in range(turned // 2)]
    largest = max(factors, default=1.0)
    made = [_llama3_factor(frequency, largest, high, length) for frequency in frequencies]
    return len(made) == len(factors) and all(
        math.isclose(a, b, rel_tol=1e-4) for a, b in zip(made, factors, strict=True)
    )


def _llama3_factor(frequency: float, factor: float, high: float, length: float) -> float:
    low = 1.0
    wavelength = 2 * math.pi / frequency
    if wavelength < length / high:
        return 1.0
    if wavelength >= length / low:  # also where both bounds are the same
        return factor
    smooth = (length / wavelength - low) / (high - low)
    return 1 / ((1 - smooth) / factor + smooth)


def _factors(tensor: GgufTensor) -> list[float]:
    """The positive numbers of a small tensor; none where facts have only the beginning of its file, enough for a plan.

    Raises `ModelError` for any others.
    """
    factors = small_numbers(tensor)
    if factors is not None and all(0 < factor < math.inf for factor in factors):
        return factors
    raise ModelError(
        say("{file} has frequencies in {tensor} that cannot be used.", file=tensor.shard, tensor=shown(tensor.name)),
        say("Download the model again."),
    )
